"""
Read images, camera intrinsics and transforms from messages.

Messages are those of rclpy or of a bag: only their fields are used.
"""

from collections.abc import Callable
import io
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.core.pose import IDENTITY, Pose, from_message
from emppi_ros.tracking import camera
from emppi_ros.tracking.camera import Camera

IMAGE, INFO = 'depth/image', 'depth/camera_info'
ENCODINGS = {'16UC1': ('u2', 0.001), 'mono16': ('u2', 0.001), '32FC1': ('f4', 1.0)}  # REP 118
COLORS = {'rgb8': [0, 1, 2], 'bgr8': [2, 1, 0]}  # channels of red, green and blue
LABELS = 'mono8', '8UC1'
_STILL_M, _STILL_RAD = 1e-3, 2e-3  # by which the pose of a camera at rest may change on /tf
_LONGEST_CHAIN = 50  # frames from a camera to the world


class StaticTransform(NamedTuple):
    """Pose of a frame in its parent."""

    parent: str
    pose: Pose


def read_depth(message: Any) -> Array:
    """Return the depths (h, w) [m] of an image; PoseError if it is no depth image."""
    if message.encoding not in ENCODINGS:
        raise PoseError(
            f'image with encoding {message.encoding!r}; expected one of {", ".join(ENCODINGS)}. '
            'Colours and labels show parts that move in a plane: `plane` in emppi track --parts'
        )
    code, scale = ENCODINGS[message.encoding]
    kind = np.dtype(('>' if message.is_bigendian else '<') + code)
    return scale * _rows(message, kind.itemsize).view(kind).astype(np.float64)


def read_colors(message: Any) -> npt.NDArray[np.uint8]:
    """Return the colours (h, w, 3) or labels (h, w) of an image; PoseError if it has neither."""
    if hasattr(message, 'format'):  # sensor_msgs/CompressedImage
        try:
            with Image.open(io.BytesIO(bytes(message.data))) as picture:
                return np.asarray(picture if picture.mode in 'LP' else picture.convert('RGB'))
        except (OSError, ValueError) as error:
            raise PoseError(f'image ({message.format}) cannot be read: {error}') from None
    if message.encoding in LABELS:
        return _rows(message, 1)
    if message.encoding not in COLORS:
        raise PoseError(
            f'image with encoding {message.encoding!r}; expected one of '
            f'{", ".join((*COLORS, *LABELS))}. Only depth images need no `plane` in --parts'
        )
    colors = _rows(message, 3).reshape(message.height, message.width, 3)
    return colors[..., COLORS[message.encoding]]


def _rows(message: Any, pixel: int) -> npt.NDArray[np.uint8]:
    """Return the bytes (h, w * pixel) of an image, `pixel` for each; PoseError if some lack."""
    least = message.width * pixel
    if message.step < least or len(message.data) < message.step * message.height:
        raise PoseError(
            f'image of {message.width} x {message.height} px with {len(message.data)} bytes, '
            f'{message.step} a row; expected at least {least} a row'
        )
    raw = np.frombuffer(message.data, np.uint8, message.step * message.height)
    return np.ascontiguousarray(raw.reshape(message.height, message.step)[:, :least])


def read_camera(
    message: Any,
    pose: Pose,
    topic: str = '',
    size: tuple[int, int] | None = None,
    is_rectified: bool = False,
    note: Callable[[str], object] = lambda _: None,
) -> Camera:
    """
    Return the camera of an image topic, at a pose of its optical frame.

    By ROS's convention D and K of a CameraInfo are those of the raw image, and P that of the
    rectified one. Images are rectified unless their topic says that they are raw, and `size`
    (width, height) of an image says whether `roi`, binning, or a filter made it smaller. `note`
    takes sentences on what was assumed. PoseError if intrinsics and images do not fit.
    """
    is_known = is_rectified or 'rect' in topic.lower()  # as in `image_rect_raw`
    is_raw = not is_known and 'raw' in topic.lower().rsplit('/', 1)[-1]
    distortion, where = [float(d) for d in message.d], topic or IMAGE
    has_p = len(message.p) == 12 and message.p[0] > 0.0
    if any(distortion) and (is_raw or not has_p):
        raise PoseError(
            f'{where}: {"raw images" if is_raw else "CameraInfo without p, but"} with distortion '
            f'(d: {distortion}): give the topic of rectified images, such as image_rect of '
            'image_proc; or say that they are rectified (emppi track: --rectified, node tracker: '
            'the parameter rectified)'
        )
    fx, _, cx, _, fy, cy, *_ = message.k
    shift = np.zeros(3)  # m, of the centre of projection: another one than the frame's in stereo
    if has_p and not is_raw:
        fx, _, cx, along, _, fy, cy, down = message.p[:8]
        shift[:2] = -along / fx, -down / fy
    if any(distortion) and not is_known:
        note(
            f'{where}: CameraInfo has distortion; the images are taken for rectified ones, with '
            'its p. If they are raw, rectify them, as image_proc does'
        )
    full, roi = (message.width, message.height), message.roi
    scale = max(message.binning_x, 1), max(message.binning_y, 1)
    corner = roi.x_offset, roi.y_offset
    taken = (roi.width or full[0]) // scale[0], (roi.height or full[1]) // scale[1]
    if size == full:  # neither cut nor binned
        scale, corner, taken = (1, 1), (0, 0), full
    elif size is not None and size != taken:
        factor = round(taken[0] / max(size[0], 1))
        rest = max(abs(n - factor * k) for n, k in zip(taken, size, strict=True))
        if not 2 <= factor or rest >= factor:
            raise PoseError(
                f'{where}: images of {size[0]} x {size[1]} px, but CameraInfo says {taken[0]} x '
                f'{taken[1]}: expected the same, or a whole fraction; of cut images, their roi'
            )
        note(
            f'{where}: images of {size[0]} x {size[1]} px, 1/{factor} of what CameraInfo says, as '
            'of a decimation filter: its intrinsics are divided by as much'
        )
        scale, taken = (factor * scale[0], factor * scale[1]), size
    # as in image_geometry: K and P are those of the full image
    intrinsics = (
        fx / scale[0], fy / scale[1], (cx - corner[0]) / scale[0], (cy - corner[1]) / scale[1],
    )  # fmt: skip
    centre = pose @ Pose(shift, IDENTITY.quaternion)
    try:
        return camera.posed(*taken, intrinsics, centre)
    except ConfigError as error:
        raise PoseError(f'CameraInfo: {error}') from None


def add_transforms(known: dict[str, StaticTransform], message: Any) -> None:
    """Add the transforms of a message of /tf or /tf_static by the names of their frames."""
    for transform in message.transforms:
        known[transform.child_frame_id.lstrip('/')] = StaticTransform(
            transform.header.frame_id.lstrip('/'),
            from_message(transform.transform.translation, transform.transform.rotation),
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


def motion(first: Pose, second: Pose) -> str:
    """Return by how much a camera moved between two poses, in words; '' if it is at rest."""
    shift = float(np.linalg.norm(second.position - first.position))
    turn = float((second.rotation * first.rotation.inv()).magnitude())
    if shift < _STILL_M and turn < _STILL_RAD:
        return ''
    return f'by {1e3 * shift:.1f} mm and {np.degrees(turn):.2f} degrees'


def _chain(look_up: Callable[[str], StaticTransform | None], frame: str) -> dict[str, Pose]:
    """Return the poses of a frame in itself and in its ancestors, by their names."""
    name, poses = frame, {frame: IDENTITY}
    while (transform := look_up(name)) is not None and len(poses) < _LONGEST_CHAIN:
        if transform.parent in poses:  # a circle
            break
        poses[transform.parent] = transform.pose @ poses[name]
        name = transform.parent
    return poses
