"""
Joints whose axis is uncertain: how each of M models moves them, and what of that can be told.

The raw components of an axis say more than any measurement can: its length means nothing, its
sign only what is called forward, and a slide has no pivot.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.ensemble import State
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
Columns = tuple[int, ...]
MOVED_M = 0.02  # by then, what hangs on a joint has shown how it moves
AXES = ('jnt_axis', 'jnt_articulation')


class Joint(NamedTuple):
    """A joint of the scene, and which columns of theta (M, P) say how it moves."""

    index: int
    name: str
    axis: Columns
    pivot: Columns
    choice: int | None  # the column whose value names one of a few axes


class Motion(NamedTuple):
    """How a joint moves in M models, in its body's frame."""

    axis: Array  # (M, 3), unit vectors
    pivot: Array  # (M, 3) m
    hinge: npt.NDArray[np.bool_]  # (M,); else it slides


def uncertain(model: mujoco.MjModel, parameters: Sequence[Parameter]) -> list[Joint]:
    """Return the joints whose axis is among the parameters, in the order in which they come."""
    found = []
    for name in dict.fromkeys(p.of for p in parameters if p.field in AXES):
        axis, pivot = (
            tuple(i for i, p in enumerate(parameters) if p.of == name and p.field in fields)
            for fields in (AXES, ('jnt_pos',))
        )
        choice = next((i for i in axis if parameters[i].choices), None)
        found.append(Joint(scene.find(model, 'joint', name), name, axis, pivot, choice))
    return found


def motion(
    model: mujoco.MjModel, parameters: Sequence[Parameter], joint: Joint, theta: Array
) -> Motion:
    """Return how a joint moves by theta (M, P), as the registry writes it into models."""
    fields: dict[str, npt.NDArray] = {}

    def expand(name: str) -> npt.NDArray:
        if name not in fields:
            fields[name] = np.repeat(getattr(model, name)[None], len(theta), axis=0)
        return fields[name]

    registry.write(expand, model, parameters, theta)
    axis, pivot, kind = (
        expand(name)[:, joint.index] for name in ('jnt_axis', 'jnt_pos', 'jnt_type')
    )
    return Motion(axis, pivot, kind == mujoco.mjtJoint.mjJNT_HINGE.value)


def kinds(
    model: mujoco.MjModel, parameters: Sequence[Parameter], joint: Joint, theta: Array
) -> npt.NDArray[np.intp]:
    """Return what kind of joint each model has (M,): the axis of its choice, or hinge or slide."""
    if joint.choice is not None:
        return registry.chosen(parameters[joint.choice], theta[:, joint.choice])
    return motion(model, parameters, joint, theta).hinge.astype(np.intp)


def first_beyond(
    model: mujoco.MjModel, joint: Joint, start: State, qpos: Array, distance: float
) -> int | None:
    """
    Return the first of configurations (n, nq) in which the joint's body has moved so far [m].

    The model is one with the true parameters. None: it never has.
    """
    data, body = mujoco.MjData(model), model.jnt_bodyid[joint.index]

    def place(row: Array) -> Array:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        return data.xpos[body].copy()

    began = place(start.qpos)
    hits = (i for i, row in enumerate(qpos) if np.linalg.norm(place(row) - began) >= distance)
    return next(hits, None)
