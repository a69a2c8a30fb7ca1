"""
Tracked poses from simulated depth images, in place of true poses with noise.

A depth camera sees the scene with its noise, and the tracker finds the objects in its images,
with the robot at its true joint positions in the background. It starts from the true poses.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.sim.depth_camera import SimulatedDepthCamera
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import tracker
from emppi_ros.tracking.background import MovingBackground
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.parts import TrackedParts, TrackerConfig
from emppi_ros.tracking.renderer import body_poses
from emppi_ros.tracking.search import TRACKED

Array = npt.NDArray[np.float64]
_REACH_M = 0.03  # objects move less from one image to the next


class DepthTracking:
    """A depth camera that sees the scene of a task, and the tracker of its objects."""

    def __init__(self, task: Task, view: Camera, seed: int) -> None:
        """Place the camera; `seed` is the source of its noise."""
        model, settings = task.visual_model(), task.simulation.depth_camera
        self._camera = SimulatedDepthCamera(task, model, view, seed)
        self._names = tuple(task.tracked)
        bodies = tuple(scene.find(model, 'body', one.body) for one in task.tracked.values())
        joints = task.robot.joints
        self._joints = {
            name: int(model.jnt_qposadr[scene.find_scalar(model, name)]) for name in joints
        }
        self._background = MovingBackground(model, bodies, joints, view)
        config = TrackerConfig(noise_sd_per_m=settings.noise_sd_per_m, reach_m=_REACH_M)
        self._parts = TrackedParts(config, model, bodies, view)
        self._parts.background, self._bodies = self._background, bodies
        self._state: tracker.TrackerState | None = None

    def measure(self, time: float, qpos: Array, truth: Array) -> dict[str, Pose]:
        """Return poses of objects that an image of a state (nq,) shows, with true values (P,)."""
        image = self._camera.take(qpos, truth)
        positions = {name: float(qpos[row]) for name, row in self._joints.items()}
        self._background.move(positions)
        if self._state is None:
            self._state = tracker.start(self._parts, body_poses(self._camera.data, self._bodies))
        self._state, found = tracker.track(self._parts, self._state, time, image)
        return {
            name: Pose(one.row[:3], one.row[3:])
            for name, one in zip(self._names, found, strict=True)
            if one.status == TRACKED
        }
