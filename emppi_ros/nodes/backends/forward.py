"""Backend `forward`: a forward command controller of ros2_control, one array per command."""

from rclpy.node import Node
from std_msgs.msg import Float64MultiArray

from emppi_ros.core.arrays import Array
from emppi_ros.nodes.backends import Backend, BackendCommand, command_topic
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots.robot import Robot


class ForwardBackend(Backend):
    """Sends commands as a Float64MultiArray, in the order of the robot's commanded joints."""

    unsafe = (
        'a forward command controller has no timeout: if this process is killed, the arm keeps '
        'its last velocity for ever'
    )
    allowed_by = 'forward_on_hardware'

    def __init__(self, node: Node, robot: Robot, _clock: CommandClock) -> None:
        self._node, topic = node, command_topic(robot)
        self.topics = ((topic, Float64MultiArray),)
        self._publisher = node.create_publisher(Float64MultiArray, topic, qos.DEFAULT)

    def send(self, cycle: BackendCommand) -> Array:
        """Send one command (joints,), and return it."""
        self._publisher.publish(convert.write_command(cycle.command.value))
        return cycle.command.value

    def close(self) -> None:
        """Stop advertising."""
        self._node.destroy_publisher(self._publisher)


BACKEND = ForwardBackend
