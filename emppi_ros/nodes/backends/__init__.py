"""Backends of the bridge: one module for each way to command a robot."""

from dataclasses import dataclass
import importlib

from rclpy.node import Node

from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.backends.interface import Backend
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots.robot import BACKENDS, Robot


@dataclass(frozen=True)
class BackendConfig:
    """Parameters that select the bridge's backend."""

    backend: str = key('', doc="interface to the robot; '': the backend in the robot's YAML")
    hardware: bool = key(
        False, doc='whether commands move a real robot; not possible with use_sim_time'
    )
    forward_on_hardware: bool = key(False, doc='allow the backend forward on hardware')


def load(name: str) -> type[Backend]:
    """Return the class of a backend: `BACKEND` of the module of its name."""
    module = importlib.import_module(f'{__name__}.{name.replace("-", "_")}')
    backend: type[Backend] = module.BACKEND
    return backend


def connect(node: Node, robot: Robot, clock: CommandClock, config: BackendConfig) -> Backend:
    """
    Return a connected backend, the robot's own if none is configured.

    A backend that is unsafe on hardware raises ConfigError there, unless its parameter allows it.
    """
    name = config.backend or robot.backend
    cls = load(name)
    if config.hardware and cls.unsafe:
        if not (cls.allowed_by and getattr(config, cls.allowed_by)):
            raise ConfigError(
                f'backend {name!r} refuses to drive hardware: {cls.unsafe}. Use {_remedy(cls)}'
            )
        node.get_logger().warning(f'backend {name!r} drives hardware, as configured: {cls.unsafe}')
    if clock.simulated and cls.measures:
        raise ConfigError(
            f'backend {name!r} drives a real robot, which does not follow /clock: set '
            'use_sim_time to false'
        )
    return cls(node, robot, clock)


def _remedy(cls: type[Backend]) -> str:
    safe = ' or '.join(f'backend:={name}' for name in sorted(BACKENDS) if not load(name).unsafe)
    if not cls.allowed_by:
        return safe
    return f"{safe}; or, at your own risk, set the bridge's parameter {cls.allowed_by} to true"
