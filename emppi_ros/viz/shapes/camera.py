"""Where a picture is taken from: a pinhole camera, as MuJoCo's and rviz's are."""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.task import Task
from emppi_ros.viz.report import video
from emppi_ros.viz.shapes import scene_extent

Array = npt.NDArray[np.float64]
_DISTANCE, _DOWN = 2.6, -20.0  # of the setting's size; degrees: where a scene has no camera


class View(NamedTuple):
    """A camera without distortion, and the size of its picture."""

    eye: Array  # (3,) m
    axes: Array  # (3, 3), rows: to the right, up, and back towards who looks
    fovy: float  # rad, of the picture's height
    width: int  # px
    height: int

    @property
    def focal(self) -> float:
        """How many px a thing of 1 m has at a distance of 1 m."""
        return 0.5 * self.height / float(np.tan(0.5 * self.fovy))

    def project(self, points: Array) -> tuple[Array, Array]:
        """Return where points (..., 3) are in the picture [px], (..., 2), and their depth [m]."""
        seen = (points - self.eye) @ self.axes.T
        depth = -seen[..., 2]
        with np.errstate(divide='ignore', invalid='ignore'):  # beside the eye; not to be drawn
            across, up = self.focal * seen[..., 0] / depth, self.focal * seen[..., 1] / depth
        return np.stack([0.5 * self.width + across, 0.5 * self.height - up], axis=-1), depth


def look(task: Task, model: mujoco.MjModel) -> mujoco.MjvCamera:
    """Return from where to look: as videos do, or at what beliefs are shown over."""
    told = video.view(task, model, task.start().qpos)
    if told is not None:
        return told
    camera = mujoco.MjvCamera()
    size, _ = scene_extent.setting(task)
    camera.lookat[:] = scene_extent.beside(task, scene_extent.place(task, task.start().qpos))
    camera.lookat[2] += 0.3 * size  # the panel is above
    camera.azimuth, camera.elevation, camera.distance = 90.0, _DOWN, _DISTANCE * size
    return camera


def through(model: mujoco.MjModel, qpos: Array, camera: mujoco.MjvCamera, *size: int) -> View:
    """Return the view (width, height: `size`) through a fixed or a free camera of a model."""
    if camera.type == mujoco.mjtCamera.mjCAMERA_FIXED.value:
        data = mujoco.MjData(model)
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)  # cameras may follow a centre of mass
        mujoco.mj_camlight(model, data)
        index = camera.fixedcamid
        axes = data.cam_xmat[index].reshape(3, 3).T.copy()
        return View(
            data.cam_xpos[index].copy(), axes, float(np.radians(model.cam_fovy[index])), *size
        )
    turn, tilt = np.radians([camera.azimuth, camera.elevation])
    ahead = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    right = np.array([np.sin(turn), -np.cos(turn), 0.0])
    axes = np.stack([right, np.cross(right, ahead), -ahead])
    eye = camera.lookat - camera.distance * ahead
    return View(eye, axes, float(np.radians(model.vis.global_.fovy)), *size)
