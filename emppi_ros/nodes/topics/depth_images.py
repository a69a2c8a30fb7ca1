"""Messages of a depth camera: images, intrinsics, pose, and the state that it renders."""

from array import array

from geometry_msgs.msg import TransformStamped
import numpy as np
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Float64MultiArray

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import JointStateError
from emppi_ros.core.pose import Pose
from emppi_ros.nodes.common import convert
from emppi_ros.tasks.task import Task
from emppi_ros.tracking.camera import Camera

STATE = 'simulator/state'  # true time [s], configuration (nq,) and parameters (P,)
_FRAME = 'depth_camera_optical_frame'
_STEP_M = 0.001  # REP 118: 16 bits are millimetres
_DEEPEST = 65535


def optical_frame(namespace: str) -> str:
    """Return the frame of the simulated camera of a robot."""
    return f'{namespace.strip("/")}/{_FRAME}'.lstrip('/')


def write_state(stamp: float, qpos: Array, truth: Array) -> Float64MultiArray:
    """Return time [s], configuration (nq,) and parameters (P,) of a simulation."""
    return convert.write_command(np.concatenate([[stamp], qpos, truth]))


def read_state(task: Task, message: Float64MultiArray) -> tuple[float, Array, Array]:
    """Return time, configuration and parameters; JointStateError if they are of another task."""
    values, count = np.array(message.data, np.float64), task.model.nq
    expected = 1 + count + len(task.parameters)
    if len(values) != expected:
        raise JointStateError(f'{STATE}: {len(values)} values; expected {expected}')
    return float(values[0]), values[1 : 1 + count], values[1 + count :]


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
    pose = Pose(np.array(camera.position), camera.quaternion)
    return convert.write_transform(parent, frame, stamp, pose)
