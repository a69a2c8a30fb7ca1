"""A node as a process: starts, spins, and ends in order on SIGINT and SIGTERM."""

from collections.abc import Callable, Sequence
import gc
import os
import signal
import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import middleware, priority


def run(
    make: Callable[[], Node],
    nice: int = 0,
    real_time: int = 0,
    idle: bool = False,
    args: Sequence[str] | None = None,
) -> int:
    """
    Run one node until a signal; return the exit code.

    `nice` nodes leave the processor to others, `idle` ones run where nobody else wants to (Linux:
    whoever wakes up has the processor at once); those that must be in time get a `real_time`
    priority (0: none) where the system permits it, except while they say that they are not
    `urgent`.

    rclpy's own signal handlers would close the context at once, and with it the way by which
    the bridge brakes the robot; here a signal only ends the loop.
    """
    stopping: list[int] = []
    middleware.set_up()
    os.nice(nice)
    if idle:
        priority.give_way()
    if real_time:
        # Python lets each thread go on for 5 ms before another, which is more than a cycle:
        # whoever has to be in time waits for a tenth of that
        sys.setswitchinterval(5e-4)
        priority.be_prompt(real_time)  # first, so that the middleware's threads inherit it
    held = real_time
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    try:
        node = make()
    except EmppiError as error:
        print(f'error: {error}', file=sys.stderr)
        rclpy.shutdown()
        return 2
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    begin, end = getattr(node, 'begin', None), getattr(node, 'end', None)
    try:
        if begin is not None:
            begin()
        gc.collect()
        gc.freeze()  # what start-up made lives on: collections need not look at it again
        while not stopping and not getattr(node, 'failed', False):
            executor.spin_once(timeout_sec=0.1)  # signals are noticed between two of these
            level = real_time if getattr(node, 'urgent', True) else 0
            if level != held:
                held = level
                priority.be_prompt(level)
    except ExternalShutdownException:
        pass
    finally:
        if end is not None and rclpy.ok():
            end()
        executor.remove_node(node)
        node.destroy_node()
        rclpy.try_shutdown()
    return 2 if getattr(node, 'failed', False) else 0
