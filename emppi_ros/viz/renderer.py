"""
Off-screen rendering by MuJoCo, and the cameras that pictures of a task are taken with.

On Linux, rendering goes through EGL unless the environment variable MUJOCO_GL names another way
and there is a display.
"""

from collections.abc import Callable
import copy
import importlib
import os
import sys
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError, prefix_errors
from emppi_ros.core.pose import to_rotation
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import camera as camera_models
from emppi_ros.tracking.camera import Camera
from emppi_ros.viz.shapes import scene_extent

Image = npt.NDArray[np.uint8]

_ELEVATION, _MARGIN = -20.0, 1.05  # degrees; of the distance: of a camera that frames a scene
_SHADOWS, _SAMPLES = 2048, 4  # px of the shadow map, samples per pixel
_MAX_GEOMS = 10000
_INSTALL = (
    'no off-screen rendering here ({reason}); on Debian or Ubuntu this installs it: '
    '`apt install libegl1 libgl1-mesa-dri`'
)


class RenderError(EmppiError):
    """This machine cannot render; the message says what to install."""


class Renderer:
    """Renders a model off screen."""

    def __init__(
        self,
        model: mujoco.MjModel,
        width: int,
        height: int,
        camera: mujoco.MjvCamera | None = None,
    ) -> None:
        """Open an OpenGL context; without a camera, use MuJoCo's default free camera."""
        model = copy.copy(model)  # visual quality is limited: software rendering is slow
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        model.vis.quality.shadowsize = min(_SHADOWS, model.vis.quality.shadowsize)
        model.vis.quality.offsamples = min(_SAMPLES, model.vis.quality.offsamples)
        self.model, self._data = model, mujoco.MjData(model)
        self._gl = _open_context(width, height)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene, self._option = mujoco.MjvScene(model, _MAX_GEOMS), mujoco.MjvOption()
        self.camera = mujoco.MjvCamera() if camera is None else camera
        if camera is None:
            mujoco.mjv_defaultFreeCamera(model, self.camera)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)

    def render(
        self, qpos: Array, decorate: Callable[[mujoco.MjvScene], None] = lambda _: None
    ) -> Image:
        """Return a picture (height, width, 3) of a configuration; `decorate` may add geoms."""
        self._data.qpos[:] = qpos
        mujoco.mj_forward(self.model, self._data)
        every = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self.model, self._data, self._option, None, self.camera, every, self._scene
        )
        decorate(self._scene)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return self._pixels[::-1].copy()

    def close(self) -> None:
        """Free the graphics memory."""
        self._context.free()
        self._gl.free()


def check_renderer() -> None:
    """Raise RenderError if this machine cannot render."""
    _open_context(16, 16).free()


def task_camera(task: Task, model: mujoco.MjModel, qpos: Array) -> mujoco.MjvCamera | None:
    """Return the camera of the task's `view`, else the scene's camera `overview`, else None."""
    camera, view = mujoco.MjvCamera(), task.file.view
    if view is not None:
        camera.lookat[:] = scene.kinematics(model, qpos).body(view.body).xpos
        camera.distance = view.distance_m
        camera.azimuth, camera.elevation = view.azimuth_deg, view.elevation_deg
    elif 'overview' in scene.names(model, 'camera'):
        camera.type = mujoco.mjtCamera.mjCAMERA_FIXED.value
        camera.fixedcamid = scene.find(model, 'camera', 'overview')
    else:
        return None
    return camera


def start_camera(task: Task, model: mujoco.MjModel, aspect: float) -> mujoco.MjvCamera:
    """Return the task's camera at the start, else one that shows the robot and the belief."""
    camera = task_camera(task, model, task.start().qpos)
    return framing_camera(task, model, aspect) if camera is None else camera


def framing_camera(task: Task, model: mujoco.MjModel, aspect: float) -> mujoco.MjvCamera:
    """Return a camera, along y and down, that shows all within reach at width over height."""
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation = 90.0, _ELEVATION
    axes = camera_pose(model, task.start().qpos, camera).axes
    points = scene_extent.reached_points(task, model) @ axes.T  # to the right, up, and backwards
    low, high = points.min(axis=0), points.max(axis=0)
    middle = 0.5 * (low + high)
    half = np.tan(0.5 * np.radians(model.vis.global_.fovy)) * np.array([aspect, 1.0])
    offset = points - middle
    camera.distance = float(np.max(np.abs(offset[:, :2]) / half + offset[:, 2:]) * _MARGIN)
    camera.lookat[:] = middle @ axes
    return camera


class CameraPose(NamedTuple):
    """Position, orientation and field of view of a pinhole camera."""

    position: Array  # (3,) m
    axes: Array  # (3, 3), rows: right, up, and backwards
    fovy: float  # rad, vertical field of view

    def project(self, points: Array, width: int, height: int) -> tuple[Array, Array]:
        """Return the pixels (..., 2) of points (..., 3), right and down, and their depths [m]."""
        local = (points - self.position) @ self.axes.T
        depth = -local[..., 2]
        focal = 0.5 * height / np.tan(0.5 * self.fovy)  # px
        with np.errstate(divide='ignore', invalid='ignore'):  # points in the camera's plane
            across, up = focal * local[..., 0] / depth, focal * local[..., 1] / depth
        return np.stack([0.5 * width + across, 0.5 * height - up], axis=-1), depth


def camera_pose(model: mujoco.MjModel, qpos: Array, camera: mujoco.MjvCamera) -> CameraPose:
    """Return the pose of a fixed or a free camera of a model in a configuration (nq,)."""
    if camera.type == mujoco.mjtCamera.mjCAMERA_FIXED.value:
        data, index = scene.kinematics(model, qpos), camera.fixedcamid
        axes, fovy = data.cam_xmat[index].reshape(3, 3).T.copy(), model.cam_fovy[index]
        return CameraPose(data.cam_xpos[index].copy(), axes, float(np.radians(fovy)))
    azimuth, elevation = np.radians([camera.azimuth, camera.elevation])
    level, up = np.cos(elevation), np.sin(elevation)
    forward = np.array([level * np.cos(azimuth), level * np.sin(azimuth), up])
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
    axes = np.stack([right, np.cross(right, forward), -forward])
    position = camera.lookat - camera.distance * forward
    return CameraPose(position, axes, float(np.radians(model.vis.global_.fovy)))


def depth_camera(task: Task, model: mujoco.MjModel) -> Camera:
    """Return the depth camera of a task: of its scene, at a pose, or where videos have theirs."""
    settings = task.simulation.depth_camera
    size = settings.width, settings.height
    if settings.camera:
        where = f'{task.where}: simulation: depth_camera: camera'
        make = camera_models.from_model
        return prefix_errors(where, make, model, settings.camera, *size)
    if settings.position is not None and settings.quaternion is not None:
        turn = to_rotation(np.array(settings.quaternion)).as_matrix()
        return camera_models.at(*size, settings.fovy_deg, np.array(settings.position), turn)
    view = start_camera(task, model, settings.width / settings.height)
    pose = camera_pose(model, task.start().qpos, view)
    right, up, backwards = pose.axes
    matrix = np.column_stack([right, -up, -backwards])
    return camera_models.at(*size, float(np.degrees(pose.fovy)), pose.position, matrix)


def _open_context(width: int, height: int) -> Any:
    """Return a current OpenGL context, or raise RenderError."""
    backend = os.environ.get('MUJOCO_GL', '')
    shown = os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')
    egl = sys.platform == 'linux' and (
        backend in ('', 'egl') or not (shown or backend == 'osmesa')
    )
    try:
        # imported here: where EGL is missing the import itself fails, in several ways
        module = importlib.import_module('mujoco.egl' if egl else 'mujoco.gl_context')
        context = module.GLContext(width, height)
        context.make_current()
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RenderError(_INSTALL.format(reason=reason[:120])) from None
    return context
