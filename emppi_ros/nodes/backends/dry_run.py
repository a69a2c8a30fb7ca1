"""Backend `dry-run`: sends nothing, to inspect commands before a robot moves."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node

from emppi_ros.nodes.backends import Backend, BackendCommand
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots.robot import Robot


class DryRunBackend(Backend):
    """Sends nothing; `emppi/applied` shows the commands."""

    drives = False

    def __init__(self, _node: Node, _robot: Robot, _clock: CommandClock) -> None:
        """Advertise nothing."""

    def send(self, cycle: BackendCommand) -> npt.NDArray[np.float64]:
        """Return the command (joints,) without sending it."""
        return cycle.command.value


BACKEND = DryRunBackend
