"""
Read depth images, camera intrinsics and static transforms from messages.

Messages are those of rclpy or of a bag: only their fields are used.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.core.pose import IDENTITY, Pose, from_message
from emppi_ros.tracking import camera
from emppi_ros.tracking.camera import Camera

IMAGE, INFO = 'depth/image', 'depth/camera_info'
ENCODINGS = {'16UC1': ('u2', 0.001), 'mono16': ('u2', 0.001), '32FC1': ('f4', 1.0)}  # REP 118
_LONGEST_CHAIN = 50  # frames from a camera to the world


class StaticTransform(NamedTuple):
    """Pose of a frame in its parent."""

    parent: str
    pose: Pose


def read_depth(message: Any) -> Array:
    """Return the depths (h, w) [m] of an image; PoseError if it is no depth image."""
    if message.encoding not in ENCODINGS:
        raise PoseError(
            f'image with encoding {message.encoding!r}; expected one of {", ".join(ENCODINGS)}'
        )
    code, scale = ENCODINGS[message.encoding]
    kind = np.dtype(('>' if message.is_bigendian else '<') + code)
    least = message.width * kind.itemsize
    if message.step < least or len(message.data) < message.step * message.height:
        raise PoseError(
            f'image of {message.width} x {message.height} px with {len(message.data)} bytes, '
            f'{message.step} a row; expected at least {least} a row'
        )
    raw = np.frombuffer(message.data, np.uint8, message.step * message.height)
    rows = np.ascontiguousarray(raw.reshape(message.height, message.step)[:, :least])
    return scale * rows.view(kind).astype(np.float64)


def read_camera(message: Any, pose: Pose) -> Camera:
    """Return a camera at a pose; PoseError if it is not calibrated, or images are distorted."""
    if any(message.d):
        raise PoseError(
            f'images have distortion (CameraInfo d: {list(message.d)}): subscribe to '
            'rectified ones'
        )
    fx, _, cx, _, fy, cy, *_ = message.k
    try:
        return camera.posed(message.width, message.height, (fx, fy, cx, cy), pose)
    except ConfigError as error:
        raise PoseError(f'CameraInfo: {error}') from None


def add_transforms(known: dict[str, StaticTransform], message: Any) -> None:
    """Add the transforms of a message of /tf_static by the names of their frames."""
    for one in message.transforms:
        known[one.child_frame_id.lstrip('/')] = StaticTransform(
            one.header.frame_id.lstrip('/'),
            from_message(one.transform.translation, one.transform.rotation),
        )


def find_pose(look_up: Callable[[str], StaticTransform | None], frame: str, target: str) -> Pose:
    """
    Return the pose of a frame in another; PoseError if no transforms connect them.

    `look_up` returns the transform of a frame to its parent, None if there is none.
    """
    if not frame:
        raise PoseError('messages of the camera have no frame_id: give the pose of the camera')
    chains = [_chain(look_up, name.lstrip('/')) for name in (frame, target)]
    common = next((name for name in chains[0] if name in chains[1]), None)
    if common is None:
        ends = ' and '.join(repr(next(reversed(chain))) for chain in chains)
        raise PoseError(
            f'no transform from {frame!r} to {target!r}: they lead to {ends}; publish the pose of '
            'the camera, or give it'
        )
    return chains[1][common].inverse() @ chains[0][common]


def _chain(look_up: Callable[[str], StaticTransform | None], frame: str) -> dict[str, Pose]:
    """Return the poses of a frame in itself and in its ancestors, by their names."""
    name, poses = frame, {frame: IDENTITY}
    while (transform := look_up(name)) is not None and len(poses) < _LONGEST_CHAIN:
        if transform.parent in poses:  # a circle
            break
        poses[transform.parent] = transform.pose @ poses[name]
        name = transform.parent
    return poses
