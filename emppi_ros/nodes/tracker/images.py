"""Convert depth images and camera intrinsics from messages."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo, Image

from emppi_ros.core.errors import PoseError
from emppi_ros.tracking import camera
from emppi_ros.tracking.camera import Camera

Array = npt.NDArray[np.float64]
ENCODINGS = {'16UC1': ('u2', 0.001), 'mono16': ('u2', 0.001), '32FC1': ('f4', 1.0)}  # REP 118


def read_depth(message: Image) -> Array:
    """Return the depths (h, w) [m] of an image; PoseError if it is no depth image."""
    if message.encoding not in ENCODINGS:
        raise PoseError(
            f'image with encoding {message.encoding!r}; expected one of {", ".join(ENCODINGS)}'
        )
    kind, scale = ENCODINGS[message.encoding]
    kind = np.dtype(('>' if message.is_bigendian else '<') + kind)
    least = message.width * kind.itemsize
    if message.step < least or len(message.data) < message.step * message.height:
        raise PoseError(
            f'image of {message.width} x {message.height} px with {len(message.data)} bytes, '
            f'{message.step} a row; expected at least {least} a row'
        )
    raw = np.frombuffer(message.data, np.uint8, message.step * message.height)
    rows = np.ascontiguousarray(raw.reshape(message.height, message.step)[:, :least])
    depth: Array = scale * rows.view(kind).astype(np.float64)
    return depth


def read_camera(
    message: CameraInfo, position: Sequence[float], quaternion: Sequence[float]
) -> Camera:
    """Return a camera at a pose (quaternion wxyz); PoseError if images are not rectified."""
    if any(message.d):
        raise PoseError(
            f'images have distortion (CameraInfo d: {list(message.d)}): subscribe to '
            'rectified ones'
        )
    fx, _, cx, _, fy, cy, *_ = message.k
    return camera.posed(message.width, message.height, (fx, fy, cx, cy), position, quaternion)
