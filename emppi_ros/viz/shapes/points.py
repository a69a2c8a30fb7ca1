"""The belief as points in space, for displays that colour points by a field such as `weight`."""

import mujoco
import numpy as np

from emppi_ros.belief.particles import Belief
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes.scene_extent import UP, Setting, beside
from emppi_ros.viz.shapes.shapes import Array

_SIDE, _ASIDE = 0.3, 0.5  # of the setting's size: the box's; how far to the left of the object


def places(task: Task, setting: Setting, data: mujoco.MjData, belief: Belief) -> Array:
    """
    Return where each particle is shown, (M, 3) m.

    The first three parameters lie along right, up and away, each from what the prior holds for
    the least possible to the most; a particle beyond that lies outside of the box.
    """
    low, high = task.prior.range
    span = np.where(high > low, high - low, 1.0)
    shares = ((belief.theta - low) / span)[:, :3]
    away = np.cross(UP, setting.right)
    ways = np.stack([setting.right, UP, away])[: shares.shape[1]]
    corner = beside(task, data) - setting.size * _ASIDE * setting.right
    return corner + setting.size * _SIDE * shares @ ways
