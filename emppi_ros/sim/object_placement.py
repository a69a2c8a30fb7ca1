"""Putting an object beside a robot that stands where the object is to begin."""

from collections.abc import Iterator

import mujoco
import numpy as np

from emppi_ros.tasks.objects import FreeObject

_RADII_M = np.arange(1, 11) * 0.04
_DIRECTIONS = np.arange(12) * np.pi / 6


def put_beside(model: mujoco.MjModel, data: mujoco.MjData, item: FreeObject) -> None:
    """
    Move an object sideways, as little as it takes, until it overlaps with nothing that moves.

    An overlap would throw both apart. If no place within 0.4 m is free it stays where it is.
    """
    place = slice(item.qpos, item.qpos + 2)
    start = data.qpos[place].copy()
    for offset in _offsets():
        data.qpos[place] = start + offset
        mujoco.mj_forward(model, data)
        if not _overlaps(model, data, item):
            return
    data.qpos[place] = start
    mujoco.mj_forward(model, data)


def _offsets() -> Iterator[np.ndarray]:
    yield np.zeros(2)
    for radius in _RADII_M:
        for angle in _DIRECTIONS:
            yield radius * np.array([np.cos(angle), np.sin(angle)])


def _overlaps(model: mujoco.MjModel, data: mujoco.MjData, item: FreeObject) -> bool:
    """Return whether the object touches a body that is not part of the world."""
    own = model.body_rootid[model.jnt_bodyid[model.dof_jntid[item.qvel]]]
    for contact in data.contact[: data.ncon]:
        bodies = model.geom_bodyid[[contact.geom1, contact.geom2]]
        moving = model.body_weldid[bodies] != 0
        mine = model.body_rootid[bodies] == own
        if mine.any() and (moving & ~mine).any():
            return True
    return False
