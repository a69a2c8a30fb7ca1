"""
The topic `/tf`: where links of the robot, tracked objects and possible axes of joints are.

All frames but the robot's `frame` have the namespace as prefix, such as `left/block`. tf2_msgs
comes with ROS 2, not with the wheels of rclpy; bags need only the bytes.
"""

import math
import struct

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.belief_cloud import BELIEF
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task
from emppi_ros.viz.scene_frames import SceneFrame, SceneFrames
from emppi_ros.viz.shapes.joint_axes import uncertain_objects

__all__ = ['KIND', 'SCENE_DESCRIPTION', 'TransformSource', 'scene_frames', 'to_cdr']

SCENE_DESCRIPTION = 'emppi/robot_description'
KIND = 'tf2_msgs/msg/TFMessage'
_MAX_AGE_S = 0.5  # of a tracked pose; later the object has no transform
_SET_BACK_S = 1.0  # measurements that are this much older: the clock was set back


def scene_frames(node: Node, task: Task) -> SceneFrames:
    """Return the frames of a task's scene, with the namespace of a node as prefix."""
    namespace = node.get_namespace().strip('/')
    return SceneFrames(task, f'{namespace}/' if namespace else '')


class TransformSource:
    """Subscriptions to measurements and belief, and the transforms that follow from them."""

    def __init__(self, node: Node, task: Task, subscribed: bool = True) -> None:
        """Subscribe; if not `subscribed`, `inputs` are to receive the measurements."""
        self.frames = scene_frames(node, task)
        self.inputs = MeasurementInputs(node, task, subscribed=subscribed)
        self._task, self._last = task, -math.inf
        self._axes: list[SceneFrame] = []
        self._subscription = (
            PolledSubscription(node, PointCloud2, BELIEF, self._take_belief, qos.LATCHED)
            if uncertain_objects(task)
            else None
        )

    def close(self) -> None:
        """Unsubscribe."""
        self.inputs.close()
        if self._subscription is not None:
            self._subscription.close()

    def poll(self, links: bool = True) -> list[TransformStamped]:
        """Return the transforms at a new joint state: objects, axes, and links of the scene."""
        self.inputs.poll()
        if self._subscription is not None:
            self._subscription.poll()
        estimator = self.inputs.estimator
        received = self.inputs.stamps.get(self._task.robot.topics.joint_states, -math.inf)
        if received < self._last - _SET_BACK_S:
            self.inputs.clear()
            self._last = -math.inf
        stamp = estimator.joints_stamp
        if not stamp > self._last:
            return []
        self._last = stamp
        tracks = estimator.recent_tracks(stamp, _MAX_AGE_S)
        frames = [*self.frames.objects(tracks), *self._axes]
        if links:
            frames += self.frames.links(estimator.joint_positions)
        return [convert.write_transform(f.parent, f.name, stamp, f.pose) for f in frames]

    def _take_belief(self, message: PointCloud2) -> None:
        try:
            belief: Belief = belief_cloud.read_belief(self._task, message)
        except EmppiError:  # of another task; the belief's own diagnostics report errors
            return
        self._axes = self.frames.axes(belief)


def to_cdr(transforms: list[TransformStamped]) -> bytes:
    """Return a tf2_msgs/TFMessage as CDR, little-endian, without tf2_msgs."""
    body = bytearray(struct.pack('<I', len(transforms)))

    def align(size: int) -> None:
        body.extend(bytes(-len(body) % size))

    for stamped in transforms:
        align(4)
        body.extend(struct.pack('<iI', stamped.header.stamp.sec, stamped.header.stamp.nanosec))
        for text in (stamped.header.frame_id, stamped.child_frame_id):
            data = text.encode() + b'\0'
            align(4)
            body.extend(struct.pack('<I', len(data)) + data)
        align(8)
        place, turn = stamped.transform.translation, stamped.transform.rotation
        values = (place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w)
        body.extend(struct.pack('<7d', *values))
    return b'\0\1\0\0' + bytes(body)
