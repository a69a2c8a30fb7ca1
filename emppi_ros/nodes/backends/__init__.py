"""Backends of the bridge, one module for each way to command a robot, and their interface."""

from dataclasses import dataclass
import importlib
import math
from typing import NamedTuple

from rclpy.node import Node

from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError, prefix_errors
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots.robot import BACKENDS, Robot


class BackendCommand(NamedTuple):
    """What the bridge passes to the backend once per cycle."""

    time: float  # s, clock of the bridge
    command: Command
    position: Array  # (joints,) as measured last
    engaged: bool  # whether the bridge follows plans, or would if it had any
    measured_at: float = math.inf  # s, when the arm was at the position; later than `time`: now


class BackendState(NamedTuple):
    """The robot's state, read by a backend that is connected to the robot itself."""

    stamp: float  # s, the clock that stamps messages
    position: Array  # (joints,) of the robot's joints
    velocity: Array


class Backend:
    """A way to command the robot; raises ConfigError if the robot does not fit."""

    unsafe = ''  # why it must not drive hardware, for the operator; '' if it may
    allowed_by = ''  # field of BackendConfig that allows an unsafe one on hardware
    delay_s = 0.0  # between a command and the robot's motion
    settle_s = 0.0  # time that the robot's controller needs when newly armed
    measures = False  # whether it reads joint states from the robot itself
    topics: tuple[tuple[str, type], ...] = ()  # name and type, published by the bridge only
    drives = True  # whether the robot moves as commanded
    clock_slack_s = math.inf  # allowed difference between the robot's clock and ours

    def __init__(self, node: Node, robot: Robot, clock: CommandClock) -> None:
        """Connect or advertise; send nothing yet. Times are those of `clock`."""

    def send(self, cycle: BackendCommand) -> Array:
        """Send a command; return what the robot follows at this moment (joints,)."""
        raise NotImplementedError

    def is_late(self, now: float) -> bool:
        """Return whether the robot may have begun to stop on its own for lack of commands."""
        return False

    def resume(self, now: float) -> Command | None:
        """Return the robot's own motion after missed commands; None if the last command holds."""
        return None

    def measure(self) -> BackendState | None:
        """Return the robot's state; None if it is not new."""
        return None

    def refusal(self) -> str:
        """Return why the robot would not follow commands, for the operator; '' if it would."""
        return ''

    def fault(self) -> str:
        """Return why the robot stopped on its own, for the operator; '' if it did not."""
        return ''

    def recover(self) -> None:
        """Clear the robot's own fault on the operator's request; EmppiError if it stays."""

    def close(self) -> None:
        """Disconnect."""


def command_topic(robot: Robot, kind: str = '') -> str:
    """Return the topic for a kind of command, by default the robot's own; ConfigError if none."""
    return prefix_errors(f'robot {robot.name!r}', robot.command_topic, kind)


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
            safe = (f'backend:={name}' for name in sorted(BACKENDS) if not load(name).unsafe)
            remedy = ' or '.join(safe)
            if cls.allowed_by:
                remedy += (
                    f"; or, at your own risk, set the bridge's parameter {cls.allowed_by} to true"
                )
            raise ConfigError(
                f'backend {name!r} refuses to drive hardware: {cls.unsafe}. Use {remedy}'
            )
        node.get_logger().warning(f'backend {name!r} drives hardware, as configured: {cls.unsafe}')
    if clock.simulated and cls.measures:
        raise ConfigError(
            f'backend {name!r} drives a real robot, which does not follow /clock: set '
            'use_sim_time to false'
        )
    return cls(node, robot, clock)
