"""Where things are shown: how large a scene is, from where it is looked at, where bodies are."""

import itertools
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
UP = np.array([0.0, 0.0, 1.0])
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))  # (8, 3)


class Setting(NamedTuple):
    """What stays the same while a task runs."""

    size: float  # m, how far all that moves reaches at the start
    right: Array  # (3,) level, to the right of who looks through the scene's camera


def setting(task: Task) -> Setting:
    """Return the setting of a task: who looks, looks along y where there is no `overview`."""
    data = place(task, task.start().qpos)
    moving = np.isin(task.model.geom_bodyid, task.model.dof_bodyid)
    reach = np.concatenate(
        [data.xipos[task.model.dof_bodyid], corners(data, moving).reshape(-1, 3)]
    )
    size = np.linalg.norm(np.ptp(reach, axis=0))
    right = np.array([1.0, 0.0, 0.0])
    if 'overview' in scene.names(task.model, 'camera'):
        right = data.cam_xmat[scene.find(task.model, 'camera', 'overview')].reshape(3, 3)[:, 0]
        right = right - (right @ UP) * UP
    return Setting(float(size), right / np.linalg.norm(right))


def place(task: Task, qpos: Array) -> mujoco.MjData:
    """Return data in which every body is where a configuration (nq,) puts it."""
    data = mujoco.MjData(task.model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(task.model, data)
    mujoco.mj_camlight(task.model, data)
    return data


def tracked_bodies(task: Task) -> list[int]:
    """Return the bodies whose poses a tracker reports."""
    return [scene.find(task.model, 'body', item.body) for item in task.tracked.values()]


def beside(task: Task, data: mujoco.MjData) -> Array:
    """Return what beliefs are shown over (3,): the first object, else the robot's end [m]."""
    found = [*tracked_bodies(task), task.model.jnt_bodyid[last_joint(task)]]
    return data.xipos[found[0]].copy()


def last_joint(task: Task) -> int:
    """Return the last of the robot's joints."""
    return scene.find(task.model, 'joint', task.robot.joints[-1])


def corners(data: mujoco.MjData, geoms: npt.NDArray) -> Array:
    """Return the corners (n, 8, 3) of boxes around geoms, in the world."""
    model = data.model
    middle, half = np.split(model.geom_aabb[geoms], 2, axis=1)
    inside = middle[:, None] + half[:, None] * _CORNERS  # in the geom's own frame
    turn = data.geom_xmat[geoms].reshape(-1, 3, 3)
    return data.geom_xpos[geoms][:, None] + np.einsum('gij,gcj->gci', turn, inside)
