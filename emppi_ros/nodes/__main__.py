"""Start a node as a process: `python -m emppi_ros.nodes planner`, installed as `emppi_planner`."""

import faulthandler
import functools
import importlib
import os
import signal
import sys
from typing import Any

from emppi_ros.nodes.common.graph import PACKAGE

NODES: dict[str, tuple[str, dict[str, Any]]] = {  # class and priority
    'planner': ('PlannerNode', {'nice': 5, 'real_time': 1}),
    'belief': ('BeliefNode', {'nice': 10}),
    'bridge': ('BridgeNode', {'real_time': 10}),
    'simulator': ('SimulatorNode', {'real_time': 10}),
    'markers': ('MarkersNode', {'nice': 15}),
    'task_server': ('TaskServerNode', {}),
    'depth_camera': ('DepthCameraNode', {}),
    'tracker': ('TrackerNode', {}),
    'articulation': ('ArticulationNode', {'nice': 19}),
}


def start(name: str) -> None:
    """
    Import and run a node; exit with its code, or with 0 after SIGINT or SIGTERM.

    A signal during the imports, which take a second, ends the process without a traceback.
    """
    faulthandler.enable()  # a crash in native code says where
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    node, priority = NODES[name]
    module = importlib.import_module(f'{PACKAGE}.nodes.{name}.node')
    process = importlib.import_module(f'{PACKAGE}.nodes.common.process')
    sys.exit(process.run(getattr(module, node), **priority))


# the entry points of setup.py, such as `emppi_ros.nodes.__main__:planner`
globals().update({name: functools.partial(start, name) for name in NODES})

if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in NODES:
        sys.exit(f'usage: python -m emppi_ros.nodes {{{",".join(NODES)}}} [--ros-args ...]')
    start(sys.argv.pop(1))
