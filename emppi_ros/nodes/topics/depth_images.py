"""Messages of a depth camera: images, intrinsics, and its pose as a static transform."""

from array import array

from geometry_msgs.msg import TransformStamped
import numpy as np
from sensor_msgs.msg import CameraInfo, Image

from emppi_ros.core.arrays import Array
from emppi_ros.nodes.common import convert
from emppi_ros.tracking.camera import Camera

TF_STATIC = '/tf_static'
_FRAME = 'depth_camera_optical_frame'
_STEP_M = 0.001  # REP 118: 16 bits are millimetres
_DEEPEST = 65535


def optical_frame(namespace: str) -> str:
    """Return the frame of the simulated camera of a robot."""
    return f'{namespace.strip("/")}/{_FRAME}'.lstrip('/')


def write_depth(stamp: float, frame: str, depth: Array) -> Image:
    """Return depths (h, w) [m] as an image in millimetres, 0 where there is none."""
    with np.errstate(invalid='ignore'):
        steps = np.round(depth / _STEP_M)
        steps = np.where((steps > 0.0) & (steps <= _DEEPEST), steps, 0.0).astype('<u2')
    height, width = depth.shape
    message = Image(height=height, width=width, encoding='16UC1', step=2 * width)
    message.header.stamp, message.header.frame_id = convert.to_stamp(stamp), frame
    message.data = array('B', steps.tobytes())
    return message


def write_camera(stamp: float, frame: str, camera: Camera) -> CameraInfo:
    """Return the intrinsics of a camera without distortion."""
    message = CameraInfo(width=camera.width, height=camera.height, distortion_model='plumb_bob')
    message.header.stamp, message.header.frame_id = convert.to_stamp(stamp), frame
    fx, fy, cx, cy = camera.fx, camera.fy, camera.cx, camera.cy
    message.d = [0.0] * 5
    message.k = [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
    message.r = np.eye(3).ravel().tolist()
    message.p = [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return message


def write_transform(stamp: float, parent: str, frame: str, camera: Camera) -> TransformStamped:
    """Return the pose of a camera's optical frame."""
    message = TransformStamped(child_frame_id=frame)
    message.header.stamp, message.header.frame_id = convert.to_stamp(stamp), parent
    place, turn = message.transform.translation, message.transform.rotation
    place.x, place.y, place.z = camera.position
    turn.w, turn.x, turn.y, turn.z = camera.quaternion.tolist()
    return message
