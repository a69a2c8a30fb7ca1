"""The size of a scene, the direction it is viewed from, and the positions of its bodies."""

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


class SceneExtent(NamedTuple):
    """The size and viewing direction of a task's scene: constant while the task runs."""

    size: float  # m, diagonal of the box around everything that moves, at the start
    right: Array  # (3,) horizontal, to the right as seen by the scene's camera


def scene_extent(task: Task) -> SceneExtent:
    """Return the extent of a task's scene; without a camera `overview`, the view is along y."""
    data = scene.kinematics(task.model, task.start().qpos)
    moving = np.isin(task.model.geom_bodyid, task.model.dof_bodyid)
    reach = np.concatenate(
        [data.xipos[task.model.dof_bodyid], box_corners(data, moving).reshape(-1, 3)]
    )
    size = np.linalg.norm(np.ptp(reach, axis=0))
    right = np.array([1.0, 0.0, 0.0])
    if 'overview' in scene.names(task.model, 'camera'):
        right = data.cam_xmat[scene.find(task.model, 'camera', 'overview')].reshape(3, 3)[:, 0]
        right = right - (right @ UP) * UP
    return SceneExtent(float(size), right / np.linalg.norm(right))


def tracked_bodies(task: Task) -> list[int]:
    """Return the bodies whose poses a tracker reports."""
    return [scene.find(task.model, 'body', item.body) for item in task.tracked.values()]


def belief_anchor(task: Task, data: mujoco.MjData) -> Array:
    """Return the point (3,) [m] near which beliefs are drawn: the first object, or the hand."""
    last = scene.find(task.model, 'joint', task.robot.joints[-1])
    return data.xipos[[*tracked_bodies(task), task.model.jnt_bodyid[last]][0]].copy()


def box_corners(data: mujoco.MjData, geoms: npt.NDArray) -> Array:
    """Return the corners (n, 8, 3) of the boxes around geoms, in the world frame."""
    model = data.model
    centre, half = np.split(model.geom_aabb[geoms], 2, axis=1)
    local = centre[:, None] + half[:, None] * _CORNERS  # in the geom's frame
    rotation = data.geom_xmat[geoms].reshape(-1, 3, 3)
    return data.geom_xpos[geoms][:, None] + np.einsum('gij,gcj->gci', rotation, local)
