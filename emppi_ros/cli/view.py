"""`emppi view`: show and control a task in a browser."""

import argparse
from collections.abc import Callable
import contextlib
import functools
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.cli.command import Subcommand
from emppi_ros.cli.interrupt import StopSignal
from emppi_ros.core.errors import ConfigError
from emppi_ros.sim.true_parameters import parse_truth
from emppi_ros.tasks.task import load_task


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    command = Subcommand(commands, 'view', view)
    add = command.option
    add('task', 'name of a task, or a YAML file', str, 'TASK', nargs='?')
    add('--ros', 'show the running ROS 2 graph')
    add('--namespace', 'with --ros: namespace of the nodes', str, default='')
    port = output.number(lambda value: 0 <= value <= 65535, 'a port from 0 to 65535', int)
    add('--port', 'port on this machine; 0: any free one', port, default=8080)
    add('--seed', 'random seed', output.whole, default=0)
    command.add_truth()
    command.add_prior()


def view(options: argparse.Namespace) -> None:
    """
    Show and control a task in a browser.

    Simulate a task in real time and show it in a browser on this machine: scene, belief, costs
    and latencies, with buttons and sliders. The robot moves only after it is armed there. Stop
    with Ctrl-C. With --ros, show the running ROS 2 graph, which keeps running afterwards.
    """
    if options.ros == (options.task is not None):
        raise ConfigError('give either a task to simulate, or --ros')
    web_server, page = map(extras.load_web_module, ('server', 'page'))
    make = prepare(options)
    with contextlib.ExitStack() as stack:
        server = web_server.Server(options.port)
        stack.callback(server.stop)
        source = make()
        stack.callback(source.close)
        stop = StopSignal()
        shown = page.Page(server, source, source.snapshot())
        print(f'{source.name}: {server.address} (stop with Ctrl-C)', flush=True)
        shown.run(stop.wait)


def prepare(options: argparse.Namespace) -> Callable[[], Any]:
    """Return a function that creates the page's source; check the options first."""
    if options.ros:
        extras.load_node_module('common.process').set_idle_priority()  # the robot comes first
        source = extras.load_node_module('tools.web_source').RosSource
        return functools.partial(source, options.namespace)
    task = load_task(options.task).with_prior(options.prior)
    truth = parse_truth(options.truth, '--truth')
    source = extras.load_web_module('robot_source').SimulatedSource
    return functools.partial(source, task, options.seed, truth)
