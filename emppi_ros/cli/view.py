"""`emppi view`: a task, live, in a browser."""

import argparse
from collections.abc import Callable
import functools
from types import ModuleType
from typing import Any

from emppi_ros.cli import optional, output, ros
from emppi_ros.cli.interrupt import Ending
from emppi_ros.core.errors import ConfigError
from emppi_ros.tasks.task import load_task

PORT = 8080


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'view',
        help='a task, live, in a browser',
        description='Run a task against the simulated robot, in real time, and show it in a '
        'browser on this machine: scene, belief, costs, latencies; buttons and sliders. Nothing '
        'moves before it is armed there. Ctrl-C ends it. With --ros: show the ROS 2 graph that '
        'runs, which goes on afterwards.',
    )
    parser.add_argument(
        'task', metavar='TASK', nargs='?', help='the name of a task, or a YAML file'
    )
    parser.add_argument('--ros', action='store_true', help='show the graph that runs')
    parser.add_argument('--namespace', default='', help="with --ros: the nodes' namespace")
    parser.add_argument(
        '--port', type=port, default=PORT, help=f'of this machine ({PORT}); 0: any'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='of all randomness (0)')
    parser.add_argument(
        '--truth', metavar='NAME=VALUE', action='append', default=[],
        help='a hidden true parameter, else drawn from the seed; may be repeated',
    )  # fmt: skip
    parser.add_argument(
        '--prior', metavar='FILE', default='', help='where the belief starts, as for `emppi run`'
    )
    parser.set_defaults(execute=view)


def port(text: str) -> int:
    """Return a port from the command line."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'{text!r} is no port from 0 to 65535')
    return int(text)


def module(name: str) -> ModuleType:
    """Return a module of `emppi_ros.viz.web`; ConfigError where viser is not installed."""
    return optional.load(
        f'emppi_ros.viz.web.{name}',
        "what the page needs is not installed ({}): pip install 'emppi_ros[view]'",
    )


def view(options: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C, or SIGTERM."""
    if options.ros == (options.task is not None):
        raise ConfigError('expected either a task, to be simulated here, or --ros: one of them')
    serving, page = map(module, ('server', 'page'))
    make = prepare(options)
    server = serving.Server(options.port)
    try:
        source = make()
        try:
            show(server, source, page)
        finally:
            source.close()
    finally:
        server.stop()


def prepare(options: argparse.Namespace) -> Callable[[], Any]:
    """Return what makes the page's source; what was given is checked before."""
    if options.ros:
        ros.module('common.priority').give_way()  # the robot comes first
        return functools.partial(ros.module('tools.web_source').RosSource, options.namespace)
    task = load_task(options.task)
    if options.prior:
        task = task.with_prior(options.prior)
    truth = output.assignments(options.truth)
    return functools.partial(module('simulated_source').SimulatedSource, task, options.seed, truth)


def show(server: Any, source: Any, page: ModuleType) -> None:
    """Say where the page is, and keep it up to date."""
    ended = Ending()
    found = page.Page(server, source, source.snapshot())
    print(f'{source.name}: {server.address} (Ctrl-C ends it)', flush=True)
    found.run(ended.wait)
