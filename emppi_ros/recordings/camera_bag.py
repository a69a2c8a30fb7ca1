"""Videos in bags: images with their intrinsics, the pose of the camera, and joint states."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import PoseError, ReplayError
from emppi_ros.core.pose import Pose
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.recordings.message_tables import NANO, stamp_ns
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.tracking import camera_messages
from emppi_ros.tracking.camera_messages import IMAGE, INFO, StaticTransform
from emppi_ros.tracking.camera_video import CameraVideo

_OTHERS = _TASK, _JOINTS, *_TF = 'emppi/task', 'joint_states', 'tf', 'tf_static'
_WORLD = 'world'
_LATE_S, _SPREADS = 1.0, 10.0  # of a stamp, from the others; and in their median deviations


@dataclass(frozen=True)
class CameraTopics:
    """Where a bag has what a video needs."""

    image: str = IMAGE  # topic of the images
    info: str = INFO  # topic of their intrinsics
    frame: str = ''  # of the world in /tf; '': that of the bag's task's robot, or `world`
    pose: Pose | None = None  # of the camera, in place of /tf_static and /tf
    is_rectified: bool = False  # whether images are, whatever the name of their topic


class CameraBag(NamedTuple):
    """What a bag shows."""

    video: CameraVideo  # the images; times count from the first one
    joints: Mapping[str, tuple[Array, Array]]  # times [s] on this clock, positions [rad or m]
    task: Task | None  # that ran
    notes: Sequence[str]  # what was assumed or left out, such as an end that cannot be read


def read(bag: Bag, topics: CameraTopics, is_depth: bool = True) -> CameraBag:
    """Return the video of a bag, of depths or not; ReplayError or PoseError: what is missing."""
    for _ in bag.messages(()):
        pass  # finds the namespace
    image, info = (name.lstrip('/') for name in (topics.image, topics.info))
    messages: dict[str, list[Any]] = {name: [] for name in (image, info, *_OTHERS)}
    arrived = list[float]()  # s, when images were recorded
    for topic, time_ns, data in bag.messages(messages):
        messages[topic].append(data)
        if topic == image:
            arrived.append(time_ns / NANO)
    for name in (image, info):
        if not messages[name]:
            contents = ', '.join(sorted(bag.counts)) or 'no messages'
            raise ReplayError(f'{bag.path}: no message on {name}; the bag contains: {contents}')
    infos, notes = messages[info], [bag.cut] if bag.cut else []
    images = _in_time(messages[image], np.array(arrived), image, notes)
    task = None
    if messages[_TASK]:
        task = parse_task(messages[_TASK][-1].data, f'{bag.path}: {_TASK}')
    pose, frame = topics.pose, topics.frame or (_WORLD if task is None else task.robot.frame)
    if pose is None:
        moving, static = (messages[name] for name in _TF)
        pose = _find_pose(moving, static, infos[0].header.frame_id, frame)
    cameras = {(m.width, m.height, *m.k, *m.p, m.roi.x_offset, m.roi.y_offset) for m in infos}
    if len(cameras) > 1:
        raise PoseError(f'{bag.path}: {len(cameras)} cameras on one topic: intrinsics differ')
    start = _seconds(images[0])
    read_image = camera_messages.read_depth if is_depth else camera_messages.read_colors
    size = read_image(images[0]).shape[1::-1]
    video = CameraVideo(
        camera_messages.read_camera(
            infos[0], pose, image, size, topics.is_rectified, notes.append
        ),
        np.array([_seconds(message) - start for message in images]),
        lambda i: read_image(images[i]),
    )
    samples: dict[str, list[tuple[float, float]]] = {}
    for message in messages[_JOINTS]:
        for name, value in zip(message.name, message.position, strict=False):
            samples.setdefault(name, []).append((_seconds(message) - start, float(value)))
    joints = {}
    for name, rows in samples.items():
        time, value = np.array(sorted(rows)).T
        joints[name] = time, value
    return CameraBag(video, joints, task, notes)


def _in_time(images: list[Any], arrived: Array, topic: str, notes: list[str]) -> list[Any]:
    """Return images by their stamps, each stamp once, without those of another clock."""
    delay = arrived - [_seconds(message) for message in images]
    off = delay - np.median(delay)
    # recording times that say nothing, as of a converted bag, differ from all stamps
    late = np.abs(off) > _LATE_S + _SPREADS * np.median(np.abs(off))
    if late.any():
        notes.append(
            f'{topic}: {int(late.sum())} of {len(images)} images left out, whose stamps are off '
            f'by up to {-off[np.argmax(np.abs(off))]:+.6g} s'
        )
    kept = [message for message, is_late in zip(images, late, strict=True) if not is_late]
    by_stamp = {stamp_ns(message.header.stamp): message for message in reversed(kept)}
    return [by_stamp[stamp] for stamp in sorted(by_stamp)]


def _find_pose(moving: list[Any], static: list[Any], camera: str, frame: str) -> Pose:
    """Return the pose of a camera; PoseError if none is known, or if it moves."""
    known, fixed, poses = dict[str, StaticTransform](), dict[str, StaticTransform](), list[Pose]()
    for message in static:
        camera_messages.add_transforms(fixed, message)
    for message in moving:
        camera_messages.add_transforms(known, message)
        with suppress(PoseError):  # transforms of the chain may arrive in several messages
            poses.append(camera_messages.find_pose((known | fixed).get, camera, frame))
    first = poses[0] if poses else camera_messages.find_pose(fixed.get, camera, frame)
    for pose in poses:
        if motion := camera_messages.motion(first, pose):
            raise PoseError(f'camera {camera!r} moves in {frame!r} on /tf, {motion}: not at rest')
    return first


def _seconds(message: Any) -> float:
    return stamp_ns(message.header.stamp) / NANO
