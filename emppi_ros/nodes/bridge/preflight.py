"""What the bridge must know of the graph and of the robot before it may be armed."""

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.nodes.backends.interface import Backend
from emppi_ros.nodes.bridge.graph_monitor import (
    SECOND_PUBLISHER,
    SILENT,
    GraphWatch,
    Problem,
    Topic,
)
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.inputs import PLAN
from emppi_ros.nodes.topics.task import TOPIC
from emppi_ros.robots import urdf_check
from emppi_ros.robots.robot import Robot

DESCRIPTION = 'robot_description'
MODEL = 'model'  # code of a robot that its own description contradicts


class Surroundings:
    """Looks at the topics of the bridge, and reads the robot's description where there is one."""

    def __init__(self, node: Node, robot: Robot, backend: Backend) -> None:
        """Subscribe to the description."""
        self._node, self._robot = node, robot
        self._described: list[Problem] = []
        heard = [Topic(TOPIC, String, qos.LATCHED), Topic(PLAN, JointTrajectory, qos.DEFAULT)]
        ours = [Topic(name, kind, qos.DEFAULT) for name, kind in backend.topics]
        if backend.measures:
            ours.append(Topic(robot.topics.joint_states, JointState, qos.SENSOR))
        else:
            heard.append(Topic(robot.topics.joint_states, JointState, qos.SENSOR))
        self._watch = GraphWatch(node, heard, ours)
        self._description = node.create_subscription(String, DESCRIPTION, self._read, qos.LATCHED)
        self.problems: list[Problem] = []  # as seen last

    def look(self) -> None:
        """See what is wrong now."""
        self.problems = self._watch.check() + self._described

    @property
    def obstacle(self) -> str:
        """What keeps the bridge from being armed, in words; silence is told by ages."""
        return next((p.text for p in self.problems if p.code != SILENT), '')

    @property
    def intruder(self) -> str:
        """Who else commands the robot, in words."""
        return next((p.text for p in self.problems if p.code == SECOND_PUBLISHER), '')

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._description)

    def _read(self, message: String) -> None:
        found = urdf_check.check(self._robot, message.data)
        self._described = [Problem(MODEL, f'{DESCRIPTION}: {text}') for text in found]
