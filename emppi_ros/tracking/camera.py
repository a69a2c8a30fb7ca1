"""Pinhole cameras: intrinsics, pose, and the rays of their pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError
from emppi_ros.core.pose import Pose, to_quaternion
from emppi_ros.model import scene

_TO_OPTICAL = np.diag([1.0, -1.0, -1.0])  # MuJoCo's cameras look along -z, with y up


@dataclass(frozen=True)
class Camera:
    """A camera without distortion, which does not move."""

    width: int  # px
    height: int
    fx: float  # px, as in `sensor_msgs/CameraInfo`: pixel (0, 0) has its centre at (0, 0)
    fy: float
    cx: float
    cy: float
    position: tuple[float, ...] = (0.0, 0.0, 0.0)  # in the world [m]
    # rows of the rotation matrix of the optical frame: x to the right, y down, z ahead
    rotation: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        """Raise ConfigError if sizes are not positive, or the rotation is none."""
        for name in ('width', 'height', 'fx', 'fy'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ConfigError(f'{name}: found {value}, expected a positive number')
        matrix = self.matrix
        whole = matrix.shape == (3, 3) and np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-4)
        if not whole or np.linalg.det(matrix) < 0.0:
            raise ConfigError('camera: its orientation is no rotation (unit quaternion wxyz)')
        if len(self.position) != 3 or not np.isfinite(self.position).all():
            raise ConfigError(f'camera: position: found {self.position}, expected 3 numbers')

    @property
    def matrix(self) -> Array:
        """The rotation matrix (3, 3) from the optical frame to the world."""
        return np.array(self.rotation).reshape(-1, 3)

    @property
    def quaternion(self) -> Array:
        """The quaternion wxyz (4,) of the optical frame in the world."""
        return to_quaternion(Rotation.from_matrix(self.matrix))

    def at(self, pose: Pose) -> 'Camera':
        """Return the same camera at another pose of its optical frame."""
        intrinsics = self.fx, self.fy, self.cx, self.cy
        return posed(self.width, self.height, intrinsics, pose)

    def rays(self) -> Array:
        """Return vectors (height, width, 3) in the world, each as long as gives depth 1 m."""
        across = (np.arange(self.width) - self.cx) / self.fx
        down = (np.arange(self.height) - self.cy) / self.fy
        local = np.ones((self.height, self.width, 3))
        local[..., 0], local[..., 1] = across, down[:, None]
        return local @ self.matrix.T

    def project(self, points: Array) -> Array:
        """Return columns, rows [px] and depths [m] (..., 3) of points (..., 3) in the world."""
        x, y, z = np.moveaxis((points - np.array(self.position)) @ self.matrix, -1, 0)
        return np.stack([self.fx * x / z + self.cx, self.fy * y / z + self.cy, z], axis=-1)


def posed(width: int, height: int, intrinsics: Sequence[float], pose: Pose) -> Camera:
    """Return a camera with intrinsics (fx, fy, cx, cy) and a pose of its optical frame."""
    fx, fy, cx, cy = map(float, intrinsics)
    place = tuple(map(float, pose.position))
    matrix = tuple(map(float, pose.rotation.as_matrix().ravel()))
    return Camera(width, height, fx, fy, cx, cy, place, matrix)


def at(width: int, height: int, fovy_deg: float, position: Array, matrix: Array) -> Camera:
    """Return a camera with square pixels and its centre in the middle, from a field of view."""
    focal = 0.5 * height / math.tan(0.5 * math.radians(fovy_deg))
    middle = 0.5 * (width - 1), 0.5 * (height - 1)
    place, turn = tuple(map(float, position)), tuple(map(float, np.ravel(matrix)))
    return Camera(width, height, focal, focal, *middle, place, turn)


def from_model(model: mujoco.MjModel, name: str, width: int, height: int) -> Camera:
    """Return a camera of a scene, at the initial positions; SceneError if there is none."""
    index = scene.find(model, 'camera', name)
    data = scene.kinematics(model, model.qpos0)
    matrix = data.cam_xmat[index].reshape(3, 3) @ _TO_OPTICAL
    return at(width, height, float(model.cam_fovy[index]), data.cam_xpos[index], matrix)
