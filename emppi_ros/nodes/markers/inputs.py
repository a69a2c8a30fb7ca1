"""The inputs of markers: subscriptions that exist only while markers have subscribers."""

from collections.abc import Callable, Collection, Mapping, Sequence
import math

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.belief.changes import DetectedChange
from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.inputs import PLAN, MeasurementInputs
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.belief_cloud import BELIEF
from emppi_ros.nodes.topics.candidates import CANDIDATES, read_candidates
from emppi_ros.nodes.topics.task import STAGE
from emppi_ros.planning.plan_preview import Candidates
from emppi_ros.priors.particles import Belief
from emppi_ros.recordings.message_tables import statuses
from emppi_ros.robots.plan import Plan
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes.task_shapes import DisplayState

DIAGNOSTICS = '/diagnostics'
OPTIONAL = PLAN, CANDIDATES, DIAGNOSTICS  # the planner sends candidates only to subscribers
_CHANGED, _FROM = 'changed ', 'changed_from '  # before the name of a parameter
_MAX_AGE_S = 1.0  # older candidates are not shown


class MarkerInputs:
    """Subscriptions to belief, measurements and chosen ones of OPTIONAL."""

    def __init__(
        self,
        node: Node,
        task: Task,
        optional: Collection[str],
        hold: Callable[[Sequence[int]], None],
    ) -> None:
        """Subscribe; `hold` gets the grasp constraints of the planner's current stage."""
        self.optional, self._task, self._hold, self._stage = optional, task, hold, ''
        self._errors: dict[str, str] = {}
        self._namespace = node.get_namespace()
        self.inputs = MeasurementInputs(node, task)
        self._belief: Belief | None = None
        self._plan: Plan | None = None
        self._candidates: Candidates | None = None
        self._candidates_at = -math.inf
        self._changes: tuple[DetectedChange, ...] = ()
        topics = (
            (PointCloud2, BELIEF, self._take_belief, qos.LATCHED),
            (String, STAGE, self._take_stage, qos.LATCHED),
            (JointTrajectory, PLAN, self._take_plan, qos.NEWEST),
            (PointCloud2, CANDIDATES, self._take_candidates, qos.NEWEST),
            (DiagnosticArray, DIAGNOSTICS, self._take_diagnostics, qos.DEFAULT),
        )
        self._subscriptions = [
            PolledSubscription(node, kind, name, self._guarded(name, take), profile)
            for kind, name, take, profile in topics
            if name not in OPTIONAL or name in optional
        ]

    @property
    def problems(self) -> list[str]:
        """Why the latest messages could not be used."""
        return [*self.inputs.errors.values(), *self._errors.values()]

    def close(self) -> None:
        """Unsubscribe."""
        self.inputs.close()
        for subscription in self._subscriptions:
            subscription.close()

    def read(self) -> DisplayState:
        """Return the current state; StaleInputError if an input is missing or too old."""
        self.inputs.poll()
        for subscription in self._subscriptions:
            subscription.poll()
        if self._belief is None:
            raise StaleInputError(f'no belief received on {BELIEF} yet')
        estimator = self.inputs.estimator
        stamp = estimator.stamp
        state, tracks = estimator.state(stamp), estimator.tracks(stamp)
        plan = self._plan if self._plan is not None and self._plan.end > stamp else None
        candidates = self._candidates if abs(self._candidates_at - stamp) < _MAX_AGE_S else None
        return DisplayState(
            stamp, state, tracks, self._belief, plan, candidates, self._stage, self._changes
        )

    def _guarded(self, topic: str, take: Callable[..., None]) -> Callable[[object], None]:
        def call(message: object) -> None:
            try:
                take(message)
                self._errors.pop(topic, None)
            except EmppiError as error:  # the last valid one stays
                self._errors[topic] = f'{topic}: {error}'

        return call

    def _take_belief(self, message: PointCloud2) -> None:
        self._belief = belief_cloud.read_belief(self._task, message)

    def _take_plan(self, message: JointTrajectory) -> None:
        stamp = convert.to_seconds(message.header.stamp)  # a display accepts plans of any age
        self._plan = convert.read_plan(self._task.robot, message, stamp)

    def _take_candidates(self, message: PointCloud2) -> None:
        self._candidates = read_candidates(message)
        self._candidates_at = convert.to_seconds(message.header.stamp)

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for name, _, values in statuses(message, self._namespace):
            if name == 'belief':
                self._changes = read_changes(values)

    def _take_stage(self, message: String) -> None:
        for stage in self._task.stages:
            if stage.name == message.data:
                self._hold(stage.grasp)
                self._stage = stage.name


def read_changes(values: Mapping[str, str]) -> tuple[DetectedChange, ...]:
    """Return the last change of each parameter in the values of the belief's diagnostics."""
    changes = []
    for key, text in values.items():
        name = key.removeprefix(_CHANGED)
        if name != key and _FROM + name in values:
            before = float(values[_FROM + name])
            changes.append(DetectedChange(float(text), name, before, math.nan))
    return tuple(changes)
