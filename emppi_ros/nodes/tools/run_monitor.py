"""Monitor of a running graph: records its messages and judges success."""

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState, PointCloud2
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.journal.journal import Measurements
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.inputs import APPLIED, PLAN, MeasurementInputs
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.belief_cloud import BELIEF
from emppi_ros.recordings.message_tables import statuses
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.recording import RunObserver


class _RecordedMeasurements(Measurements):
    """Measurements that an observer records one by one, however rarely they are polled."""

    def __init__(self, task: Task, observer: RunObserver) -> None:
        super().__init__(task)
        self._observer = observer

    def add_joints(self, stamp: float, position: Array, velocity: Array) -> None:
        """Add a joint state, and record the state of that time."""
        super().add_joints(stamp, position, velocity)
        self._observer.record_state(self.estimator)

    def add_pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Add a tracked pose, and record the state of that time."""
        super().add_pose(name, stamp, position, quaternion)
        self._observer.record_state(self.estimator)


class RunMonitor(RunObserver):
    """Records a run from its topics, from the call of `start` on."""

    def __init__(self, node: Node, task: Task) -> None:
        super().__init__(task)
        self._inputs = MeasurementInputs(node, task, _RecordedMeasurements(task, self))
        topics = (
            (PointCloud2, BELIEF, self._take_belief, qos.EVERY),
            (JointTrajectory, PLAN, self._take_plan, qos.DEFAULT),
            (JointState, APPLIED, self._take_applied, qos.DEFAULT),
            (DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT),
        )
        self._subscriptions = [PolledSubscription(node, *topic) for topic in topics]
        self.messages: dict[str, str] = {}

    @property
    def complete(self) -> bool:
        """Whether all nodes publish and the belief is updated."""
        updates = int(self.diagnostics.get('belief', {}).get('updates', 0))
        return (
            all(self.rows[name] for name in ('plans', 'applied', 'beliefs'))
            and {'planner', 'bridge', 'simulator'} <= set(self.diagnostics)
            and np.isfinite(self._inputs.estimator.stamp)
            and (updates > 0 or not self._task.parameters)
        )

    @property
    def problem(self) -> str:
        """Why a node could not be configured or activated, '' if all could."""
        problems = ((name, values.get('problem')) for name, values in self.diagnostics.items())
        return '; '.join(f'{name}: {problem}' for name, problem in problems if problem)

    @property
    def fault(self) -> str:
        """Code of the bridge's fault, '' without one."""
        return self.diagnostics.get('bridge', {}).get('fault', '')

    def poll(self) -> None:
        """Process received messages."""
        self._inputs.poll()
        for subscription in self._subscriptions:
            subscription.poll()

    def _take_belief(self, message: PointCloud2) -> None:
        try:
            belief = belief_cloud.read_belief(self._task, message)
        except EmppiError:  # the planner reports it in its diagnostics
            return
        self.record_belief(convert.to_seconds(message.header.stamp), belief)

    def _take_plan(self, message: JointTrajectory) -> None:
        self.record_plan(convert.to_seconds(message.header.stamp))

    def _take_applied(self, message: JointState) -> None:
        self.record_command(convert.to_seconds(message.header.stamp))

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        stamp = convert.to_seconds(message.header.stamp)
        for name, status, values in statuses(message):
            self.messages[name] = status.message
            self.record_diagnostics(name, stamp, values)
