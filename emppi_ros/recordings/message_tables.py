"""Conversion between decoded ROS messages and arrays, without ROS."""

from collections.abc import Iterator
import math
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan

NANO = 1_000_000_000
# fields of the commands in a JointState and in a trajectory point
STATE_FIELD = {'velocity': 'velocity', 'position': 'position', 'effort': 'effort'}
POINT_FIELD = {'velocity': 'velocities', 'position': 'positions', 'effort': 'effort'}
FLOATS = {7: 'f4', 8: 'f8'}  # data types of sensor_msgs/PointField
_PREFIX = 'emppi: '  # of the names of emppi nodes in diagnostics


def nanoseconds(seconds: float) -> int:
    """Return seconds in nanoseconds; EmppiError outside the range of ROS stamps."""
    if not (math.isfinite(seconds) and abs(seconds) < 2**31):
        raise EmppiError(f'{seconds} s cannot be written as a ROS time')
    whole = math.floor(seconds)  # separately, because the product exceeds the precision of a float
    return whole * NANO + round((seconds - whole) * NANO)


def stamp_ns(stamp: Any) -> int:
    """Return a builtin_interfaces Time or Duration in nanoseconds."""
    return stamp.sec * NANO + stamp.nanosec


def diagnostic_name(node: str, namespace: str = '') -> str:
    """Return the name of a node's status: `emppi: bridge`, or `emppi: left/bridge`."""
    return _PREFIX + f'{namespace.strip("/")}/{node}'.lstrip('/')


def statuses(message: Any, namespace: str = '') -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Yield name, status and values of the emppi nodes of a namespace in a DiagnosticArray."""
    prefix = diagnostic_name('', namespace)
    for status in message.status:
        name = status.name.removeprefix(prefix)
        if name != status.name and '/' not in name:
            values = {pair.key: pair.value for pair in status.values}
            yield name, status, values


def belief_table(belief: Belief) -> Array:
    """Return the published form of a belief: weight and parameters of particles, (M, 1 + P)."""
    return np.column_stack([np.exp(belief.log_weights), belief.theta])


def plan_table(plan: Plan) -> Array:
    """Return the published form of a plan: time from start [ns] and values, (n, 1 + joints)."""
    times = [float(nanoseconds(time)) for time in plan.times.tolist()]
    return np.column_stack([times, plan.values])


def point_type(message: Any) -> np.dtype:
    """Return the dtype of the points of a PointCloud2; ValueError or KeyError if invalid."""
    order = '>' if message.is_bigendian else '<'
    return np.dtype(
        {
            'names': [field.name for field in message.fields],
            'formats': [order + FLOATS[field.datatype] for field in message.fields],
            'offsets': [field.offset for field in message.fields],
            'itemsize': message.point_step,
        }
    )


def read_cloud(message: Any, topic: str) -> tuple[list[str], Array]:
    """Return field names and values (points, fields) of a PointCloud2 of floats."""
    names = [field.name for field in message.fields]
    try:
        points = np.frombuffer(bytes(message.data), point_type(message))
    except (ValueError, KeyError, TypeError) as error:
        raise ReplayError(f'{topic}: invalid PointCloud2: {error}') from None
    columns = [points[name].astype(np.float64) for name in names]
    return names, np.column_stack(columns) if columns else np.empty((0, 0))


def read_plan(message: Any, command: str, topic: str) -> Array:
    """Return a JointTrajectory in the form of `plan_table`."""
    rows = [
        [float(stamp_ns(point.time_from_start)), *getattr(point, POINT_FIELD[command])]
        for point in message.points
    ]
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1)
    except ValueError as error:
        raise ReplayError(f'{topic}: invalid JointTrajectory: {error}') from None
