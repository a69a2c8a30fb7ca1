"""Depth videos of runs, with the noise of a depth camera, and the true poses beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import UNITS, Signal
from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import camera_video
from emppi_ros.tracking.camera_video import CameraVideo
from emppi_ros.tracking.renderer import SceneRenderer
from emppi_ros.viz.renderer import depth_camera
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.report.video import true_model


def image_rows(task: Task, record: RunRecord) -> npt.NDArray[np.int64]:
    """Return the rows of a record that are nearest to the times of images."""
    rate = task.simulation.depth_camera.rate_hz
    due = np.arange(0.0, record.times[-1] + 1e-9, 1.0 / rate) + record.times[0]
    rows = np.clip(np.searchsorted(record.times, due - 1e-9), 0, len(record.times) - 1)
    return np.unique(rows)


def write(
    path: Path, task: Task, record: RunRecord, seed: int, progress: Callable[[float], None]
) -> Path:
    """Write the depth video of a run, and the true poses of all that moves; return their path."""
    settings, model = task.simulation.depth_camera, true_model(task, record)
    view, rng = depth_camera(task, model), np.random.default_rng(seed)
    renderer, data = SceneRenderer(model, view), mujoco.MjData(model)
    rows, images = image_rows(task, record), list[Any]()
    for qpos in record.qpos[rows]:
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        images.append(add_noise(settings, renderer.render(data), rng).astype(np.float32))
        progress(len(images))
    camera_video.write(path, CameraVideo(view, record.times[rows], images.__getitem__))
    beside = path.with_suffix('.truth.csv')
    tables.write(beside, true_poses(model, record.times[rows], record.qpos[rows]))
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
