"""
A video of a recording: the scene as a camera sees it, the belief beside it, in real time.

Rendering happens off screen, through EGL on Linux unless MUJOCO_GL names another way.
"""

from collections.abc import Callable
import copy
import importlib
import os
from pathlib import Path
import sys
from typing import Any

import imageio.v2 as imageio
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.model import scene
from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.belief_panel import Panel
from emppi_ros.viz.report.recording import Recording

Array = npt.NDArray[np.float64]
Image = npt.NDArray[np.uint8]
Decorate = Callable[[float], Callable[[mujoco.MjvScene], None]]

SUFFIXES = ('.mp4', '.gif')
SCENE, PANEL, HEIGHT = 816, 464, 720  # px, 1280 x 720 together
_FPS = {'.mp4': 25, '.gif': 10}
_SHADOWS, _SAMPLES = 2048, 4  # px of the shadow map, samples per pixel
_STILL_S = 1.0  # the last picture stays so long
_GIF_SHARE = 2  # a GIF has every second pixel
_HELP = (
    'no off-screen rendering here ({reason}); on Debian or Ubuntu this installs it: '
    '`apt install libegl1 libgl1-mesa-dri`'
)


class RenderError(EmppiError):
    """Pictures of the scene cannot be made on this machine; the message says what to install."""


class Camera:
    """Renders a model off screen."""

    def __init__(
        self,
        model: mujoco.MjModel,
        width: int,
        height: int,
        view: mujoco.MjvCamera | None = None,
    ) -> None:
        """Look as told, or freely."""
        model = copy.copy(model)  # its visual settings are made quick to render in software
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        model.vis.quality.shadowsize = min(_SHADOWS, model.vis.quality.shadowsize)
        model.vis.quality.offsamples = min(_SAMPLES, model.vis.quality.offsamples)
        self.model, self._data = model, mujoco.MjData(model)
        self._gl = _open(width, height)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene, self._option = mujoco.MjvScene(model, 5000), mujoco.MjvOption()
        self._free = _free(model)
        self.view = view
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)

    def render(
        self, qpos: Array, add: Callable[[mujoco.MjvScene], None] = lambda _: None
    ) -> Image:
        """Return the picture (height, width, 3) of a configuration, with what `add` adds to it."""
        self._data.qpos[:] = qpos
        mujoco.mj_forward(self.model, self._data)
        every = mujoco.mjtCatBit.mjCAT_ALL.value
        looking = self._free if self.view is None else self.view
        mujoco.mjv_updateScene(
            self.model, self._data, self._option, None, looking, every, self._scene
        )
        add(self._scene)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return self._pixels[::-1].copy()

    def close(self) -> None:
        """Give the graphics memory back."""
        self._context.free()
        self._gl.free()


def true_model(task: Task, record: Recording) -> mujoco.MjModel:
    """Return the model that a recording's states belong to: a hinge turns what a slide moves."""
    return with_parameters(task.visual_model(), task.parameters, record.truth)


def view(task: Task, model: mujoco.MjModel, qpos: Array) -> mujoco.MjvCamera | None:
    """Return from where to look: the task's `view`, the scene's camera `overview`, or None."""
    found, told = mujoco.MjvCamera(), task.file.view
    if told is not None:
        data = mujoco.MjData(model)
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        found.lookat[:] = data.body(told.body).xpos
        found.distance = told.distance_m
        found.azimuth, found.elevation = told.azimuth_deg, told.elevation_deg
    elif 'overview' in scene.names(model, 'camera'):
        found.type = mujoco.mjtCamera.mjCAMERA_FIXED.value
        found.fixedcamid = scene.find(model, 'camera', 'overview')
    else:
        return None
    return found


def _free(model: mujoco.MjModel) -> mujoco.MjvCamera:
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, view)
    return view


def _open(width: int, height: int) -> Any:
    """Return a current OpenGL context, or raise RenderError."""
    chosen = os.environ.get('MUJOCO_GL', '')
    egl = sys.platform == 'linux' and chosen in ('', 'egl')
    try:
        # imported here, since where EGL is missing the import itself fails, in several ways
        module = importlib.import_module('mujoco.egl' if egl else 'mujoco.gl_context')
        context = module.GLContext(width, height)
        context.make_current()
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RenderError(_HELP.format(reason=reason[:120])) from None
    return context


def check_renderer() -> None:
    """Raise RenderError if nothing can be rendered here."""
    _open(16, 16).free()


def count_frames(record: Recording, suffix: str = '.mp4') -> int:
    """Return how many pictures a video has."""
    if len(record.times) == 0:
        raise ConfigError('nothing was recorded: there is nothing to show')
    return int((record.times[-1] + _STILL_S) * _FPS[suffix]) + 1


def write_still(task: Task, record: Recording, path: Path, decorate: Decorate) -> None:
    """Write a picture (.png) of the scene at the start and at the end of a recording."""
    model = true_model(task, record)
    camera = Camera(model, SCENE, HEIGHT)
    try:
        seen = []
        for row in (0, len(record.times) - 1):
            camera.view = view(task, model, record.qpos[row])
            seen.append(camera.render(record.qpos[row], decorate(record.times[row])))
        imageio.imwrite(path, np.hstack(seen))
    finally:
        camera.close()


def write(
    task: Task,
    record: Recording,
    path: Path,
    progress: Callable[[float], None] = lambda _: None,
    decorate: Decorate = lambda _: lambda _: None,
) -> None:
    """
    Write a video (.mp4 or .gif) of a recording; `progress` gets the pictures done.

    `decorate` takes a moment [s], and returns what adds something to the scene of it.
    """
    fps, small = _FPS[path.suffix], path.suffix == '.gif'
    count = count_frames(record, path.suffix)
    model = true_model(task, record)
    camera = Camera(model, SCENE, HEIGHT)
    panel = Panel(task, record, PANEL, HEIGHT)
    options = (
        {'loop': 0, 'duration': 1e3 / fps}
        if small
        else {'fps': fps, 'macro_block_size': 8, 'quality': 7}
    )
    try:
        with imageio.get_writer(path, **options) as writer:
            for i in range(count):
                now = i / fps  # beyond the end, the last picture stays
                row = min(np.searchsorted(record.times, now), len(record.times) - 1)
                camera.view = view(task, model, record.qpos[row])
                seen = camera.render(record.qpos[row], decorate(now))
                picture = np.hstack([seen, panel.draw(now)])
                writer.append_data(picture[::_GIF_SHARE, ::_GIF_SHARE] if small else picture)
                progress(i + 1)
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None
    finally:
        camera.close()
