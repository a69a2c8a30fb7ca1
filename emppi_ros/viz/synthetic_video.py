"""Depth videos of runs, with the noise of a depth camera, and the true poses beside them."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import UNITS, Signal
from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import depth_video
from emppi_ros.tracking.depth_video import DepthVideo
from emppi_ros.tracking.renderer import SceneRenderer
from emppi_ros.viz.renderer import depth_camera
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.report.video import true_model


def count(task: Task, record: RunRecord) -> int:
    """Return the number of images of a run."""
    return len(_rows(task, record))


def write(
    path: Path, task: Task, record: RunRecord, seed: int, progress: Callable[[float], None]
) -> Path:
    """Write the depth video of a run, and the true poses of all that moves; return their path."""
    settings, model = task.simulation.depth_camera, true_model(task, record)
    view, rng = depth_camera(task, model), np.random.default_rng(seed)
    renderer, data = SceneRenderer(model, view), mujoco.MjData(model)
    images = np.empty((count(task, record), settings.height, settings.width), np.float32)
    for i, row in enumerate(_rows(task, record)):
        data.qpos[:] = record.qpos[row]
        mujoco.mj_kinematics(model, data)
        images[i] = add_noise(settings, renderer.render(data), rng)
        progress(i + 1)
    time = record.times[_rows(task, record)]
    depth_video.write(path, DepthVideo(view, time, lambda i: images[i]))
    beside = path.with_suffix('.truth.csv')
    tables.write(beside, true_poses(model, time, record.qpos[_rows(task, record)]))
    return beside


def true_poses(model: mujoco.MjModel, time: Array, qpos: Array) -> list[Signal]:
    """Return the poses of all bodies that move, at states (T, nq)."""
    states = [scene.kinematics(model, row) for row in qpos]
    moving = [body for body in range(1, model.nbody) if model.body_weldid[body] != 0]
    return [
        Signal(
            'pose', model.body(body).name, UNITS['pose'][0], time,
            np.array([np.concatenate([s.xpos[body], s.xquat[body]]) for s in states]), 'run',
        )
        for body in moving
        if model.body(body).name
    ]  # fmt: skip


def _rows(task: Task, record: RunRecord) -> npt.NDArray[np.int64]:
    """Return the rows of a record that are nearest to the times of images."""
    rate = task.simulation.depth_camera.rate_hz
    due = np.arange(0.0, record.times[-1] + 1e-9, 1.0 / rate) + record.times[0]
    rows = np.clip(np.searchsorted(record.times, due - 1e-9), 0, len(record.times) - 1)
    return np.unique(rows)
