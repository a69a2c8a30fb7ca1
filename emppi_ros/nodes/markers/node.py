"""
The node `markers`: shows belief, rollouts and objects to rviz, while somebody looks.

It listens to the other nodes only as long as somebody listens to it: looked at by nobody, it
costs nobody anything. It is a process of its own, nicer than all others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import sys
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert, process, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Durations, Report
from emppi_ros.nodes.common.parameters import declare_all
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.markers import conversion
from emppi_ros.nodes.markers.inputs import Ears, Wanted
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.cost import COST, write_cost
from emppi_ros.nodes.topics.task import FollowingNode
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes.layers import Layers, Seen

BELIEF_MARKERS, BELIEF_POINTS = 'emppi/belief/markers', 'emppi/belief/points'
ROLLOUTS, OBJECTS = 'emppi/rollouts', 'emppi/objects'


@dataclass(frozen=True)
class MarkersParameters:
    """Parameters of the node."""

    rate_hz: float = config.between(0.1, 30.0, 5.0, doc='pictures per second')


class MarkersNode(FollowingNode):
    """What is known in, pictures of it out."""

    def __init__(self, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__('markers', **kwargs)
        self._settings = declare_all(self, MarkersParameters)

    def setup(self) -> None:
        """Take the task."""
        self.task: Task = self.follow.take()
        self._layers = Layers(self.task)
        self._ears: Ears | None = None
        # a picture that nobody renews says what is no longer so
        self._lifetime = convert.to_duration(max(1.0, 5.0 / self._settings.rate_hz))
        self._error, self._drawn, self._times = '', 0, Durations()
        draw: dict[str, tuple[type, Callable[[Seen], object]]] = {
            BELIEF_MARKERS: (MarkerArray, lambda s: self._markers(s, self._layers.belief)),
            BELIEF_POINTS: (PointCloud2, self._points),
            ROLLOUTS: (MarkerArray, lambda s: self._markers(s, self._layers.rollouts)),
            OBJECTS: (MarkerArray, lambda s: self._markers(s, self._layers.objects)),
            COST: (DiagnosticArray, self._cost),
        }
        self._draw = {topic: function for topic, (_, function) in draw.items()}
        self._pictures = {
            topic: self.create_publisher(kind, topic, qos.NEWEST)
            for topic, (kind, _) in draw.items()
        }

    def start(self) -> None:
        """Look whether somebody looks, from now on."""
        self.loop = Loop('drawing', 1.0 / self._settings.rate_hz, self._work)

    def stop(self) -> None:
        """Draw no more."""
        super().stop()
        self._listen(set())

    def teardown(self) -> None:
        """Forget the task."""
        for publisher in self._pictures.values():
            self.destroy_publisher(publisher)
        super().teardown()

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Take weights of the cost by other numbers from now on."""
        self.task = self.task.tuned(data)

    def report(self) -> Report:
        """Return whether somebody looks, and what is missing."""
        values = {'pictures': self._drawn, 'draw_ms_p50': self._times.quantile_ms(0.5)}
        problems = [*filter(None, [self.follow.changed, self._error])]
        looked = 'drawing' if self._ears is not None else 'nobody looks'
        return Report(WARN if problems else OK, '; '.join(problems) or looked, values)

    def _work(self, _moment: float) -> None:
        """Draw what is looked at."""
        wanted = {t for t, p in self._pictures.items() if p.get_subscription_count() > 0}
        self._listen(wanted)
        if self._ears is None:
            return
        began = time.perf_counter()
        try:
            seen = self._ears.hear()
            for topic in wanted:
                self._pictures[topic].publish(self._draw[topic](seen))
        except EmppiError as error:
            self._error = str(error)
            return
        self._error = '; '.join(self._ears.problems)
        self._drawn += 1
        self._times.add(time.perf_counter() - began)

    def _listen(self, wanted: set[str]) -> None:
        """Subscribe to what pictures need, and to nothing for nobody."""
        plan = bool({ROLLOUTS, COST} & wanted)
        needed = Wanted(plan, ROLLOUTS in wanted) if wanted else None
        heard = None if self._ears is None else self._ears.wanted
        if needed == heard:
            return
        if self._ears is not None:
            self._ears.close()
        self._ears = (
            None
            if needed is None
            else Ears(self, self.task, needed, self._layers.preview.ensemble.hold)
        )
        self._error = ''

    def _markers(self, seen: Seen, draw: Callable[[Seen], list]) -> MarkerArray:
        stamp = convert.to_stamp(seen.stamp)
        return conversion.write_shapes(draw(seen), self.task.robot.frame, stamp, self._lifetime)

    def _points(self, seen: Seen) -> PointCloud2:
        return belief_cloud.write_points(
            self.task, seen.stamp, seen.belief, self._layers.points(seen)
        )

    def _cost(self, seen: Seen) -> DiagnosticArray:
        return write_cost(seen.stamp, seen.stage, self._layers.cost(self.task, seen))


def main() -> None:
    """Run the node, nicer than those that the robot needs."""
    sys.exit(process.run(MarkersNode, nice=15, idle=True))


if __name__ == '__main__':
    main()
