"""
The node `markers`: publishes belief, rollouts, objects, description and transforms for rviz.

It subscribes to the other nodes only while it has subscribers itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.publisher import Publisher
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert, parameters, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Durations, Report
from emppi_ros.nodes.common.inputs import PLAN
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.markers import conversion
from emppi_ros.nodes.markers.conversion import COST, write_cost
from emppi_ros.nodes.markers.inputs import DIAGNOSTICS, MarkerInputs
from emppi_ros.nodes.markers.scene_publisher import ScenePublisher
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.candidates import CANDIDATES
from emppi_ros.nodes.topics.task import TaskFollowerNode
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes.shapes import Shapes
from emppi_ros.viz.shapes.task_shapes import DisplayState, TaskShapes

BELIEF_MARKERS, BELIEF_POINTS = 'emppi/belief/markers', 'emppi/belief/points'
ROLLOUTS, OBJECTS = 'emppi/rollouts', 'emppi/objects'
# what they need beside belief and measurements
_INPUTS = {ROLLOUTS: (PLAN, CANDIDATES), COST: (PLAN,), BELIEF_MARKERS: (DIAGNOSTICS,)}


@dataclass(frozen=True)
class MarkersParameters:
    """Parameters of the node."""

    rate_hz: float = config.between(0.1, 30.0, 5.0, doc='updates per second')
    tf_rate_hz: float = config.between(
        0.0,
        100.0,
        20.0,
        doc='transforms per second on /tf; 0: no /tf and no URDF of the scene',
    )


class MarkersNode(TaskFollowerNode):
    """Converts state, belief and plan to markers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('markers', **kwargs)
        self._settings = parameters.declare_all(self, MarkersParameters)
        self._scene: ScenePublisher | None = None

    def setup(self) -> None:
        """Take the task."""
        self.task: Task = self.follow.take()
        self._shapes = TaskShapes(self.task)
        self._marker_inputs: MarkerInputs | None = None
        # markers that are no longer updated are removed: they would show an old state
        self._lifetime = convert.to_duration(max(1.0, 5.0 / self._settings.rate_hz))
        self._error, self._drawn, self._times = '', 0, Durations()
        draw: dict[str, tuple[type, Callable[[DisplayState], object]]] = {
            BELIEF_MARKERS: (MarkerArray, lambda s: self._markers(s, self._belief)),
            BELIEF_POINTS: (PointCloud2, self._points),
            ROLLOUTS: (MarkerArray, lambda s: self._markers(s, self._shapes.rollouts)),
            OBJECTS: (MarkerArray, lambda s: self._markers(s, self._shapes.objects)),
            COST: (DiagnosticArray, self._cost),
        }
        self._drawings: dict[str, tuple[Publisher[Any], Callable[[DisplayState], object]]] = {
            topic: (self.create_publisher(kind, topic, qos.NEWEST), function)
            for topic, (kind, function) in draw.items()
        }

    def start(self) -> None:
        """Start drawing."""
        self.loop = Loop('drawing', 1.0 / self._settings.rate_hz, self._work)
        if self._settings.tf_rate_hz > 0.0:
            self._scene = ScenePublisher(self, self.task, self._settings.tf_rate_hz)

    def stop(self) -> None:
        """Stop drawing."""
        super().stop()
        if self._scene is not None:
            self._scene.close()
            self._scene = None
        self._subscribe(set())

    @property
    def failed(self) -> bool:
        """Whether the process must exit."""
        return super().failed or (self._scene is not None and bool(self._scene.loop.failure))

    def teardown(self) -> None:
        """Forget the task."""
        for publisher, _ in self._drawings.values():
            self.destroy_publisher(publisher)
        super().teardown()

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Use tuned cost weights from now on."""
        self.task = self.task.tuned(data)

    def report(self) -> Report:
        """Report whether anything is drawn, and which inputs are missing."""
        values = {'pictures': self._drawn, 'draw_ms_p50': self._times.quantile_ms(0.5)}
        problems = [*filter(None, [self.follow.changed, self._error])]
        activity = 'drawing' if self._marker_inputs is not None else 'no subscribers'
        return Report(WARN if problems else OK, '; '.join(problems) or activity, values)

    def _work(self, _moment: float) -> None:
        wanted = {t for t, (p, _) in self._drawings.items() if p.get_subscription_count() > 0}
        self._subscribe(wanted)
        if self._marker_inputs is None:
            return
        start = time.perf_counter()
        try:
            display = self._marker_inputs.read()
            for topic in wanted:
                publisher, draw = self._drawings[topic]
                publisher.publish(draw(display))
        except EmppiError as error:
            self._error = str(error)
            return
        self._error = '; '.join(self._marker_inputs.problems)
        self._drawn += 1
        self._times.add(time.perf_counter() - start)

    def _subscribe(self, wanted: set[str]) -> None:
        """Subscribe to the inputs that the watched topics need."""
        needed = {topic for name in wanted for topic in _INPUTS.get(name, ())} if wanted else None
        current = None if self._marker_inputs is None else self._marker_inputs.optional
        if needed == current:
            return
        if self._marker_inputs is not None:
            self._marker_inputs.close()
        self._marker_inputs = None
        if needed is not None:
            hold = self._shapes.preview.ensemble.activate
            self._marker_inputs = MarkerInputs(self, self.task, needed, hold)
        self._error = ''

    def _markers(
        self, display: DisplayState, draw: Callable[[DisplayState], Shapes]
    ) -> MarkerArray:
        stamp = convert.to_stamp(display.stamp)
        return conversion.write_shapes(draw(display), self.task.robot.frame, stamp, self._lifetime)

    def _belief(self, display: DisplayState) -> Shapes:
        return [*self._shapes.belief(display), *self._shapes.points_box(display)]

    def _points(self, display: DisplayState) -> PointCloud2:
        return belief_cloud.write_points(
            self.task, display.stamp, display.belief, self._shapes.points(display)
        )

    def _cost(self, display: DisplayState) -> DiagnosticArray:
        return write_cost(display.stamp, display.stage, self._shapes.cost(self.task, display))
