"""
The node `tracker`: publishes poses of parts from depth images, for planner and belief.

It tracks the newest image; images that arrive meanwhile are left out. Poses of parts that are
hidden or lost are not published, and diagnostics name them. A robot of the scene is part of the
background, at its measured joint positions.
"""

from collections import deque
from pathlib import Path
import sys
import time

from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import CameraInfo, Image, JointState

from emppi_ros.core.errors import EmppiError
from emppi_ros.model import scene
from emppi_ros.nodes.common import convert, process, qos
from emppi_ros.nodes.common.diagnostics import ERROR, OK, WARN, Diagnostics, Durations, Report
from emppi_ros.nodes.common.parameters import declare
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.tracker.images import read_camera, read_depth
from emppi_ros.state.tracking import Pose
from emppi_ros.tracking import parts_file, tracker
from emppi_ros.tracking.background import MovingBackground
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.parts import TrackedParts
from emppi_ros.tracking.parts_file import PartsFile
from emppi_ros.tracking.search import TRACKED
from emppi_ros.tracking.tracker import PartEstimate, TrackerState

IMAGE, INFO, JOINTS = 'depth/image', 'depth/camera_info', 'joint_states'
_KEPT = 200  # joint states, among which is that of an image


class TrackerNode(Node):
    """Tracks the parts of a file."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__('tracker', **kwargs)
        path = str(declare(self, 'parts', '', 'YAML file of the parts, as for `emppi track`'))
        self._frame = str(declare(self, 'frame', 'world', 'frame of the published poses'))
        self._position = list(
            declare(self, 'camera_position', [0.0, 0.0, 0.0], 'position of the camera [m]')  # type: ignore[call-overload]
        )
        self._quaternion = list(
            declare(  # type: ignore[call-overload]
                self,
                'camera_quaternion',
                [1.0, 0.0, 0.0, 0.0],
                'orientation (w, x, y, z) of its optical frame: x right, y down, z ahead',
            )
        )
        self._file: PartsFile | None = None
        self._tracked: TrackedParts | None = None
        self._camera: Camera | None = None
        self._state: TrackerState | None = None
        self._problem, self._images, self._times = '', 0, Durations()
        self._estimates: list[PartEstimate] = []
        self._poses: dict[str, Publisher] = {}
        self._scalar: set[str] = set()  # joints that may be in joint states
        if path:
            self._file = parts_file.load_parts(Path(path))
            names = scene.names(self._file.model, 'joint')
            self._scalar = {n for i, n in enumerate(names) if scene.is_scalar(self._file.model, i)}
            self._poses = {
                name: self.create_publisher(PoseStamped, f'tracking/{name}', qos.MEASURED)
                for name in self._file.names
            }
        self._robot: MovingBackground | None = None
        self._joints: deque[tuple[float, dict[str, float]]] = deque(maxlen=_KEPT)
        self._joint_states = PolledSubscription(
            self, JointState, JOINTS, self._take_joints, qos.SENSOR
        )
        self.create_subscription(CameraInfo, INFO, self._take_camera, qos.SENSOR)
        # of images that wait, only the newest is of use
        self.create_subscription(Image, IMAGE, self._take_image, qos.NEWEST_SENSOR)
        self.diagnostics = Diagnostics(self, self.report)

    def report(self) -> Report:
        """Return how many images were tracked, and what is hidden or lost."""
        if self._file is None:
            return Report(ERROR, 'parts: not set: give the YAML file of the parts')
        values = {'images': self._images, 'track_ms_p50': self._times.quantile_ms(0.5)}
        if self._problem:
            return Report(WARN, self._problem, values)
        if self._tracked is None:
            return Report(WARN, f'waiting for {INFO}', values)
        if not self._estimates:
            return Report(WARN, f'waiting for {IMAGE}', values)
        missing = [
            f'{name} is {one.status}'
            for name, one in zip(self._file.names, self._estimates, strict=True)
            if one.status != TRACKED
        ]
        return Report(WARN if missing else OK, ', '.join(missing) or 'tracking', values)

    def _take_camera(self, message: CameraInfo) -> None:
        """Prepare the parts for a camera, unless it is the same."""
        if self._file is None:
            return
        try:
            camera = read_camera(message, self._position, self._quaternion)
            if camera != self._camera:
                self._tracked = parts_file.prepare_parts(self._file, camera)
                self._state = tracker.start(self._tracked, self._file.start)
                self._camera, self._robot = camera, None
        except EmppiError as error:
            self._problem = str(error)

    def _take_joints(self, message: JointState) -> None:
        """Keep the positions of joints that the scene has."""
        known = {
            name: float(value)
            for name, value in zip(message.name, message.position, strict=False)
            if name in self._scalar and np.isfinite(value)
        }
        if known:
            self._joints.append((convert.to_seconds(message.header.stamp), known))

    def _draw_robot(self, stamp: float) -> None:
        """Put the robot into the background, where it was at a time [s]."""
        assert self._file is not None and self._tracked is not None and self._camera is not None
        self._joint_states.poll()
        if not self._joints or self._file.settings.background == 'none':
            return
        _, joints = min(self._joints, key=lambda one: abs(one[0] - stamp))
        if self._robot is None or set(self._robot.joints) != set(joints):
            self._robot = MovingBackground(
                self._file.model, self._file.bodies, tuple(joints), self._camera
            )
        self._tracked.background = self._robot.render(joints)

    def _take_image(self, message: Image) -> None:
        """Track an image, and publish poses with its stamp."""
        if self._file is None or self._tracked is None or self._state is None:
            return
        began, stamp = time.perf_counter(), convert.to_seconds(message.header.stamp)
        if stamp < self._state.time:  # the clock was set back
            self._state = tracker.start(self._tracked, self._state.poses)
        try:
            self._draw_robot(stamp)
            depth = read_depth(message)
            self._state, self._estimates = tracker.track(self._tracked, self._state, stamp, depth)
        except EmppiError as error:
            self._problem = str(error)
            return
        self._problem = ''
        self._images += 1
        for name, one in zip(self._file.names, self._estimates, strict=True):
            if one.status == TRACKED:
                row = one.row
                pose = Pose(row[:3], row[3:] / np.linalg.norm(row[3:]))
                self._poses[name].publish(convert.write_pose_in(self._frame, stamp, pose))
        self._times.add(time.perf_counter() - began)


def main() -> None:
    """Run the node at the priority of the belief."""
    sys.exit(process.run(TrackerNode, nice=10))
