"""Run a node as a process: scheduling priority, spinning, and shutdown on SIGINT and SIGTERM."""

from collections.abc import Callable
import contextlib
import gc
import os
from pathlib import Path
import signal
import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import middleware

_THREADS = Path('/proc/self/task')


def run(make: Callable[[], Node], nice: int = 0, real_time: int = 0) -> int:
    """
    Run one node until a signal; return the exit code.

    `nice` is the nice level of the process, and `real_time` a SCHED_RR priority (0: none), which
    applies where it is permitted, and only while the node's attribute `urgent`, if it has one, is
    true.
    """
    stopping: list[int] = []
    middleware.configure()
    os.nice(nice)
    if real_time:
        # A Python thread may hold the interpreter for 5 ms, longer than a control cycle.
        sys.setswitchinterval(5e-4)
        set_real_time_priority(real_time)  # first, so that the middleware's threads inherit it
    current = real_time
    # the handlers of rclpy shut down the context at once: the bridge could not brake any more
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
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
    startup, shutdown = getattr(node, 'startup', None), getattr(node, 'shutdown', None)
    try:
        if startup is not None:
            startup()
        gc.collect()
        gc.freeze()  # objects made at startup live on: exclude them from garbage collection
        while not stopping and not getattr(node, 'failed', False):
            executor.spin_once(timeout_sec=0.1)  # signals are checked after each call
            level = real_time if getattr(node, 'urgent', True) else 0
            if level != current:
                current = level
                set_real_time_priority(level)
    except ExternalShutdownException:
        pass
    finally:
        failed = getattr(node, 'failed', False)  # a shutdown forgets it
        if shutdown is not None and rclpy.ok():
            shutdown()
        executor.remove_node(node)
        node.destroy_node()
        rclpy.try_shutdown()
    return 2 if failed else 0


def set_real_time_priority(level: int) -> None:
    """Give all threads a SCHED_RR priority, where permitted; 0 restores normal scheduling."""
    with contextlib.suppress(AttributeError, FileNotFoundError):  # not Linux
        policy = os.SCHED_RR if level else os.SCHED_OTHER
        for thread in _THREADS.iterdir():
            with contextlib.suppress(OSError):  # not permitted, or the thread has ended
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(level))


def set_idle_priority() -> None:
    """Run this process only while the processor is idle (SCHED_IDLE); Linux only."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class CommandNode:
    """The node of a command of `emppi`; without services, so that all can share an enclave."""

    def __init__(self, name: str, namespace: str = '', domain: int | None = None) -> None:
        middleware.configure()
        self._context = rclpy.Context()
        self._context.init(domain_id=domain)
        self.node = Node(
            name,
            namespace=namespace,
            context=self._context,
            start_parameter_services=False,
            parameter_overrides=[Parameter('start_type_description_service', value=False)],
        )
        self.executor = SingleThreadedExecutor(context=self._context)
        self.executor.add_node(self.node)

    def close(self) -> None:
        """Leave the graph."""
        self.executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()
