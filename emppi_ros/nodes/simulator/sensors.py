"""Simulated sensors: joint states, tracked poses, what a camera sees; and the simulated clock."""

from collections.abc import Collection
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.publisher import Publisher
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import CLOCK
from emppi_ros.nodes.topics.simulator_state import STATE, SimulatorState, write_state
from emppi_ros.robots.robot import Robot
from emppi_ros.sim.simulated_robot import SimulatedRobot


class Sensors:
    """Publishes measurements; joint states continue while the task and its objects change."""

    def __init__(self, node: Node, robot: Robot) -> None:
        self._node, self._robot = node, robot
        self._joints = self._advertise(JointState, robot.topics.joint_states)
        self._poses: dict[str, Publisher[PoseStamped]] = {}
        self._states = node.create_publisher(Float64MultiArray, STATE, qos.NEWEST)

    def track(self, names: Collection[str]) -> None:
        """Track exactly these objects from now on."""
        for name in set(self._poses) - set(names):
            self._node.destroy_publisher(self._poses.pop(name))
        for name in set(names) - set(self._poses):
            self._poses[name] = self._advertise(PoseStamped, f'tracking/{name}')

    def _advertise(self, kind: type, topic: str) -> 'Publisher[Any]':
        profile, options = qos.overridable(qos.MEASURED)
        return self._node.create_publisher(kind, topic, profile, qos_overriding_options=options)

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
            state = SimulatorState(epoch + simulated.time, simulated.data.qpos, simulated.truth)
            self._states.publish(write_state(state))


class ClockPublisher:
    """Publishes simulated time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._publisher = node.create_publisher(Clock, CLOCK, qos.NEWEST)

    @property
    def problem(self) -> str:
        """Another source of simulated time, as a sentence; '' if there is none."""
        if self._node.count_publishers(CLOCK) <= 1:
            return ''
        return f'another node publishes {CLOCK}, too: stop it, or this simulator'

    def publish(self, time_s: float) -> None:
        """Publish a simulated time [s]."""
        self._publisher.publish(Clock(clock=convert.to_stamp(time_s)))
