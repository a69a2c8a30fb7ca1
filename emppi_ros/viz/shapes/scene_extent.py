"""The size of a scene, the direction it is viewed from, and the positions of its bodies."""

import itertools
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task

UP = np.array([0.0, 0.0, 1.0])
_BELIEF = 0.7, 0.75  # of the extent: to the right of the anchor and above it, two histograms
_DRAWS = 100  # of configurations
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))  # (8, 3)


class SceneExtent(NamedTuple):
    """The size and viewing direction of a task's scene: constant while the task runs."""

    size: float  # m, diagonal of the box around everything that moves, at the start
    right: Array  # (3,) horizontal, to the right as seen by the scene's camera


def scene_extent(task: Task) -> SceneExtent:
    """Return the extent of a task's scene; without a camera `overview`, the view is along y."""
    data = scene.kinematics(task.model, task.start().qpos)
    moving = np.flatnonzero(np.isin(task.model.geom_bodyid, task.model.dof_bodyid))
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


def reached_points(task: Task, model: mujoco.MjModel) -> Array:
    """
    Return points (n, 3) [m] around all that the robot and objects reach, and around the belief.

    Joints of a task's `model` are drawn within limits, hinges without them over a turn; free
    bodies stay where they start, and nothing is below the floor.
    """
    start, rng = task.start().qpos, np.random.default_rng(0)
    moving = np.isin(model.body_rootid[model.geom_bodyid], model.body_rootid[model.dof_bodyid])
    floors = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE.value
    scalars = [joint for joint in range(model.njnt) if scene.is_scalar(model, joint)]
    columns = model.jnt_qposadr[scalars]
    hinges = model.jnt_type[scalars] == mujoco.mjtJoint.mjJNT_HINGE.value
    turn = np.where(hinges, np.pi, 0.0)[:, None] * [-1.0, 1.0] + start[columns, None]
    low, high = np.where(model.jnt_limited[scalars, None] > 0, model.jnt_range[scalars], turn).T
    data, points = scene.kinematics(model, start), [_belief_corners(task)]
    lowest = np.min(data.geom_xpos[floors, 2], initial=np.inf)
    for draw in range(_DRAWS):
        if draw:  # the first one is the start
            data.qpos[columns] = low + (high - low) * rng.beta(0.5, 0.5, len(low))  # often an end
            mujoco.mj_kinematics(model, data)
        points.append(box_corners(data, np.flatnonzero(moving)).reshape(-1, 3))
    reached = np.concatenate(points)
    if np.isfinite(lowest):
        reached[:, 2] = np.maximum(reached[:, 2], lowest)
    return reached


def _belief_corners(task: Task) -> Array:
    """Return two opposite corners (2, 3) of where the belief is drawn; nothing without one."""
    if not task.parameters:
        return np.empty((0, 3))
    size, right = scene_extent(task)
    anchor = belief_anchor(task, scene.kinematics(task.model, task.start().qpos))
    return anchor + size * np.array([[0.0, 0.0], _BELIEF]) @ np.stack([right, UP])


def body_boxes(data: mujoco.MjData, body: int, margin: float = 0.0) -> Array:
    """Return the corners (n, 8, 3) of the boxes around each geom of a body, with a margin [m]."""
    return box_corners(data, np.flatnonzero(data.model.geom_bodyid == body), margin)


def box_corners(data: mujoco.MjData, geoms: npt.NDArray[np.int_], margin: float = 0.0) -> Array:
    """Return the corners (n, 8, 3) of the boxes around geoms, in the world frame."""
    model = data.model
    centre, half = np.split(model.geom_aabb[geoms], 2, axis=1)
    local = centre[:, None] + (half + margin)[:, None] * _CORNERS  # in the geom's frame
    rotation = data.geom_xmat[geoms].reshape(-1, 3, 3)
    return data.geom_xpos[geoms][:, None] + np.einsum('gij,gcj->gci', rotation, local)
