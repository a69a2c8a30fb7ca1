"""Positions of joints that turn without end, which drivers wrap to one turn."""

from collections.abc import Sequence

import numpy as np

from emppi_ros.core.arrays import Array, Ints
from emppi_ros.robots.robot import Robot

_TURN = 2.0 * np.pi
_NEAR = 1.0  # rad: a step that is left after a wrap; a larger one is a jump


def nearest(position: Array, reference: Array, rows: Ints) -> Array:
    """Return positions (..., n) [rad] whose `rows` are within half a turn of a reference (n,)."""
    if not len(rows):
        return position
    turned = position.copy()
    turned[..., rows] += _TURN * np.round((reference - position)[..., rows] / _TURN)
    return turned


def unwrap(robot: Robot, names: Sequence[str], position: Array, last: Array | None) -> Array:
    """
    Return positions (n,) [rad or m] of joints whose continuous ones continue the last (n,).

    Without a last one they are near home. `names` are those of the joints, in the order of values.
    """
    endless = {robot.commanded[i] for i in robot.continuous}
    if not endless:
        return position
    rows = np.array([i for i, name in enumerate(names) if name in endless], np.intp)
    if last is not None:
        turned = nearest(position, last, rows)
        return np.where(np.abs(turned - last) < _NEAR, turned, position)
    home = dict(zip(robot.joints, robot.home, strict=True))
    start = position.copy()
    start[rows] = [home[names[i]] for i in rows]
    return nearest(position, start, rows)
