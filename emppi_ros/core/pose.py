"""
Poses of frames in other frames, and the only conversions between the orders of quaternions.

Quaternions are wxyz, as in MuJoCo and transforms3d; SciPy and ROS have the scalar last. Unless a
name or docstring says otherwise, poses are in the world.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation
from transforms3d import quaternions

from emppi_ros.core.arrays import Array, Bools

_TO_SCIPY, _FROM_SCIPY = [1, 2, 3, 0], [3, 0, 1, 2]


class Pose(NamedTuple):
    """
    Pose of a frame in its parent, by default the world: position (3,) [m], quaternion wxyz (4,).

    `a @ b` is the pose in the parent of a, if b is given in the frame of a.
    """

    position: Array
    quaternion: Array  # of length 1

    def __matmul__(self, other: 'Pose') -> 'Pose':
        """Return a pose in the frame of this one as a pose in this one's parent."""
        moved = quaternions.rotate_vector(other.position, self.quaternion, is_normalized=True)
        return Pose(self.position + moved, quaternions.qmult(self.quaternion, other.quaternion))

    def inverse(self) -> 'Pose':
        """Return the pose of the parent in this frame."""
        back = quaternions.qconjugate(self.quaternion)
        return Pose(-quaternions.rotate_vector(self.position, back, is_normalized=True), back)

    @property
    def rotation(self) -> Rotation:
        """The orientation as a SciPy rotation."""
        return to_rotation(self.quaternion)


IDENTITY = Pose(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))


class Poses(NamedTuple):
    """Poses of many frames, or at many times; `a @ b` composes them, with broadcast axes."""

    position: Array  # (..., 3) m
    rotation: Array  # (..., 3, 3)

    def __matmul__(self, other: 'Poses') -> 'Poses':
        """Return poses in the frames of these as poses in the parents of these."""
        moved = np.einsum('...ij,...j->...i', self.rotation, other.position)
        return Poses(moved + self.position, self.rotation @ other.rotation)

    def inverse(self) -> 'Poses':
        """Return the poses of the parents in these frames."""
        turned = np.swapaxes(self.rotation, -1, -2)
        return Poses(-np.einsum('...ij,...j->...i', turned, self.position), turned)

    def at(self, index: Any) -> 'Poses':
        """Return some of the poses: an index, a slice or a mask."""
        return Poses(self.position[index], self.rotation[index])

    def where(self, chosen: Bools, other: 'Poses') -> 'Poses':
        """Return these poses where `chosen` (n,) is true, and others elsewhere."""
        return Poses(
            np.where(chosen[:, None], self.position, other.position),
            np.where(chosen[:, None, None], self.rotation, other.rotation),
        )

    @property
    def rows(self) -> Array:
        """Positions and quaternions wxyz (n, 7)."""
        return np.column_stack([self.position, to_quaternion(Rotation.from_matrix(self.rotation))])


def from_rows(rows: Array) -> Poses:
    """Return the poses of rows (n, 7): position and quaternion wxyz."""
    return Poses(rows[:, :3].copy(), to_rotation(rows[:, 3:]).as_matrix())


def from_message(translation: Any, rotation: Any) -> Pose:
    """Return the pose of a ROS vector and quaternion, which may be those of a bag."""
    x, y, z, w = rotation.x, rotation.y, rotation.z, rotation.w
    return Pose(np.array([translation.x, translation.y, translation.z]), np.array([w, x, y, z]))


def to_rotation(quaternion: Array) -> Rotation:
    """Return the rotation of a quaternion wxyz (4,), or the rotations of (n, 4)."""
    return Rotation.from_quat(np.asarray(quaternion, np.float64)[..., _TO_SCIPY])


def to_quaternion(rotation: Rotation) -> Array:
    """Return the quaternion wxyz (4,) of a rotation, or those of n rotations (n, 4)."""
    return rotation.as_quat()[..., _FROM_SCIPY]
