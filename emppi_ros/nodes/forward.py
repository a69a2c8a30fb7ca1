"""Bridge backend `forward`: ros2_control's forward command controllers, one array per command."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray

from emppi_ros.errors import ConfigError
from emppi_ros.nodes import convert, qos
from emppi_ros.tasks.robot import Robot


class ForwardBackend:
    """Sends commands as a Float64MultiArray, in the order of the robot's commanded joints."""

    def __init__(self, node: Node, robot: Robot) -> None:
        """Advertise the robot's command topic."""
        self._node = node
        self._publisher = node.create_publisher(
            Float64MultiArray, command_topic(robot), qos.DEFAULT
        )

    def send(self, command: npt.NDArray[np.float64]) -> None:
        """Send one command (joints,)."""
        self._publisher.publish(convert.write_command(command))

    def close(self) -> None:
        """Stop advertising."""
        self._node.destroy_publisher(self._publisher)


BACKENDS = {'forward': ForwardBackend}


def command_topic(robot: Robot) -> str:
    """Return the topic on which a robot takes its kind of command."""
    topics = robot.topics.commands
    if robot.command not in topics:
        raise ConfigError(
            f'robot {robot.name!r} is commanded by {robot.command}, but topics: commands names '
            f'only: {", ".join(topics) or "none"}'
        )
    return topics[robot.command]
