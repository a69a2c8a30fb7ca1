"""Depth videos in bags: images with their intrinsics, the pose of the camera, and joint states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import PoseError, ReplayError
from emppi_ros.core.pose import Pose
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.recordings.message_tables import NANO, stamp_ns
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.tracking import depth_messages
from emppi_ros.tracking.depth_messages import IMAGE, INFO, StaticTransform
from emppi_ros.tracking.depth_video import DepthVideo

_TASK, _JOINTS, _TRANSFORMS, _WORLD = 'emppi/task', 'joint_states', 'tf_static', 'world'


@dataclass(frozen=True)
class DepthTopics:
    """
    Where a bag has what a depth video needs.

    Attributes
    ----------
    image, info : str
        Topics of the images, and of their intrinsics.
    frame : str
        Frame of the world in /tf_static; '': that of the robot of the bag's task, or `world`.
    pose : Pose or None
        Pose of the camera, in place of /tf_static.

    """

    image: str = IMAGE
    info: str = INFO
    frame: str = ''
    pose: Pose | None = None


class DepthBag(NamedTuple):
    """
    What a bag shows.

    Attributes
    ----------
    video : DepthVideo
        The images; times count from the first one.
    joints : dict
        Times [s] on this clock and positions [rad or m] of each joint in joint states.
    task : Task or None
        The task that ran, if any.
    cut : str
        Why the end of the bag cannot be read; '' if all was read.

    """

    video: DepthVideo
    joints: Mapping[str, tuple[Array, Array]]
    task: Task | None
    cut: str


def read(bag: Bag, topics: DepthTopics) -> DepthBag:
    """Return the video of a bag; ReplayError or PoseError says what is missing."""
    for _ in bag.messages(()):
        pass  # finds the namespace
    image, info = (name.lstrip('/') for name in (topics.image, topics.info))
    images, infos = list[Any](), list[Any]()
    joints: dict[str, list[tuple[float, float]]] = {}
    transforms: dict[str, StaticTransform] = {}
    text = ''
    for topic, _, data in bag.messages({image, info, _TASK, _JOINTS, _TRANSFORMS}):
        if topic == image:
            images.append(data)
        elif topic == info:
            infos.append(data)
        elif topic == _TASK:
            text = data.data
        elif topic == _TRANSFORMS:
            depth_messages.add_transforms(transforms, data)
        else:
            for name, value in zip(data.name, data.position, strict=False):
                joints.setdefault(name, []).append((_seconds(data), float(value)))
    for name, messages in ((image, images), (info, infos)):
        if not messages:
            contents = ', '.join(sorted(bag.counts)) or 'no messages'
            raise ReplayError(f'{bag.path}: no message on {name}; the bag contains: {contents}')
    task = parse_task(text, f'{bag.path}: {_TASK}') if text else None
    frame = topics.frame or (_WORLD if task is None else task.robot.frame)
    pose = topics.pose
    if pose is None:
        pose = depth_messages.find_pose(transforms, infos[0].header.frame_id, frame)
    _check_same(bag, infos)
    images = _in_order(images)
    start = _seconds(images[0])
    video = DepthVideo(
        depth_messages.read_camera(infos[0], pose),
        np.array([_seconds(message) - start for message in images]),
        lambda i: depth_messages.read_depth(images[i]),
    )
    return DepthBag(video, {k: _track(v, start) for k, v in joints.items()}, task, bag.cut)


def _seconds(message: Any) -> float:
    return stamp_ns(message.header.stamp) / NANO


def _in_order(images: Sequence[Any]) -> list[Any]:
    """Return images in the order of their stamps, each stamp once."""
    first = {stamp_ns(image.header.stamp): image for image in reversed(images)}
    return [first[stamp] for stamp in sorted(first)]


def _check_same(bag: Bag, infos: Sequence[Any]) -> None:
    """Raise PoseError if intrinsics change."""
    cameras = {(info.width, info.height, *info.k) for info in infos}
    if len(cameras) > 1:
        raise PoseError(f'{bag.path}: {len(cameras)} cameras on one topic: intrinsics differ')


def _track(samples: Sequence[tuple[float, float]], start: float) -> tuple[Array, Array]:
    time, value = np.array(sorted(samples)).T
    return time - start, value
