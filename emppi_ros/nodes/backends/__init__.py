"""Backends of the bridge: one module for each way to command a robot."""

import importlib

from rclpy.node import Node

from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.backends.interface import Backend
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots.robot import BACKENDS, Robot


def load(name: str) -> type[Backend]:
    """Return the class of a backend; `BACKENDS` in `robots/robot.py` lists them all."""
    module, _, cls = BACKENDS[name].path.partition(':')
    return getattr(importlib.import_module(module), cls)


def connect(
    node: Node, robot: Robot, clock: CommandClock, name: str, hardware: bool, insist: bool
) -> Backend:
    """
    Return a connected backend, the robot's own if `name` is empty.

    A backend that is unsafe on hardware raises ConfigError there, unless `insist` is set.
    """
    name = name or robot.backend
    cls = load(name)
    if hardware and cls.unsafe:
        if not insist:
            raise ConfigError(
                f'backend {name!r} refuses to drive hardware: {cls.unsafe}. Use '
                f'{_safe_backends(name)}; or, at your own risk, set {name}_on_hardware:=true'
            )
        node.get_logger().warning(f'backend {name!r} drives hardware, as configured: {cls.unsafe}')
    if clock.simulated and cls.measures:
        raise ConfigError(
            f'backend {name!r} drives a real robot, which does not follow /clock: set '
            'use_sim_time to false'
        )
    return cls(node, robot, clock)


def _safe_backends(without: str) -> str:
    safe = [f'backend:={name}' for name in sorted(BACKENDS) if not load(name).unsafe]
    return ' or '.join(text for text in safe if text != f'backend:={without}')
