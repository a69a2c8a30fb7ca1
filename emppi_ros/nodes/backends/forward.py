"""Bridge backend `forward`: ros2_control's forward command controllers, one array per command."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray

from emppi_ros.nodes import convert, qos
from emppi_ros.nodes.backends.interface import Cycle, command_topic
from emppi_ros.tasks.robot import Robot


class ForwardBackend:
    """Sends commands as a Float64MultiArray, in the order of the robot's commanded joints."""

    unsafe = (
        'a forward command controller has no time-out: if this process is killed, the arm keeps '
        'its last velocity for ever'
    )

    def __init__(self, node: Node, robot: Robot) -> None:
        """Advertise the robot's command topic."""
        self._node = node
        self._publisher = node.create_publisher(
            Float64MultiArray, command_topic(robot), qos.DEFAULT
        )

    def send(self, cycle: Cycle) -> None:
        """Send one command."""
        self._publisher.publish(convert.write_command(cycle.value))

    def coasting(self, _now: float) -> npt.NDArray[np.float64] | None:
        """Return None: whatever is sent is followed at once."""
        return None

    def close(self) -> None:
        """Stop advertising."""
        self._node.destroy_publisher(self._publisher)
