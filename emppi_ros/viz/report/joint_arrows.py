"""
The belief about a joint, drawn in the scene: an arrow for each particle (the paper's Fig. 2, 6).

An arrow lies along the axis: from the pivot of a hinge, from the body itself where it slides.
It is the more transparent the less its particle weighs beside the heaviest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import uncertain_joints
from emppi_ros.model.uncertain_joints import Joint
from emppi_ros.state import articulation
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
Color = tuple[float, float, float]

COLORS: tuple[Color, ...] = ((0.10, 0.40, 0.85), (0.95, 0.50, 0.05), (0.56, 0.30, 0.66))
LIGHTEST = 0.02  # of the heaviest: an arrow that weighs less is left out


class Arrow(NamedTuple):
    """An arrow in the world frame."""

    start: Array  # (3,) m
    end: Array
    color: Color
    alpha: float


def opened(task: Task) -> list[tuple[Joint, JointedObject]]:
    """Return the joints of tracked objects whose axis is uncertain."""
    return [
        (joint, item)
        for joint in uncertain_joints.uncertain(task.model, task.parameters)
        for item in task.jointed.values()
        if item.joint == joint.index
    ]


def arrows(
    task: Task,
    joint: Joint,
    item: JointedObject,
    theta: Array,
    shares: Array,
    place: Array,
    length: float,
) -> list[Arrow]:
    """
    Return an arrow for each particle, of the colour of its kind of joint.

    Parameters
    ----------
    task, joint, item
        What hangs on which joint, from `opened`.
    theta, shares : (M, P) and (M,) arrays
        Particles, and how much they weigh.
    place : (3,) array
        Where the object is now: there axes of slides begin.
    length : float
        Of an arrow [m].

    """
    motion = uncertain_joints.motion(task.model, task.parameters, joint, theta)
    kinds = uncertain_joints.kinds(task.model, task.parameters, joint, theta)
    largest = np.argmax(np.abs(motion.axis), axis=1)[:, None]
    sign = np.sign(np.take_along_axis(motion.axis, largest, axis=1))  # one sense for all
    hung = articulation.of(item, sign * motion.axis, motion.pivot, motion.hinge)
    start = np.where(motion.hinge[:, None], hung.pivot, place)
    alpha = shares / shares.max()
    return [
        Arrow(a, b, COLORS[kind % len(COLORS)], float(weight))
        for a, b, kind, weight in zip(start, start + length * hung.axis, kinds, alpha, strict=True)
        if weight >= LIGHTEST
    ]


def add(
    scene: mujoco.MjvScene,
    found: Sequence[Arrow],
    width: float,
    shape: mujoco.mjtGeom = mujoco.mjtGeom.mjGEOM_ARROW,
) -> None:
    """Add arrows to a scene that is about to be rendered, as many as it has room for."""
    for arrow in found[: scene.maxgeom - scene.ngeom]:
        geom = scene.geoms[scene.ngeom]
        color = np.array([*arrow.color, arrow.alpha], np.float32)
        mujoco.mjv_initGeom(geom, shape.value, np.zeros(3), np.zeros(3), np.zeros(9), color)
        end = arrow.end
        if shape == mujoco.mjtGeom.mjGEOM_ARROW:  # MuJoCo draws it half as long as it says
            end = 2.0 * arrow.end - arrow.start
        mujoco.mjv_connector(geom, shape.value, width, arrow.start, end)
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR.value
        scene.ngeom += 1


def names(task: Task, joint: Joint) -> list[str]:
    """Return what each kind of a joint is called, by its number."""
    if joint.choice is None:
        return ['slide', 'hinge']
    axes = task.parameters[joint.choice].choices
    return [f'axis {" ".join(f"{x:g}" for x in axis)}' for axis in axes]
