"""
Kalman filter for pose and velocity of tracked objects.

The filter assumes white-noise acceleration, for position and rotation. Noise is the same along
each axis, so three axes share one 2 x 2 covariance. Rotations are filtered as rotation vectors
about the predicted orientation. Quaternions are wxyz; angular velocities are in the world frame.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import LENGTH_TOLERANCE
from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Pose, to_quaternion
from emppi_ros.tasks.schema import TrackedObjectConfig

_JUMP = 8.0  # innovations beyond this many standard deviations are jumps, or outliers
_MAX_DISTANCE_M = 1e4
_GAP_S = 1.0  # longer gaps between poses restart the track


class Track(NamedTuple):
    """Estimate of an object's motion at `stamp`."""

    stamp: float
    position: Array  # (3,)
    velocity: Array  # (3,) m/s
    rotation: Rotation
    angular_velocity: Array  # (3,) rad/s, world frame
    linear_covariance: Array  # (2, 2) of (position, velocity) along any axis
    angular_covariance: Array  # (2, 2)


def validated(pose: Pose, name: str) -> Pose:
    """Return the pose with a normalized quaternion; PoseError if it is invalid."""
    if not (np.isfinite(pose.position).all() and np.isfinite(pose.quaternion).all()):
        raise PoseError(f'pose of {name!r} is not finite')
    if np.max(np.abs(pose.position)) > _MAX_DISTANCE_M:
        raise PoseError(f'pose of {name!r} is more than {_MAX_DISTANCE_M:g} m away')
    length = math.hypot(*pose.quaternion)  # cannot overflow
    if abs(length - 1.0) > LENGTH_TOLERANCE:
        raise PoseError(f'pose of {name!r}: its quaternion has length {length:.3g}, expected 1')
    return Pose(pose.position, pose.quaternion / length)


def project(pose: Pose, rest: Pose) -> Pose:
    """Return a pose with the height and tilt of `rest`, rotated about the vertical only."""
    turn = pose.rotation * rest.rotation.inv()
    _, _, z, w = turn.as_quat()
    yaw = Rotation.from_rotvec([0.0, 0.0, 2.0 * np.arctan2(z, w)])  # twist about the vertical
    position = np.array([pose.position[0], pose.position[1], rest.position[2]])
    return Pose(position, to_quaternion(yaw * rest.rotation))


def start(settings: TrackedObjectConfig, stamp: float, pose: Pose) -> Track:
    """Return a new track at rest, with the uncertainty of one measurement."""
    zero = np.zeros(3)
    linear = np.diag([settings.position_sd_m**2, 0.1**2])  # initial velocity: sd 0.1 m/s, 1 rad/s
    angular = np.diag([settings.rotation_sd_rad**2, 1.0**2])
    return Track(stamp, pose.position, zero, pose.rotation, zero, linear, angular)


def predict(settings: TrackedObjectConfig, track: Track, stamp: float) -> Track:
    """Return the track predicted to another time, at constant velocity."""
    dt = stamp - track.stamp
    return Track(
        stamp,
        track.position + dt * track.velocity,
        track.velocity,
        Rotation.from_rotvec(dt * track.angular_velocity) * track.rotation,
        track.angular_velocity,
        _propagate(track.linear_covariance, dt, settings.acceleration_sd),
        _propagate(track.angular_covariance, dt, settings.angular_acceleration_sd),
    )


def update(
    settings: TrackedObjectConfig, track: Track | None, stamp: float, pose: Pose
) -> Track | None:
    """Return the track after a measurement, restarted after a long gap; None if it is a jump."""
    if track is None or stamp - track.stamp > _GAP_S:
        return start(settings, stamp, pose)
    ahead = predict(settings, track, stamp)
    shift = pose.position - ahead.position
    turn = (pose.rotation * ahead.rotation.inv()).as_rotvec()
    linear, linear_gain, far = _correct(ahead.linear_covariance, settings.position_sd_m, shift)
    angular, angular_gain, turned = _correct(
        ahead.angular_covariance, settings.rotation_sd_rad, turn
    )
    if far or turned:
        return None
    return Track(
        stamp,
        ahead.position + linear_gain[0] * shift,
        ahead.velocity + linear_gain[1] * shift,
        Rotation.from_rotvec(angular_gain[0] * turn) * ahead.rotation,
        ahead.angular_velocity + angular_gain[1] * turn,
        linear,
        angular,
    )


def state(track: Track) -> tuple[Array, Array]:
    """Return qpos (7,) and qvel (6,) of a free joint; its angular velocity is body-fixed."""
    quaternion = to_quaternion(track.rotation)
    local = track.rotation.inv().apply(track.angular_velocity)
    return np.concatenate([track.position, quaternion]), np.concatenate([track.velocity, local])


def _propagate(covariance: Array, dt: float, acceleration_sd: float) -> Array:
    transition = np.array([[1.0, dt], [0.0, 1.0]])
    effect = acceleration_sd * np.array([0.5 * dt * dt, dt])
    return transition @ covariance @ transition.T + np.outer(effect, effect)


def _correct(covariance: Array, sd: float, innovation: Array) -> tuple[Array, Array, bool]:
    """Return the corrected covariance, the gain (2,), and whether the innovation is a jump."""
    variance = covariance[0, 0] + sd**2
    gain = covariance[:, 0] / variance
    jump = bool(np.any(np.abs(innovation) > _JUMP * np.sqrt(variance)))
    return covariance - np.outer(gain, covariance[0]), gain, jump
