"""Poses in other frames than the robot's, by the transforms of `/tf` and `/tf_static`."""

from bisect import bisect
from functools import partial
import math
from operator import itemgetter
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from scipy.spatial.transform import Rotation

from emppi_ros.core.config import LENGTH_TOLERANCE
from emppi_ros.core.pose import Pose, from_message, to_quaternion
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.interfaces import TFMessage
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.robots.robot import Robot
from emppi_ros.tracking.camera_messages import StaticTransform, add_transforms, find_pose

TF, TF_STATIC = '/tf', '/tf_static'
_KEPT_S = 1.0  # of transforms
_BEYOND_S = 0.1  # a pose may be newer than the newest transform, which then is extrapolated


class FrameTransforms:
    """Transforms between frames; subscribes when the first pose in another frame arrives."""

    def __init__(self, node: Node, robot: Robot) -> None:
        self._node, self._robot = node, robot
        self._static: dict[str, StaticTransform] = {}
        self._moving: dict[str, list[tuple[float, StaticTransform]]] = {}
        self._subscriptions: list[PolledSubscription] = []

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []

    def poll(self) -> None:
        """Take the transforms that have arrived."""
        for subscription in self._subscriptions:
            subscription.poll()

    def read_pose(self, message: PoseStamped) -> tuple[float, Pose]:
        """Return stamp and pose in the robot's frame; PoseError if no transforms lead there."""
        robot, frame = self._robot, message.header.frame_id.lstrip('/')
        if TFMessage is None or frame in ('', robot.frame.lstrip('/')):
            return convert.read_pose(robot, message)
        if not self._subscriptions:
            self._subscriptions = [
                PolledSubscription(self._node, TFMessage, TF, self._take, qos.SENSOR),
                PolledSubscription(
                    self._node, TFMessage, TF_STATIC,
                    lambda static: add_transforms(self._static, static), qos.EVERY,
                ),
            ]  # fmt: skip
        stamp = convert.to_seconds(message.header.stamp)
        pose = from_message(message.pose.position, message.pose.orientation)
        return stamp, find_pose(partial(self._look_up, stamp), frame, robot.frame) @ pose

    def _take(self, message: Any) -> None:
        """Keep valid transforms by their child frame, in the order of their stamps."""
        for transform in message.transforms:
            pose = from_message(transform.transform.translation, transform.transform.rotation)
            if not abs(math.hypot(*pose.quaternion) - 1.0) < LENGTH_TOLERANCE:  # NaN neither
                continue
            stamp = convert.to_seconds(transform.header.stamp)
            history = self._moving.setdefault(transform.child_frame_id.lstrip('/'), [])
            if history and not 0.0 < stamp - history[-1][0] < _KEPT_S:
                history.clear()  # repeated, after a pause, or the clock was set back
            history.append((stamp, StaticTransform(transform.header.frame_id.lstrip('/'), pose)))
            del history[: bisect(history, stamp - _KEPT_S, key=itemgetter(0))]

    def _look_up(self, stamp: float, frame: str) -> StaticTransform | None:
        """Return the transform of a frame to its parent at a time [s]; None if there is none."""
        return self._static.get(frame) or _interpolate(self._moving.get(frame, []), stamp)


def _interpolate(
    history: list[tuple[float, StaticTransform]], stamp: float
) -> StaticTransform | None:
    """Return a transform at a time, linear between two or beyond the last; None if too far."""
    if not history or not history[0][0] <= stamp <= history[-1][0] + _BEYOND_S:
        return None
    if len(history) == 1:
        return history[0][1]
    after = min(max(bisect(history, stamp, key=itemgetter(0)), 1), len(history) - 1)
    (start, first), (end, last) = history[after - 1 : after + 1]
    share = (stamp - start) / (end - start)
    turn = share * (last.pose.rotation * first.pose.rotation.inv()).as_rotvec()
    quaternion = to_quaternion(Rotation.from_rotvec(turn) * first.pose.rotation)
    position = first.pose.position + share * (last.pose.position - first.pose.position)
    return StaticTransform(last.parent, Pose(position, quaternion))
