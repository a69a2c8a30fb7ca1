"""
Joints with an uncertain axis, and how each of M models moves them.

The raw parameters are not unique: the length of an axis has no meaning, its sign only selects the
positive direction, and a slide has no pivot.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.ensemble import JOINT_FIELDS, State
from emppi_ros.model.parameters import AXES, Parameter

Columns = tuple[int, ...]
MOVED_M = 0.02  # a body that moved this far has revealed its joint


class UncertainJoint(NamedTuple):
    """A joint with an uncertain axis, and the columns of theta (M, P) that define it."""

    id: int  # of the joint
    name: str
    axis: Columns
    pivot: Columns
    choice: int | None  # the column that selects one of several axes


class JointMotion(NamedTuple):
    """Axis, pivot and type of a joint in M models, in the frame of its body."""

    axis: Array  # (M, 3), unit vectors
    pivot: Array  # (M, 3) m
    hinge: npt.NDArray[np.bool_]  # (M,); else a slide


def uncertain(model: mujoco.MjModel, parameters: Sequence[Parameter]) -> list[UncertainJoint]:
    """Return the joints whose axis is among the parameters, in the order of the parameters."""
    joints = []
    for name in dict.fromkeys(p.of for p in parameters if p.field in AXES):
        axis, pivot = (
            tuple(i for i, p in enumerate(parameters) if p.of == name and p.field in fields)
            for fields in (AXES, ('jnt_pos',))
        )
        choice = next((i for i in axis if parameters[i].choices), None)
        joints.append(UncertainJoint(scene.find(model, 'joint', name), name, axis, pivot, choice))
    return joints


def motion(
    model: mujoco.MjModel, parameters: Sequence[Parameter], joint: UncertainJoint, theta: Array
) -> JointMotion:
    """Return the motion of a joint in models with parameters theta (M, P)."""
    fields: dict[str, npt.NDArray[Any]] = {}

    def expand(name: str) -> npt.NDArray[Any]:
        if name not in fields:
            fields[name] = np.repeat(getattr(model, name)[None], len(theta), axis=0)
        return fields[name]

    registry.write(expand, model, parameters, theta)
    axis, pivot, kind = (expand(name)[:, joint.id] for name in JOINT_FIELDS)
    return JointMotion(axis, pivot, kind == scene.HINGE)


def mean_axis(shares: Array, axes: Array) -> Array:
    """Return the mean (3,) of unit axes (M, 3) of either sign: an eigenvector of sum w a a'."""
    return np.linalg.eigh((axes * shares[:, None]).T @ axes)[1][:, -1]


def kinds(
    model: mujoco.MjModel, parameters: Sequence[Parameter], joint: UncertainJoint, theta: Array
) -> npt.NDArray[np.intp]:
    """Return the kind of a joint (M,): the index of its axis, or 1 for hinge and 0 for slide."""
    if joint.choice is not None:
        return registry.choice_index(parameters[joint.choice], theta[:, joint.choice])
    return motion(model, parameters, joint, theta).hinge.astype(np.intp)


def first_moved(
    model: mujoco.MjModel, joint: UncertainJoint, start: State, qpos: Array, distance: float
) -> int | None:
    """Return the index of the first qpos (n, nq) that moved the joint's body so far, or None."""
    data, body = mujoco.MjData(model), model.jnt_bodyid[joint.id]

    def position(row: Array) -> Array:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        return data.xpos[body].copy()

    initial = position(start.qpos)
    hits = (i for i, row in enumerate(qpos) if np.linalg.norm(position(row) - initial) >= distance)
    return next(hits, None)
