"""What every way to the robot has in common, and which topics a robot takes commands on."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rclpy.node import Node

from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.core.errors import ConfigError
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]


class Cycle(NamedTuple):
    """What a backend is told, once per cycle of the bridge."""

    time: float  # s, a clock that never jumps
    command: Command
    position: Array  # (joints,) as measured last
    engaged: bool  # whether the bridge follows plans now, or would if it had any

    @property
    def value(self) -> Array:
        """The command (joints,): velocity, position or effort."""
        return self.command.value


class Measured(NamedTuple):
    """What a backend that talks to the robot itself reads from it."""

    stamp: float  # s, the clock that stamps messages
    position: Array  # (joints,) of the robot's joints
    velocity: Array
    external_torque: Array | None = None  # (joints,) N m, as the robot estimates it


class Backend:
    """A way to the robot. Making one raises ConfigError if the robot does not fit."""

    unsafe = ''  # why it is to drive no hardware, in words for people; '' if it may
    delay_s = 0.0  # by how much the robot's motion is later than the command
    settle_s = 0.0  # how long, when newly armed, the robot takes to take over where it is
    measures = False  # whether it reads joint states from the robot itself
    topics: tuple[tuple[str, type], ...] = ()  # name and message type: ours alone to publish
    drives = True  # whether the robot moves as commanded
    clock_slack_s = math.inf  # by how much the clock of the joint states may differ from ours

    def __init__(self, node: Node, robot: Robot) -> None:
        """Connect, or advertise; nothing is sent yet."""
        raise NotImplementedError

    def send(self, cycle: Cycle) -> Array:
        """Let the robot do what was commanded; return (joints,) what it follows just now."""
        raise NotImplementedError

    def is_late(self, now: float) -> bool:
        """Return whether the robot may have begun to act by itself, for want of commands."""
        return False

    def resume(self, now: float) -> Command | None:
        """
        Return what the robot did by itself that got no command for a while: go on from there.

        None if it still does what it was commanded last.
        """
        return None

    def measure(self) -> Measured | None:
        """Return what the robot itself says now; None if nothing is new."""
        return None

    def fault(self) -> str:
        """Return why the robot stopped by itself, in words for people; '' if it did not."""
        return ''

    def recover(self) -> None:
        """Clear what stopped the robot, as an operator asked for; EmppiError if it stays."""

    def close(self) -> None:
        """Stop advertising."""


def command_topic(robot: Robot, kind: str = '') -> str:
    """Return the topic on which a robot takes a kind of command, its own by default."""
    topics, kind = robot.topics.commands, kind or robot.command
    if kind not in topics:
        raise ConfigError(
            f'robot {robot.name!r} is to be commanded by {kind}, but topics: commands names '
            f'only: {", ".join(topics) or "none"}'
        )
    return topics[kind]
