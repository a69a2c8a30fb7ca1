"""
The node `tracker`: publishes poses of parts from depth images, for planner and belief.

The parts are the tracked objects of the task, or those of a file. Only the newest image is
tracked. Poses of parts that are hidden or lost are not published, and diagnostics name them.
A robot of the scene is part of the background, at its measured joint positions.
"""

from collections import deque
from dataclasses import dataclass
import functools
import math
from pathlib import Path
import time
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
import numpy as np
from rclpy.publisher import Publisher
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CameraInfo, Image, JointState

from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError, EmppiError, PoseError
from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.nodes.common import convert, interfaces, parameters, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Durations, Report
from emppi_ros.nodes.common.frames import TF, TF_STATIC
from emppi_ros.nodes.common.inputs import AHEAD_S, UNCERTAIN
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.topics.task import TaskFollowerNode
from emppi_ros.tracking import camera_messages, parts
from emppi_ros.tracking.camera_messages import IMAGE, INFO, StaticTransform
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.parts import PartsFile
from emppi_ros.tracking.tracker import TRACKED, PartEstimate, PartTracker

_KEPT = 100  # joint states, among which is that of an image
_NO_STAMP = Time()
_LATE = 3  # images in a row that are before the last one, after which the clock was set back
_RECENT = 50  # images, of which diagnostics tell the rate
_NO_TF = (
    'camera_position, camera_quaternion: found none, and tf2_msgs is not installed, which is '
    'needed for /tf_static and /tf: give both, or source a ROS 2 installation'
)


@dataclass(frozen=True)
class TrackerParameters:
    """Parameters of the node `tracker`."""

    parts: str = config.key(
        '', doc="YAML file of the parts, as for `emppi track`; '': the tracked objects of the task"
    )
    frame: str = config.key(
        '', doc="frame of the poses; '': that of the task's robot, or `world` with `parts`"
    )
    camera_position: tuple[float, ...] = config.key(
        (),
        check=lambda value: len(value) in (0, 3),
        allowed='3 numbers',
        doc='position of the camera in this frame [m]; default: from /tf_static or /tf',
    )
    camera_quaternion: tuple[float, ...] = config.key(
        (),
        check=lambda value: len(value) in (0, 4),
        allowed='w, x, y, z',
        doc='orientation of its optical frame: x right, y down, z ahead',
    )
    rectified: bool = config.key(
        False, doc='whether images are rectified although their topic is called raw'
    )
    noise_sd_per_m: float = config.positive(
        TrackerConfig.noise_sd_per_m,
        doc='standard deviation of a depth over its square [1/m], for objects of the task',
    )
    reach_m: float = config.positive(
        0.03, doc='distance that they move at most from one image to the next, likewise'
    )
    iterations: int = config.between(
        1, 50, 2, doc='Gauss-Newton steps for an image, at most, likewise'
    )

    def __post_init__(self) -> None:
        """Raise ConfigError unless the pose of the camera is whole."""
        if bool(self.camera_position) != bool(self.camera_quaternion):
            raise ConfigError('camera_position, camera_quaternion: expected both or none')


class TrackerNode(TaskFollowerNode):
    """Tracks the objects of the task, or the parts of a file."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('tracker', **kwargs)
        self._settings = parameters.declare_all(self, TrackerParameters)
        self._transforms: dict[str, StaticTransform] = {}
        self._moving: dict[str, StaticTransform] = {}  # the newest of /tf
        self._info: CameraInfo | None = None  # the newest that was used
        if not self._settings.camera_position and interfaces.TFMessage is not None:
            self.create_subscription(
                interfaces.TFMessage, TF_STATIC, self._take_transforms, qos.EVERY
            )

    def startup(self) -> None:
        """Configure and activate, with `autostart`; a file of parts needs no task."""
        if self.follow.newest or self._settings.parts:
            super(TaskFollowerNode, self).startup()

    def setup(self) -> None:
        """Load the parts."""
        settings, self._nothing = self._settings, ''
        self._poses: dict[str, Publisher[PoseStamped]] = {}
        self._uncertain: dict[str, Publisher[PoseWithCovarianceStamped]] = {}
        if not settings.camera_position and interfaces.TFMessage is None:
            raise ConfigError(_NO_TF)
        self._frame, self._joint_topic = settings.frame or 'world', 'joint_states'
        self._joint_names: dict[str, str] = {}  # in messages to those of the scene
        if settings.parts:
            self._file: PartsFile = parts.load_parts(Path(settings.parts))
        else:
            task = self.follow.take()
            self._nothing = '' if task.tracked else f'task {task.name!r} has no tracked object'
            if self._nothing:  # another task may have one
                return
            tuned = TrackerConfig(
                noise_sd_per_m=settings.noise_sd_per_m,
                reach_m=settings.reach_m,
                iterations=settings.iterations,
            )
            self._file = parts.of_task(task, tuned)
            self._frame = settings.frame or task.robot.frame
            self._joint_topic, robot = task.robot.topics.joint_states, task.robot
            self._joint_names = dict(zip(robot.measured_names, robot.joints, strict=True))
        names = scene.names(self._file.model, 'joint')
        # joints that may be in joint states
        self._scalar = {n for i, n in enumerate(names) if scene.is_scalar(self._file.model, i)}
        for name in self._file.names:
            self._poses[name] = self.create_publisher(
                PoseStamped, f'tracking/{name}', qos.MEASURED
            )
            self._uncertain[name] = self.create_publisher(
                PoseWithCovarianceStamped, f'{UNCERTAIN}/{name}', qos.MEASURED
            )

    def start(self) -> None:
        """Begin to track, from where the parts start."""
        if self._nothing:
            return
        self._tracker: PartTracker | None = None
        self._joints: deque[bytes] = deque(maxlen=_KEPT)
        self._info = None
        self._size: tuple[int, int] | None = None  # of the images [px]
        self._late, self._said = 0, set[str]()
        self._tf: PolledSubscription | None = None  # while the camera is on no static transform
        self._estimates: list[PartEstimate] = []
        self._problem, self._images = '', 0
        self._times, self._latencies = Durations(), Durations()
        self._recent: deque[float] = deque(maxlen=_RECENT)  # s, stamps of images
        self._joint_states = PolledSubscription(
            self, JointState, self._joint_topic, self._keep_joints, qos.SENSOR, raw=True
        )
        # read with an image: each message that wakes the node up costs half a millisecond
        self._infos = PolledSubscription(
            self, CameraInfo, INFO, self._take_info, qos.NEWEST_SENSOR
        )
        # of images that wait, only the newest is of use
        self._images_in = self.create_subscription(
            Image, IMAGE, self._take_image, qos.NEWEST_SENSOR
        )

    def stop(self) -> None:
        """Track no more."""
        if self._nothing:
            return
        self._joint_states.close()
        self._infos.close()
        if self._tf is not None:
            self._tf.close()
        self.destroy_subscription(self._images_in)

    def teardown(self) -> None:
        """Forget the parts."""
        for publisher in (*self._poses.values(), *self._uncertain.values()):
            self.destroy_publisher(publisher)
        super().teardown()

    def report(self) -> Report:
        """Return how many images were tracked, and what is missing, hidden or lost."""
        if self.state != 'active':
            return Report(WARN, self.state)
        if self._nothing:
            return Report(WARN, self._nothing)
        if self._tracker is None:
            self._infos.poll()
        stamps = self._recent
        span = stamps[-1] - stamps[0] if len(stamps) > 1 else math.nan
        values = {
            'images': self._images,
            'rate_hz': (len(stamps) - 1) / span,
            'track_ms_p50': self._times.quantile_ms(0.5),
            'latency_ms_p50': self._latencies.quantile_ms(0.5),
            'latency_ms_p95': self._latencies.quantile_ms(0.95),
        }
        problem = self.follow.changed or self._problem or self._missing_input()
        if problem:
            return Report(WARN, problem, values)
        missing = [
            f'{name} is {estimate.status}'
            for name, estimate in zip(self._file.names, self._estimates, strict=True)
            if estimate.status != TRACKED
        ]
        return Report(WARN if missing else OK, ', '.join(missing) or 'tracking', values)

    def _missing_input(self) -> str:
        """Return what has not arrived yet, as a sentence; '' if all has."""
        for arrived, topic in ((self._tracker is not None, INFO), (self._estimates, IMAGE)):
            if arrived:
                continue
            name = self.resolve_topic_name(topic)
            if self.count_publishers(name):
                return f'waiting for {topic}'
            return f'waiting for {topic}: no node publishes {name}; is the camera running?'
        return ''

    def _take_info(self, message: CameraInfo) -> None:
        """Prepare the parts for a camera, unless it is the same."""
        previous, message.header.stamp = self._info, _NO_STAMP
        if message == previous and not self._problem:
            return
        settings, topic = self._settings, self.resolve_topic_name(IMAGE)
        try:
            pose = self._find_camera(message.header.frame_id)
            camera = camera_messages.read_camera(
                message, pose, topic, self._size, settings.rectified, self._say
            )
            self._info, self._pose = message, pose
            if self._tracker is None or camera != self._tracker.tracked.camera:
                last = self._file.start if self._tracker is None else self._tracker.poses
                self._tracker = PartTracker(parts.prepare_parts(self._file, camera), last)
                self._problem = ''
        except EmppiError as error:
            self._problem = str(error)

    def _say(self, text: str) -> None:
        """Log a warning once."""
        if text not in self._said:
            self._said.add(text)
            self.get_logger().warning(text)

    def _find_camera(self, frame: str) -> Pose:
        """Return the pose of the camera; PoseError if no transforms lead to it."""
        settings = self._settings
        if settings.camera_position:
            return Pose(np.array(settings.camera_position), np.array(settings.camera_quaternion))
        try:
            return camera_messages.find_pose(self._transforms.get, frame, self._frame)
        except PoseError:
            if interfaces.TFMessage is None:
                raise
        if self._tf is None:
            keep = functools.partial(camera_messages.add_transforms, self._moving)
            self._tf = PolledSubscription(self, interfaces.TFMessage, TF, keep, qos.SENSOR)
        self._tf.poll()
        transforms = self._moving | self._transforms
        return camera_messages.find_pose(transforms.get, frame, self._frame)

    def _adapt(self, message: Image, tracker: PartTracker) -> PartTracker:
        """Return a tracker for images of another size, too; PoseError if the camera moves."""
        if (info := self._info) is None:
            return tracker
        size, motion = (message.width, message.height), ''
        if self._tf is not None:
            motion = camera_messages.motion(self._pose, self._find_camera(info.header.frame_id))
        if motion or size != self._size:
            self._size, self._info = size, None
            self._take_info(info)
            if self._info is None:  # say so with the next image, too
                self._size, self._info = None, info
                raise PoseError(self._problem)
        if motion:
            raise PoseError(f'the camera moves on /tf, {motion}: expected a camera at rest')
        return self._tracker or tracker

    def _is_late(self, stamp: float, last: float) -> bool:
        """Return whether an image is left out: its time is before the last, or of the future."""
        ahead = stamp - now if (now := self.now()) > 0.0 else 0.0
        self._late = self._late + 1 if stamp <= last else 0
        if ahead > AHEAD_S:
            self._problem = f"{ahead:.3f} s ahead of the clock: synchronize the camera's clock"
        elif 0 < self._late < _LATE:
            self._problem = f'{last - stamp:.3f} s before the last one'
        else:
            return False
        self._problem = f'{IMAGE}: image left out, stamped {self._problem}'
        return True

    def _take_transforms(self, message: Any) -> None:
        """Keep static transforms, among which may be the pose of the camera."""
        camera_messages.add_transforms(self._transforms, message)
        self._info = None

    def _keep_joints(self, data: bytes, _sent_ns: int, _received_ns: int) -> None:
        """Buffer joint states undecoded; only the one closest to an image is decoded."""
        self._joints.append(data)

    def _joints_at(self, stamp: float) -> dict[str, float]:
        """Return the positions of joints that the scene has, nearest to a time [s]."""
        self._joint_states.poll()
        if not self._joints:
            return {}
        nearest = min(self._joints, key=lambda data: abs(convert.stamp_of(data) - stamp))
        message = deserialize_message(nearest, JointState)
        names = [self._joint_names.get(name, name) for name in message.name]
        return {
            name: float(value)
            for name, value in zip(names, message.position, strict=False)
            if name in self._scalar and np.isfinite(value)
        }

    def _take_image(self, message: Image) -> None:
        self._infos.poll()
        if (tracker := self._tracker) is None:
            return
        began, stamp = time.perf_counter(), convert.to_seconds(message.header.stamp)
        if self._is_late(stamp, tracker.time):
            return
        if stamp <= tracker.time:  # the clock was set back
            tracker.restart()
        try:
            tracker = self._adapt(message, tracker)
            frame = message.header.frame_id
            other = self._info.header.frame_id if self._info is not None else ''
            if frame and other and frame != other:
                raise PoseError(
                    f'{IMAGE} is in frame {frame!r}, {INFO} in {other!r}: are they of one camera?'
                )
            depth, joints = camera_messages.read_depth(message), self._joints_at(stamp)
            self._estimates = tracker.track(stamp, depth, joints=joints)
        except EmppiError as error:
            self._problem = str(error)
            return
        self._problem = ''
        for name, estimate in zip(self._poses, self._estimates, strict=True):
            if estimate.status == TRACKED:
                row = estimate.row
                pose = Pose(row[:3], row[3:] / np.linalg.norm(row[3:]))
                self._poses[name].publish(convert.write_pose(self._frame, stamp, pose))
                if self._uncertain[name].get_subscription_count():
                    uncertain = self._frame, stamp, pose, estimate.covariance
                    self._uncertain[name].publish(convert.write_uncertain_pose(*uncertain))
        self._images += 1
        self._recent.append(stamp)
        self._times.add(time.perf_counter() - began)
        self._latencies.add(self.now() - stamp)
