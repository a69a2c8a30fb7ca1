"""A depth camera that sees the simulated scene of a task, with noise."""

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.model.parameters import with_parameters
from emppi_ros.sim import depth_noise
from emppi_ros.tasks.task import Task
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.renderer import SceneRenderer


class SimulatedDepthCamera:
    """
    Takes images of the scene with its true parameters.

    Attributes
    ----------
    data : mujoco.MjData
        The state of the last image, with kinematics up to date.

    """

    data: mujoco.MjData

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
        return depth_noise.add_noise(settings, self._renderer.render(self.data), self._rng)
