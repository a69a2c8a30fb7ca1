"""
A depth camera that sees the simulated scene of a task, and tracked poses from its images.

The camera has the noise of stereo cameras. The tracker replaces true poses with noise: it finds
the objects in the images, with the robot at its true joint positions in the background.
"""

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import parts
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.renderer import SceneRenderer, body_poses
from emppi_ros.tracking.tracker import TRACKED, PartTracker

_REACH_M = 0.03  # objects move less from one image to the next


class SimulatedDepthCamera:
    """Takes images of the scene with its true parameters."""

    data: mujoco.MjData  # the state of the last image, with kinematics up to date

    def __init__(self, task: Task, model: mujoco.MjModel, view: Camera, seed: int) -> None:
        """See the task's visual model; `seed` is the source of the noise."""
        self._task, self._model, self._view = task, model, view
        self._rng = np.random.default_rng(seed)
        self._truth: Array | None = None

    def take(self, qpos: Array, truth: Array) -> Array:
        """Return an image (h, w) of depths [m] in a state (nq,), with true values (P,)."""
        if self._truth is None or not np.array_equal(truth, self._truth):
            self._truth = truth
            self._known = with_parameters(self._model, self._task.parameters, truth)
            self._renderer = SceneRenderer(self._known, self._view)
            self.data = mujoco.MjData(self._known)
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self._known, self.data)
        settings = self._task.simulation.depth_camera
        return add_noise(settings, self._renderer.render(self.data), self._rng)


class DepthTracking:
    """A depth camera that sees the scene of a task, and the tracker of its objects."""

    def __init__(self, task: Task, view: Camera, seed: int) -> None:
        """Place the camera; `seed` is the source of its noise."""
        settings = task.simulation.depth_camera
        config = TrackerConfig(noise_sd_per_m=settings.noise_sd_per_m, reach_m=_REACH_M)
        self._view, self._parts = view, parts.of_task(task, config)
        model = self._parts.model
        self._camera = SimulatedDepthCamera(task, model, view, seed)
        self._joints = {
            name: int(model.jnt_qposadr[scene.find_scalar(model, name)])
            for name in task.robot.joints
        }
        self._tracker: PartTracker | None = None

    def measure(self, time: float, qpos: Array, truth: Array) -> dict[str, Pose]:
        """Return poses of objects that an image of a state (nq,) shows, with true values (P,)."""
        image = self._camera.take(qpos, truth)
        if self._tracker is None:
            start = body_poses(self._camera.data, self._parts.bodies)
            self._tracker = PartTracker(parts.prepare_parts(self._parts, self._view), start)
        joints = {name: float(qpos[row]) for name, row in self._joints.items()}
        estimates = self._tracker.track(time, image, joints=joints)
        return {
            name: Pose(estimate.row[:3], estimate.row[3:])
            for name, estimate in zip(self._parts.names, estimates, strict=True)
            if estimate.status == TRACKED
        }


def add_noise(settings: DepthCameraConfig, depth: Array, rng: np.random.Generator) -> Array:
    """Return what a camera measures of depths (h, w) [m]; NaN where it measures nothing."""
    scale = settings.baseline_m * settings.focal_px
    disparity = scale / depth + rng.normal(0.0, settings.disparity_sd_px, depth.shape)
    if settings.disparity_step_px:
        step = settings.disparity_step_px
        disparity = step * np.round(disparity / step)
    with np.errstate(divide='ignore'):
        result = np.where(disparity > 0.0, scale / disparity, np.nan)
    edge = _edges(depth)
    lost = edge & (rng.random(depth.shape) < settings.edge_dropout)
    lost |= rng.random(depth.shape) < settings.dropout
    lost |= _holes(settings, depth.shape, rng)
    return np.where(lost | (result > settings.farthest_m) | ~np.isfinite(depth), np.nan, result)


def _edges(depth: Array) -> Bools:
    """Return pixels beside a jump of depth by more than 2 %, along rows or columns."""
    edge = np.zeros(depth.shape, bool)
    for axis in (0, 1):
        first = np.moveaxis(depth, axis, 0)
        near = np.minimum(first[1:], first[:-1])
        with np.errstate(invalid='ignore'):
            jump = ~(np.abs(first[1:] - first[:-1]) <= 0.02 * near)
        jump &= np.isfinite(near)
        view = np.moveaxis(edge, axis, 0)
        view[1:] |= jump
        view[:-1] |= jump
    return edge


def _holes(settings: DepthCameraConfig, shape: tuple[int, int], rng: np.random.Generator) -> Bools:
    """Return pixels in round holes at random places."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    result = np.zeros(shape, bool)
    for _ in range(rng.poisson(settings.holes)):
        row, column = rng.uniform(0, shape[0]), rng.uniform(0, shape[1])
        radius = rng.exponential(settings.hole_radius_px)
        result |= (rows - row) ** 2 + (columns - column) ** 2 < radius**2
    return result
