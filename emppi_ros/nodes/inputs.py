"""What is measured and applied, as it arrives: shared by planner, belief and recorder."""

from collections.abc import Callable
import functools
import threading

from geometry_msgs.msg import PoseStamped
import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import JointState

from emppi_ros.errors import EmppiError
from emppi_ros.nodes import convert, qos
from emppi_ros.state.estimator import Estimator
from emppi_ros.state.series import Series
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
APPLIED = 'emppi/applied'


class Inputs:
    """
    Subscribes to joint states, tracked poses and applied commands.

    Messages that cannot be used are dropped and kept in `errors`, by topic, until that
    topic's next good one. `lock` guards everything for a reader in another thread.
    """

    def __init__(
        self,
        node: Node,
        task: Task,
        on_pose: Callable[[str, float, Pose], None] | None = None,
        on_joints: Callable[[], None] | None = None,
    ) -> None:
        """Subscribe; `on_pose` takes poses in place of the estimator."""
        self._node, self._task = node, task
        self._on_pose = on_pose or self.estimate
        self._on_joints = on_joints
        self.lock = threading.RLock()
        self.estimator = Estimator(task)
        self.applied = Series('applied commands', reach_s=np.inf)
        self.stamps: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        topic = task.robot.topics.joint_states
        take = [(JointState, topic, self.take_joints, qos.SENSOR)]
        take.append((JointState, APPLIED, self.take_applied, qos.DEFAULT))
        for name in task.objects:
            receive = functools.partial(self.take_pose, name)
            take.append((PoseStamped, f'tracking/{name}', receive, qos.SENSOR))
        self._topics = {call: name for _, name, call, _ in take}
        self._subscriptions = [
            node.create_subscription(kind, name, functools.partial(self._receive, name, call), q)
            for kind, name, call, q in take
        ]

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions = []

    def ages(self, now: float) -> dict[str, float]:
        """Return the age [s] of the newest message of every topic; infinite if there is none."""
        topics = self._topics.values()
        return {name: now - self.stamps.get(name, -np.inf) for name in topics}

    def commands(self, times: Array) -> Array:
        """Return the commands (n, joints) applied at `times` (n,)."""
        with self.lock:
            return self.applied.hold(times)

    def take_joints(self, message: JointState) -> float:
        """Take a joint state."""
        stamp, position, velocity = convert.read_joints(self._task.robot, message)
        self.estimator.add_joints(stamp, position, velocity)
        if self._on_joints is not None:
            self._on_joints()
        return stamp

    def take_applied(self, message: JointState) -> float:
        """Take what the bridge commanded."""
        stamp, command = convert.read_applied(self._task.robot, message)
        self.applied.append(stamp, command)
        return stamp

    def take_pose(self, name: str, message: PoseStamped) -> float:
        """Take a tracked pose."""
        stamp, pose = convert.read_pose(self._task.robot, message)
        self._on_pose(name, stamp, pose)
        return stamp

    def estimate(self, name: str, stamp: float, pose: Pose) -> None:
        """Give a pose to the estimator."""
        self.estimator.add_pose(name, stamp, pose)

    def _receive(self, topic: str, take: Callable, message: object) -> None:
        try:
            with self.lock:
                self.stamps[topic] = take(message)
            self.errors.pop(topic, None)
        except EmppiError as error:
            self.errors[topic] = f'{topic}: {error}'
            self._node.get_logger().warning(self.errors[topic], throttle_duration_sec=2.0)
