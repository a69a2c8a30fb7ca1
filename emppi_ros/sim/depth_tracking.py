"""
Tracked poses from simulated depth images, in place of true poses with noise.

A depth camera sees the scene with its noise, and the tracker finds the objects in its images,
with the robot at its true joint positions in the background. It starts from the true poses.
"""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.model.parameters import with_parameters
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import depth_noise, renderer, tracker
from emppi_ros.tracking.background import MovingBackground
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.parts import TrackedParts, TrackerConfig
from emppi_ros.tracking.search import TRACKED

Array = npt.NDArray[np.float64]
_REACH_M = 0.03  # objects move less from one image to the next


class DepthTracking:
    """A depth camera that sees the scene of a task, and the tracker of its objects."""

    def __init__(self, task: Task, view: Camera, seed: int) -> None:
        """Place the camera; `seed` is the source of its noise."""
        self._settings = task.simulation.depth_camera
        self._task, self._view = task, view
        self._model = task.visual_model()
        self._truth: Array | None = None
        self._names = tuple(task.tracked)
        bodies = tuple(scene.find(self._model, 'body', one.body) for one in task.tracked.values())
        joints = task.robot.joints
        self._joints = {
            name: int(self._model.jnt_qposadr[scene.find_scalar(self._model, name)])
            for name in joints
        }
        self._background = MovingBackground(self._model, bodies, joints, view)
        config = TrackerConfig(noise_sd_per_m=self._settings.noise_sd_per_m, reach_m=_REACH_M)
        self._parts = TrackedParts(config, self._model, bodies, view)
        self._parts.background, self._bodies = self._background, bodies
        self._state: tracker.TrackerState | None = None
        self._rng = np.random.default_rng(seed)

    def measure(self, time: float, qpos: Array, truth: Array) -> dict[str, Pose]:
        """Return poses of objects that an image of a state (nq,) shows, with true values (P,)."""
        if self._truth is None or not np.array_equal(truth, self._truth):
            self._truth = truth
            known = with_parameters(self._model, self._task.parameters, truth)
            self._renderer = renderer.SceneRenderer(known, self._view)
            self._data, self._known = mujoco.MjData(known), known
        self._data.qpos[:] = qpos
        mujoco.mj_kinematics(self._known, self._data)
        depth = self._renderer.render(self._data)
        image = depth_noise.add_noise(self._settings, depth, self._rng)
        positions = {name: float(qpos[row]) for name, row in self._joints.items()}
        self._background.move(positions)
        if self._state is None:
            self._state = tracker.start(self._parts, renderer.body_poses(self._data, self._bodies))
        self._state, found = tracker.track(self._parts, self._state, time, image)
        return {
            name: Pose(one.row[:3], one.row[3:])
            for name, one in zip(self._names, found, strict=True)
            if one.status == TRACKED
        }
