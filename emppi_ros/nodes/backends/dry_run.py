"""Bridge backend `dry-run`: everything but the sending, to look at before a robot moves."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node

from emppi_ros.nodes.backends.interface import Cycle
from emppi_ros.tasks.robot import Robot


class DryRunBackend:
    """Sends nothing; what would have been sent is on `emppi/applied`."""

    unsafe = ''

    def __init__(self, _node: Node, _robot: Robot) -> None:
        """Advertise nothing."""

    def send(self, _cycle: Cycle) -> None:
        """Send nothing."""

    def coasting(self, _now: float) -> npt.NDArray[np.float64] | None:
        """Return None: there is nothing to wait for."""
        return None

    def close(self) -> None:
        """Leave nothing behind."""
