"""Start a node as a process: `python -m emppi_ros.nodes planner`, installed as `emppi_planner`."""

import faulthandler
import functools
import importlib
import os
import signal
import sys

from emppi_ros.nodes.common.graph import PACKAGE


def start(name: str) -> None:
    """
    Import and run a node; exit with its code, or with 0 after SIGINT or SIGTERM.

    The imports take a second. A signal in that time ends the process at once, without a
    traceback; later the node handles signals itself (`process.run`).
    """
    faulthandler.enable()  # a crash in native code says where
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    importlib.import_module(f'{PACKAGE}.nodes.{name}.node').main()


planner = functools.partial(start, 'planner')
belief = functools.partial(start, 'belief')
bridge = functools.partial(start, 'bridge')
simulator = functools.partial(start, 'simulator')
markers = functools.partial(start, 'markers')
task_server = functools.partial(start, 'task_server')
depth_camera = functools.partial(start, 'depth_camera')
tracker = functools.partial(start, 'tracker')
articulation = functools.partial(start, 'articulation')

if __name__ == '__main__':
    NODES = (
        'planner', 'belief', 'bridge', 'simulator', 'markers', 'task_server', 'depth_camera',
        'tracker', 'articulation',
    )  # fmt: skip
    if len(sys.argv) < 2 or sys.argv[1] not in NODES:
        sys.exit(f'usage: python -m emppi_ros.nodes {{{",".join(NODES)}}} [--ros-args ...]')
    start(sys.argv.pop(1))
