"""Depth videos in bags: images with their intrinsics, the pose of the camera, and joint states."""

from collections.abc import Mapping
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

_OTHERS = _TASK, _JOINTS, _TRANSFORMS = 'emppi/task', 'joint_states', 'tf_static'
_WORLD = 'world'


@dataclass(frozen=True)
class DepthTopics:
    """Where a bag has what a depth video needs."""

    image: str = IMAGE  # topic of the images
    info: str = INFO  # topic of their intrinsics
    frame: str = ''  # of the world in /tf_static; '': that of the bag's task's robot, or `world`
    pose: Pose | None = None  # of the camera, in place of /tf_static


class DepthBag(NamedTuple):
    """What a bag shows."""

    video: DepthVideo  # the images; times count from the first one
    joints: Mapping[str, tuple[Array, Array]]  # times [s] on this clock, positions [rad or m]
    task: Task | None  # that ran
    cut: str  # why the end of the bag cannot be read; '' if all was read


def read(bag: Bag, topics: DepthTopics) -> DepthBag:
    """Return the video of a bag; ReplayError or PoseError says what is missing."""
    for _ in bag.messages(()):
        pass  # finds the namespace
    image, info = (name.lstrip('/') for name in (topics.image, topics.info))
    messages: dict[str, list[Any]] = {name: [] for name in (image, info, *_OTHERS)}
    for topic, _, data in bag.messages(messages):
        messages[topic].append(data)
    for name in (image, info):
        if not messages[name]:
            contents = ', '.join(sorted(bag.counts)) or 'no messages'
            raise ReplayError(f'{bag.path}: no message on {name}; the bag contains: {contents}')
    images, infos = messages[image], messages[info]
    task = None
    if messages[_TASK]:
        task = parse_task(messages[_TASK][-1].data, f'{bag.path}: {_TASK}')
    pose, frame = topics.pose, topics.frame or (_WORLD if task is None else task.robot.frame)
    if pose is None:
        transforms: dict[str, StaticTransform] = {}
        for message in messages[_TRANSFORMS]:
            depth_messages.add_transforms(transforms, message)
        pose = depth_messages.find_pose(transforms.get, infos[0].header.frame_id, frame)
    cameras = {(message.width, message.height, *message.k) for message in infos}
    if len(cameras) > 1:
        raise PoseError(f'{bag.path}: {len(cameras)} cameras on one topic: intrinsics differ')
    by_stamp = {stamp_ns(message.header.stamp): message for message in reversed(images)}
    images = [by_stamp[stamp] for stamp in sorted(by_stamp)]  # each stamp once
    start = _seconds(images[0])
    video = DepthVideo(
        depth_messages.read_camera(infos[0], pose),
        np.array([_seconds(message) - start for message in images]),
        lambda i: depth_messages.read_depth(images[i]),
    )
    samples: dict[str, list[tuple[float, float]]] = {}
    for message in messages[_JOINTS]:
        for name, value in zip(message.name, message.position, strict=False):
            samples.setdefault(name, []).append((_seconds(message) - start, float(value)))
    joints = {}
    for name, rows in samples.items():
        time, value = np.array(sorted(rows)).T
        joints[name] = time, value
    return DepthBag(video, joints, task, bag.cut)


def _seconds(message: Any) -> float:
    return stamp_ns(message.header.stamp) / NANO
