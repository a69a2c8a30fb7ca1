"""
The topic `emppi/candidates`: paths and costs of the planner's rollouts, while subscribed.

A PointCloud2 with a row per candidate, a point per step, and the fields x, y, z and cost.
"""

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.planning.plan_preview import Candidates, trace_point
from emppi_ros.planning.planner import Planner
from emppi_ros.tasks.task import Task

CANDIDATES = 'emppi/candidates'
_FIELDS = ('x', 'y', 'z', 'cost')
_MIN_PERIOD_S = 0.1  # between messages
_MAX_POINTS = 1_000_000


def write_candidates(task: Task, stamp: float, candidates: Candidates) -> PointCloud2:
    """Return the message of candidates whose plans start at `stamp`."""
    traces = candidates.traces.reshape(-1, *candidates.traces.shape[2:])
    points = np.empty((*traces.shape[:2], len(_FIELDS)), np.float32)
    with np.errstate(over='ignore'):  # diverged rollouts may exceed float32
        points[..., :3] = traces
    points[..., 3] = candidates.costs.reshape(-1, 1)
    return belief_cloud.pack(task, stamp, _FIELDS, points)


def read_candidates(message: PointCloud2) -> Candidates:
    """Return the candidates as rollouts of one model; EmppiError if the message is invalid."""
    names = tuple(field.name for field in message.fields)
    size, count = 4 * len(_FIELDS), message.width * message.height
    if names != _FIELDS or message.point_step != size:
        raise EmppiError(f'{CANDIDATES}: fields {", ".join(names)}; expected {", ".join(_FIELDS)}')
    if not 0 < count <= _MAX_POINTS or len(message.data) != count * size:
        raise EmppiError(f'{CANDIDATES}: {count} points in {len(message.data)} bytes')
    kind = np.dtype(np.float32).newbyteorder('>' if message.is_bigendian else '<')
    points = np.frombuffer(message.data, kind).reshape(1, message.height, message.width, -1)
    return Candidates(points[..., :3].astype(float), points[:, :, 0, 3].astype(float))


class CandidatesPublisher:
    """Publish a planner's candidates, at a limited rate, while there are subscribers."""

    def __init__(self, node: Node, task: Task, planner: Planner) -> None:
        self._node, self._task, self._planner = node, task, planner
        self._point, self._last = trace_point(task), -np.inf
        self._publisher = node.create_publisher(PointCloud2, CANDIDATES, qos.NEWEST)

    def request(self, moment: float) -> None:
        """Keep the candidates of the next cycle if they are due and there is a subscriber."""
        due = not 0.0 <= moment - self._last < _MIN_PERIOD_S - 1e-3  # the clock may be set back
        wanted = due and self._publisher.get_subscription_count() > 0
        self._planner.trace_point = self._point if wanted else None
        self._last = moment if wanted else self._last

    def publish(self, start: float) -> None:
        """Publish the kept candidates of the cycle whose plan starts at `start`."""
        if self._planner.trace_point is None or self._planner.candidates is None:
            return
        self._publisher.publish(write_candidates(self._task, start, self._planner.candidates))

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)
