"""The recorder: listens to a running graph, and judges success by what it hears."""

from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import JointState, PointCloud2
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.inputs import APPLIED, PLAN, Inputs
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.belief import BELIEF
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.observer import Observer
from emppi_ros.viz.report.recording import Recording


class Recorder:
    """Takes down a run, from the call of `start` on."""

    def __init__(self, node: Node, task: Task) -> None:
        """Subscribe."""
        self._task, self._observer = task, Observer(task)
        self._inputs = Inputs(node, task)
        self._subscriptions = [
            PolledSubscription(node, PointCloud2, BELIEF, self._take_belief, qos.EVERY),
            PolledSubscription(node, JointTrajectory, PLAN, self._take_plan, qos.DEFAULT),
            PolledSubscription(node, JointState, APPLIED, self._take_applied, qos.DEFAULT),
            PolledSubscription(
                node, DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT
            ),
        ]
        self.diagnostics = self._observer.diagnostics  # by node, as last said
        self.messages: dict[str, str] = {}

    @property
    def complete(self) -> bool:
        """Whether everything that is to be recorded has been heard, and the belief learns."""
        updates = int(self.diagnostics.get('belief', {}).get('updates', 0))
        return (
            all(self._observer.rows[name] for name in ('plans', 'applied', 'beliefs'))
            and {'planner', 'bridge', 'simulator'} <= set(self.diagnostics)
            and np.isfinite(self._inputs.estimator.stamp)
            and (updates > 0 or not self._task.parameters)
        )

    @property
    def problem(self) -> str:
        """Why a node could not be configured or activated, or ''."""
        problems = ((name, values.get('problem')) for name, values in self.diagnostics.items())
        return '; '.join(f'{name}: {problem}' for name, problem in problems if problem)

    @property
    def fault(self) -> str:
        """Code of the fault for which the bridge holds the arm, or is about to; or ''."""
        return self.diagnostics.get('bridge', {}).get('fault', '')

    @property
    def success_time(self) -> float | None:
        """When the task was done [s from the start], if it was."""
        return self._observer.success_time

    def start(self, now: float) -> None:
        """Record from now on; the clock counts from here."""
        self._observer.start(now)

    def poll(self) -> None:
        """Take what has arrived."""
        self._inputs.poll()
        for subscription in self._subscriptions:
            subscription.poll()
        self._observer.see(self._inputs.estimator)

    def summarize(self, truth: npt.NDArray[np.float64]) -> tuple[dict[str, Any], Recording]:
        """Return the figures of the run, and its recording."""
        return self._observer.summarize(truth)

    def _take_belief(self, message: PointCloud2) -> None:
        try:
            belief = belief_cloud.read_belief(self._task, message)
        except EmppiError:  # the planner says why in its diagnostics
            return
        self._observer.believe(convert.to_seconds(message.header.stamp), belief)

    def _take_plan(self, message: JointTrajectory) -> None:
        self._observer.plan(convert.to_seconds(message.header.stamp))

    def _take_applied(self, message: JointState) -> None:
        self._observer.applied(convert.to_seconds(message.header.stamp))

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.removeprefix('emppi: ')
            self.messages[name] = status.message
            self._observer.diagnose(name, {pair.key: pair.value for pair in status.values})
