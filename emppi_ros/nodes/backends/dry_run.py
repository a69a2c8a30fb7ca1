"""Bridge backend `dry-run`: everything but the sending, to look at before a robot moves."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node

from emppi_ros.nodes.backends.interface import Backend, Cycle
from emppi_ros.robots.robot import Robot


class DryRunBackend(Backend):
    """Sends nothing; what would have been sent is on `emppi/applied`."""

    drives = False

    def __init__(self, _node: Node, _robot: Robot) -> None:
        """Advertise nothing."""

    def send(self, cycle: Cycle) -> npt.NDArray[np.float64]:
        """Send nothing; return what would have been sent (joints,)."""
        return cycle.value
