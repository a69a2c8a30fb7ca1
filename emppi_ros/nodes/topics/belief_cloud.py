"""
The topic `emppi/belief`: a PointCloud2 with one point per particle.

Its fields are `weight` and one per parameter, in float64 so that the values stay exact.
"""

from array import array
from collections.abc import Sequence
import math
import sys
import time

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2, PointField

from emppi_ros.core import weights
from emppi_ros.core.errors import BeliefError, EmppiError, StaleInputError
from emppi_ros.model.parameters import Parameter
from emppi_ros.nodes.common import convert, qos
from emppi_ros.priors.particles import Belief
from emppi_ros.recordings.message_tables import FLOATS, belief_table, point_type
from emppi_ros.tasks.task import Task

BELIEF = 'emppi/belief'
MAX_PARTICLES = 100_000


def pack(task: Task, stamp: float, names: Sequence[str], points: np.ndarray) -> PointCloud2:
    """Return a cloud of points (height, width, names), float32 or 64, in the robot's frame."""
    height, width, _ = points.shape
    size = points.dtype.itemsize
    kind = {4: PointField.FLOAT32, 8: PointField.FLOAT64}[size]
    message = PointCloud2(height=height, width=width, is_dense=bool(np.isfinite(points).all()))
    message.header.stamp, message.header.frame_id = convert.to_stamp(stamp), task.robot.frame
    message.fields = [
        PointField(name=name, offset=size * i, datatype=kind, count=1)
        for i, name in enumerate(names)
    ]
    message.is_bigendian = sys.byteorder == 'big'
    message.point_step, message.row_step = size * len(names), size * len(names) * width
    message.data = array('B', points.tobytes())
    return message


def write_belief(task: Task, stamp: float, belief: Belief) -> PointCloud2:
    """Return the message of a belief."""
    return pack(task, stamp, _names(task.parameters), belief_table(belief)[None])


def write_points(task: Task, stamp: float, belief: Belief, places: np.ndarray) -> PointCloud2:
    """Return a float32 cloud for display, with the particles at `places` (M, 3) [m]."""
    points = np.column_stack([places, np.exp(belief.log_weights), belief.theta])
    names = ['x', 'y', 'z', *_names(task.parameters)]
    return pack(task, stamp, names, points[None].astype(np.float32))


def read_belief(task: Task, message: PointCloud2) -> Belief:
    """Return the belief in a message; BeliefError if it does not fit the task."""
    points = _points(task.parameters, message)
    columns = [points[name] for name in _names(task.parameters)]
    with np.errstate(invalid='ignore'):  # of signalling NaN, rejected below
        weight, *values = (column.astype(np.float64) for column in columns)
    theta = np.column_stack(values) if values else np.empty((len(points), 0))
    if not np.isfinite(theta).all():
        raise BeliefError('belief with parameters that are not finite')
    for parameter, values in zip(task.parameters, theta.T, strict=True):
        if values.min() < parameter.lower or values.max() > parameter.upper:
            raise BeliefError(
                f'belief with {parameter.name} from {values.min():g} to {values.max():g}; the '
                f'task allows {parameter.lower:g} to {parameter.upper:g}'
            )
    if not np.isfinite(weight).all() or np.any(weight < 0.0) or weight.sum() <= 0.0:
        raise BeliefError(
            'belief whose weights are not finite and non-negative, with a positive sum'
        )
    with np.errstate(divide='ignore'):  # a weight of 0 is a log weight of -inf
        return Belief(theta, weights.normalize(np.log(weight)))


def _names(parameters: Sequence[Parameter]) -> list[str]:
    return ['weight', *(parameter.name for parameter in parameters)]


def _points(parameters: Sequence[Parameter], message: PointCloud2) -> np.ndarray:
    """Return the structured array of a cloud with exactly the fields of a belief."""
    expected, names = _names(parameters), [field.name for field in message.fields]
    if sorted(names) != sorted(expected):
        raise BeliefError(
            f'belief with fields {", ".join(names) or "none"}; the task needs exactly '
            f'{", ".join(expected)}'
        )
    for field in message.fields:
        if field.datatype not in FLOATS or field.count != 1:
            raise BeliefError(f'belief whose field {field.name!r} is not one float32 or float64')
        # NumPy would read offsets from 2^31 as negative ones
        if field.offset + np.dtype(FLOATS[field.datatype]).itemsize > message.point_step:
            raise BeliefError(
                f'belief whose field {field.name!r} at byte {field.offset} lies outside a point '
                f'of {message.point_step} bytes'
            )
    count = message.width * message.height
    if not 0 < count <= MAX_PARTICLES or len(message.data) != count * message.point_step:
        raise BeliefError(
            f'belief of {count} particles with {message.point_step} bytes each in '
            f'{len(message.data)} bytes'
        )
    try:
        dtype = point_type(message)
    except ValueError as error:
        raise BeliefError(f'belief with a broken layout: {error}') from None
    return np.frombuffer(message.data, dtype=dtype)


class BeliefSubscriber:
    """Subscribe to the belief and keep the last valid one."""

    def __init__(self, node: Node, task: Task) -> None:
        self._node, self._task = node, task
        self.latest: Belief | None = None
        # arrival by the monotonic clock: the clock of the stamps may be set or paused
        self._received_at, self.error = -math.inf, ''
        self._subscription = node.create_subscription(
            PointCloud2, BELIEF, self._receive, qos.LATCHED
        )

    @property
    def age(self) -> float:
        """Time since the last valid belief arrived [s]; infinite before the first."""
        return time.monotonic() - self._received_at

    def current(self, limit: float) -> Belief:
        """Return the last belief; StaleInputError if it is missing or older than `limit` [s]."""
        if self.latest is None:
            raise StaleInputError(f'no belief received on {BELIEF} yet')
        if self.age > limit:
            raise StaleInputError(
                f'no message on {BELIEF} for {self.age:.2f} s (belief_timeout_s: {limit:g}); '
                'is the belief node running?'
            )
        return self.latest

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def _receive(self, message: PointCloud2) -> None:
        try:
            self.latest = read_belief(self._task, message)
        except EmppiError as error:  # keep the last valid belief
            self.error = str(error)
            self._node.get_logger().warning(f'belief: {error}', throttle_duration_sec=2.0)
            return
        self.error = ''
        self._received_at = time.monotonic()
