"""Simulated sensors: joint states, tracked poses, and what a camera sees."""

from array import array
from collections.abc import Collection

from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import JointStateError
from emppi_ros.nodes.common import convert, qos
from emppi_ros.robots.robot import Robot
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.tasks.task import Task

STATE = 'simulator/state'  # true time [s], configuration (nq,) and parameters (P,), for the camera


def read_state(task: Task, message: Float64MultiArray) -> tuple[float, Array, Array]:
    """Return time, configuration and parameters; JointStateError if they are of another task."""
    values, count = np.array(message.data, np.float64), task.model.nq
    expected = 1 + count + len(task.parameters)
    if len(values) != expected:
        raise JointStateError(f'{STATE}: {len(values)} values; expected {expected}')
    return float(values[0]), values[1 : 1 + count], values[1 + count :]


class Sensors:
    """Publishes measurements; joint states continue while the task and its objects change."""

    def __init__(self, node: Node, robot: Robot) -> None:
        self._node, self._robot = node, robot
        self._joints = qos.advertise(node, JointState, robot.topics.joint_states, qos.MEASURED)
        self._poses: dict[str, Publisher[PoseStamped]] = {}
        self._states = node.create_publisher(Float64MultiArray, STATE, qos.NEWEST)

    def track(self, names: Collection[str]) -> None:
        """Track exactly these objects from now on."""
        for name in set(self._poses) - set(names):
            self._node.destroy_publisher(self._poses.pop(name))
        for name in set(names) - set(self._poses):
            topic = f'tracking/{name}'
            self._poses[name] = qos.advertise(self._node, PoseStamped, topic, qos.MEASURED)

    def publish(self, simulated: SimulatedRobot, epoch: float) -> None:
        """Publish the measurements of a simulation that started at `epoch` [s]."""
        robot = self._robot
        stamp, *measured = simulated.read_joints()
        self._joints.publish(convert.write_joints(robot, epoch + stamp, *measured))
        for reading in simulated.read_poses():
            if reading.name in self._poses:
                message = convert.write_pose(robot, epoch + reading.stamp, reading.pose)
                self._poses[reading.name].publish(message)

    def show_camera(self, simulated: SimulatedRobot, epoch: float) -> None:
        """Publish the true state, if the node `depth_camera` subscribes."""
        if self._states.get_subscription_count():
            state = [[epoch + simulated.time], simulated.data.qpos, simulated.truth]
            data = array('d', np.concatenate(state).tobytes())
            self._states.publish(Float64MultiArray(data=data))
