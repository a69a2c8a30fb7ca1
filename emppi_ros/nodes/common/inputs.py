"""What is measured and applied, as it arrives: shared by planner, belief and recorder."""

from collections.abc import Callable
import functools

from geometry_msgs.msg import PoseStamped
import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import JointState

from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.session.measurements import Measurements
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
APPLIED = 'emppi/applied'
PLAN = 'emppi/plan'


class MeasurementInputs:
    """
    Joint states, tracked poses and applied commands: `poll` takes what has arrived.

    Messages that cannot be used are dropped; why is kept in `errors`, by topic, until that
    topic's next good one.
    """

    def __init__(self, node: Node, task: Task, session: Measurements | None = None) -> None:
        """Subscribe, and add all messages to a session."""
        self._node, self._task = node, task
        self._session = session or Measurements(task)
        self.estimator: Estimator = self._session.estimator
        self.stamps: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        topic = task.robot.topics.joint_states
        take = [(JointState, topic, self.take_joints, qos.SENSOR)]
        take.append((JointState, APPLIED, self.take_applied, qos.DEFAULT))
        for name in task.tracked:
            receive = functools.partial(self.take_pose, name)
            take.append((PoseStamped, f'tracking/{name}', receive, qos.SENSOR))
        self._topics = [name for _, name, _, _ in take]
        self._subscriptions = [
            PolledSubscription(node, kind, name, functools.partial(self._receive, name, call), q)
            for kind, name, call, q in take
        ]

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []

    def poll(self) -> None:
        """Take every message that has arrived."""
        for subscription in self._subscriptions:
            subscription.poll()

    def clear(self) -> None:
        """Forget all that was received, and what waits to be."""
        for subscription in self._subscriptions:
            subscription.drop()
        self._session.clear()
        self.stamps.clear()
        self.errors.clear()

    def ages(self, now: float) -> dict[str, float]:
        """Return the age [s] of the newest message of every topic; infinite if there is none."""
        return {name: now - self.stamps.get(name, -np.inf) for name in self._topics}

    def check_ages(self, now: float, limit: float) -> None:
        """Raise StaleInputError if the newest message of any topic is older than a limit [s]."""
        old = {k: age for k, age in self.ages(now).items() if age > limit}
        if old:
            words = [f'{k} ({age:.2f} s old)' if np.isfinite(age) else k for k, age in old.items()]
            raise StaleInputError(f'nothing newer than {limit:g} s from: {", ".join(words)}')

    def take_joints(self, message: JointState) -> float:
        """Take a joint state."""
        stamp, position, velocity = convert.read_joints(self._task.robot, message)
        self._session.add_joints(stamp, position, velocity)
        return stamp

    def take_applied(self, message: JointState) -> float:
        """Take what the bridge commanded."""
        stamp, command = convert.read_applied(self._task.robot, message)
        self._session.add_command(stamp, command)
        return stamp

    def take_pose(self, name: str, message: PoseStamped) -> float:
        """Take a tracked pose."""
        stamp, pose = convert.read_pose(self._task.robot, message)
        self._session.add_pose(name, stamp, *pose)
        return stamp

    def _receive(self, topic: str, take: Callable, message: object) -> None:
        try:
            self.stamps[topic] = take(message)
            self.errors.pop(topic, None)
        except EmppiError as error:
            self.errors[topic] = f'{topic}: {error}'
            self._node.get_logger().warning(self.errors[topic], throttle_duration_sec=2.0)
