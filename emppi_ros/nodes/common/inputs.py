"""Subscribe to measurements and applied commands, for planner, belief and tools."""

from collections.abc import Callable
import functools
from typing import Any

from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState

from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.core.pose import Pose
from emppi_ros.journal.journal import Measurements
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import is_simulated
from emppi_ros.nodes.common.frames import FrameTransforms
from emppi_ros.nodes.common.joint_states import JointStateReader
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.tasks.task import Task

APPLIED = 'emppi/applied'
UNCERTAIN = 'tracking_covariance'  # poses of `tracking` with covariances
PLAN = 'emppi/plan'
# messages may be ahead of /clock by what a node needs to receive it, and by a fast simulation;
# one that is further ahead of any clock would remain the newest
AHEAD_S = 1.0


class MeasurementInputs:
    """
    Subscriptions to joint states, tracked poses and applied commands, read by `poll`.

    Invalid messages are dropped, and those from before /clock was set back, which would remain the
    newest. `errors` holds the reason by topic until the next valid one.
    """

    def __init__(
        self, node: Node, task: Task, session: Measurements | None = None, subscribed: bool = True
    ) -> None:
        """Subscribe; messages are added to `session`. If not `subscribed`, they are `receive`d."""
        self._node, self._robot = node, task.robot
        self._session = session or Measurements(task)
        self.estimator = self._session.estimator
        self.stamps: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        self._ahead: set[str] = set()  # topics of which it was logged that they are
        self._now = np.inf  # s, when polled last
        self._clock = '/clock, which stands still or was set back'
        if not is_simulated(node):
            self._clock = "this computer's clock: synchronize the clocks"
        joints, session = task.robot.topics.joint_states, self._session
        read = JointStateReader(task.robot).read
        self._frames = FrameTransforms(node, task.robot)
        read_pose = self._frames.read_pose
        read_applied = functools.partial(convert.read_applied, task.robot)
        take: dict[str, tuple[type, QoSProfile, Callable[..., Any], Callable[..., None]]] = {
            joints: (JointState, qos.SENSOR, read, session.add_joints),
            APPLIED: (JointState, qos.DEFAULT, read_applied, session.add_command),
        }
        for name in task.tracked:
            add = functools.partial(self._add_pose, name)
            take[f'tracking/{name}'] = PoseStamped, qos.SENSOR, read_pose, add
        self._take = take
        self.kinds = {topic: kind for topic, (kind, *_) in take.items()}
        self._subscriptions = [
            PolledSubscription(node, kind, topic, functools.partial(self.receive, topic), profile)
            for topic, (kind, profile, *_) in take.items()
            if subscribed
        ]

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []
        self._frames.close()

    def poll(self) -> None:
        """Handle all messages that have arrived."""
        self._now = self._read_clock()
        self._frames.poll()
        for subscription in self._subscriptions:
            subscription.poll()

    def clear(self) -> None:
        """Discard all messages, both handled and waiting."""
        for subscription in self._subscriptions:
            subscription.drop()
        self._session.clear()
        self.stamps.clear()
        self.errors.clear()
        self._ahead.clear()

    def ages(self, now: float) -> dict[str, float]:
        """Return the age [s] of the newest message by topic; infinite without one."""
        return {name: now - self.stamps.get(name, -np.inf) for name in self._take}

    def check_ages(self, now: float, limit: float) -> None:
        """Raise StaleInputError if the newest message of any topic is older than a limit [s]."""
        old = {k: age for k, age in self.ages(now).items() if age > limit}
        if old:
            ages = [f'{k} ({age:.2f} s old)' if np.isfinite(age) else k for k, age in old.items()]
            raise StaleInputError(f'no message newer than {limit:g} s from: {", ".join(ages)}')

    def _read_clock(self) -> float:
        return self._node.get_clock().now().nanoseconds * 1e-9

    def _add_pose(self, name: str, stamp: float, pose: Pose) -> None:
        self._session.add_pose(name, stamp, *pose)

    def receive(self, topic: str, message: object) -> None:
        """Handle a message; an invalid one is dropped."""
        _, _, read, add = self._take[topic]
        try:
            if (values := read(message)) is None:
                return  # of other joints, or of some of the robot's
            stamp, *rows = values
            if stamp - self._now > AHEAD_S:  # or this process was interrupted since `poll` began
                self._now = self._read_clock()
            if (ahead := stamp - self._now) > AHEAD_S:
                self._drop_early(topic, f'stamped {ahead:.3f} s later than {self._clock}')
                return
            add(stamp, *rows)
            self.stamps[topic] = stamp
            self.errors.pop(topic, None)
        except EmppiError as error:
            self.errors[topic] = f'{topic}: {error}'
            self._node.get_logger().warning(self.errors[topic], throttle_duration_sec=2.0)

    def _drop_early(self, topic: str, reason: str) -> None:
        """Note why a message is dropped; log it once: a paused simulator's clock stands still."""
        self.errors[topic] = f'{topic}: {reason}'
        if topic not in self._ahead:
            self._ahead.add(topic)
            self._node.get_logger().warning(self.errors[topic])
