"""
The belief as a PointCloud2: one point per particle, fields `weight` and one per parameter.

Fields are float64, so that a parameter arrives with the very bits that were sent.
"""

from array import array
from collections.abc import Sequence
import sys

import numpy as np
from sensor_msgs.msg import PointCloud2, PointField

from emppi_ros.belief.particles import Belief
from emppi_ros.core import weights
from emppi_ros.core.errors import BeliefError
from emppi_ros.model.parameters import Parameter
from emppi_ros.nodes.common import convert
from emppi_ros.session.message_tables import FLOATS, belief_table, point_type
from emppi_ros.tasks.task import Task

MAX_PARTICLES = 100_000


def pack(task: Task, stamp: float, names: Sequence[str], points: np.ndarray) -> PointCloud2:
    """
    Return the cloud of points (height, width, names), of float32 or float64 as they are.

    It is in the robot's frame. rviz wants x, y and z in float32.
    """
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
    """Return a belief whose particles are at `places` (M, 3) m, to be looked at."""
    points = np.column_stack([places, np.exp(belief.log_weights), belief.theta])
    names = ['x', 'y', 'z', *_names(task.parameters)]
    return pack(task, stamp, names, points[None].astype(np.float32))


def read_belief(task: Task, message: PointCloud2) -> Belief:
    """Return the belief in a message; BeliefError if it is not one about the task."""
    points = _points(task.parameters, message)
    columns = [points[name] for name in _names(task.parameters)]
    with np.errstate(invalid='ignore'):  # of signalling NaN, which are refused below
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
            'belief whose weights are not all finite and at least 0, with a sum above 0'
        )
    with np.errstate(divide='ignore'):  # a weight of 0 is a log weight of -inf
        return Belief(theta, weights.normalize(np.log(weight)))


def _names(parameters: Sequence[Parameter]) -> list[str]:
    return ['weight', *(parameter.name for parameter in parameters)]


def _points(parameters: Sequence[Parameter], message: PointCloud2) -> np.ndarray:
    """Return the structured array of a cloud with exactly the fields of a belief."""
    expected, found = _names(parameters), [field.name for field in message.fields]
    if sorted(found) != sorted(expected):
        raise BeliefError(
            f'belief with fields {", ".join(found) or "none"}; the task needs exactly '
            f'{", ".join(expected)}'
        )
    for field in message.fields:
        if field.datatype not in FLOATS or field.count != 1:
            raise BeliefError(f'belief whose field {field.name!r} is not one float32 or float64')
        # not left to NumPy, which takes offsets from 2^31 for negative ones, and reads there
        if field.offset + np.dtype(FLOATS[field.datatype]).itemsize > message.point_step:
            raise BeliefError(
                f'belief whose field {field.name!r} at byte {field.offset} is outside of a point '
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
