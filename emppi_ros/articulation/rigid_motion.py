"""
Twists, and what noise of poses does to relative poses.

A twist is (linear, angular), (..., 6): the velocity of the point at the origin, and the rotation
vector, both in the fixed frame. It moves a pose from the left: `exp(twist)` times the pose.
"""

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses

_SMALL = 1e-6  # rad: below, series replace quotients
_NEAR_HALF_TURN = 3.0  # rad: above, the axis comes from the symmetric part


def skew(vectors: Array) -> Array:
    """Return the matrices (..., 3, 3) of cross products with vectors (..., 3)."""
    result = np.zeros((*vectors.shape, 3))
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    result[..., 0, 1], result[..., 0, 2], result[..., 1, 2] = -z, y, -x
    result[..., 1, 0], result[..., 2, 0], result[..., 2, 1] = z, -y, x
    return result


def cross(first: Array, second: Array) -> Array:
    """Return cross products (..., 3); `numpy.cross` is slower for small arrays."""
    result = np.empty(np.broadcast_shapes(first.shape, second.shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        result[..., i] = first[..., j] * second[..., k] - first[..., k] * second[..., j]
    return result


def rotation_vectors(rotation: Array) -> Array:
    """Return the rotation vectors (..., 3) of matrices (..., 3, 3), of at most half a turn."""
    row, column = [2, 0, 1], [1, 2, 0]
    axis = 0.5 * (rotation[..., row, column] - rotation[..., column, row])
    sine = np.sqrt(np.sum(axis**2, axis=-1))
    cosine = 0.5 * (np.einsum('...ii->...', rotation) - 1.0)
    angle = np.arctan2(sine, cosine)
    factor = np.where(angle > _SMALL, angle / np.maximum(sine, 1e-12), 1.0)
    result: Array = axis * factor[..., None]
    far = angle > _NEAR_HALF_TURN
    if np.any(far):
        result[far] = Rotation.from_matrix(rotation[far]).as_rotvec()
    return result


def rotations(vectors: Array) -> Array:
    """Return the matrices (..., 3, 3) of rotation vectors (..., 3)."""
    flat = Rotation.from_rotvec(vectors.reshape(-1, 3)).as_matrix()
    return flat.reshape(*vectors.shape, 3)


def rotations_about_z(angle: Array) -> Array:
    """Return the matrices (..., 3, 3) of rotations about z by angles (...)."""
    result = np.zeros((*angle.shape, 3, 3))
    result[..., 0, 0] = result[..., 1, 1] = np.cos(angle)
    result[..., 1, 0] = np.sin(angle)
    result[..., 0, 1] = -result[..., 1, 0]
    result[..., 2, 2] = 1.0
    return result


def exp(twist: Array) -> Poses:
    """Return the motions (...) of twists (..., 6) that act for unit time."""
    linear, angular = twist[..., :3], twist[..., 3:]
    angle = np.sqrt(np.sum(angular**2, axis=-1))[..., None, None]
    safe = np.maximum(angle, 1e-4)
    first = np.where(angle > 1e-4, (1.0 - np.cos(safe)) / safe**2, 0.5)  # noqa: PLR2004
    second = np.where(angle > 1e-4, (safe - np.sin(safe)) / safe**3, 1.0 / 6.0)  # noqa: PLR2004
    once = skew(angular)
    mean = np.eye(3) + first * once + second * (once @ once)
    return Poses(np.einsum('...ij,...j->...i', mean, linear), rotations(angular))


def log(poses: Poses) -> Array:
    """Return the twists (..., 6) of motions, that rotate by at most half a turn."""
    angular = rotation_vectors(poses.rotation)
    angle = np.sqrt(np.sum(angular**2, axis=-1))[..., None]
    safe = np.maximum(angle, 1e-3)
    half = 0.5 * safe
    factor = np.where(angle > 1e-3, (1.0 - half / np.tan(half)) / safe**2, 1.0 / 12.0)  # noqa: PLR2004
    once = cross(angular, poses.position)
    linear = poses.position - 0.5 * once + factor * cross(angular, once)
    return np.concatenate([linear, angular], axis=-1)


def adjoint(poses: Poses) -> Array:
    """Return the matrices (..., 6, 6) that take twists to the outer frame of poses."""
    result = np.zeros((*poses.position.shape[:-1], 6, 6))
    result[..., :3, :3] = result[..., 3:, 3:] = poses.rotation
    result[..., :3, 3:] = skew(poses.position) @ poses.rotation
    return result


def bracket(twist: Array) -> Array:
    """Return the matrices (..., 6, 6) of Lie brackets with twists (..., 6)."""
    result = np.zeros((*twist.shape[:-1], 6, 6))
    result[..., :3, :3] = result[..., 3:, 3:] = skew(twist[..., 3:])
    result[..., :3, 3:] = skew(twist[..., :3])
    return result


def shift(points: Array) -> Array:
    """Return matrices (..., 6, 6) from twists to motions of points (..., 3), and rotations."""
    result = np.broadcast_to(np.eye(6), (*points.shape[:-1], 6, 6)).copy()
    result[..., :3, 3:] = -skew(points)
    return result


def relative_covariance(
    parent: Poses, parent_covariance: Array, child: Poses, child_covariance: Array
) -> Array:
    """
    Return the covariances (T, 6, 6) of displacements of a child in the frame of its parent.

    Covariances given and returned are those of `geometry_msgs/PoseWithCovariance`: of the position
    [m] and of a rotation about the fixed axes [rad]. The rotation of the parent moves the child by
    its distance, its lever arm.
    """
    arm = child.position - parent.position
    moved = shift(arm)  # the parent's errors, as displacements at the child
    turn = np.zeros((*arm.shape[:-1], 6, 6))
    turn[..., :3, :3] = turn[..., 3:, 3:] = np.swapaxes(parent.rotation, -1, -2)
    total = child_covariance + moved @ parent_covariance @ np.swapaxes(moved, -1, -2)
    return turn @ total @ np.swapaxes(turn, -1, -2)
