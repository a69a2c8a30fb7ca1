"""Start a node as a process: `python -m emppi_ros.nodes planner`, installed as `emppi_planner`."""

import faulthandler
import functools
import importlib
import os
import signal
import sys

from emppi_ros.nodes.common.graph import PACKAGE

NODES = (
    'planner', 'belief', 'bridge', 'simulator', 'markers', 'task_server', 'depth_camera',
    'tracker', 'articulation',
)  # fmt: skip


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


# the entry points of setup.py, such as `emppi_ros.nodes.__main__:planner`
globals().update({name: functools.partial(start, name) for name in NODES})

if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in NODES:
        sys.exit(f'usage: python -m emppi_ros.nodes {{{",".join(NODES)}}} [--ros-args ...]')
    start(sys.argv.pop(1))
