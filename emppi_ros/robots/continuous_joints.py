"""Positions of joints that turn without end, which drivers wrap to one turn."""

import numpy as np

from emppi_ros.core.arrays import Array, Ints

_TURN = 2.0 * np.pi
_NEAR = 1.0  # rad: a step that is left after a wrap; a larger one is a jump


def nearest(position: Array, reference: Array, rows: Ints) -> Array:
    """Return positions (..., n) [rad] whose `rows` are within half a turn of a reference (n,)."""
    if not len(rows):
        return position
    turned = position.copy()
    turned[..., rows] += _TURN * np.round((reference - position)[..., rows] / _TURN)
    return turned


def unwrap(position: Array, before: Array, rows: Ints) -> Array:
    """Return positions (n,) [rad] that continue those before (n,) where they were wrapped."""
    turned = nearest(position, before, rows)
    if turned is position:
        return position
    return np.where(np.abs(turned - before) < _NEAR, turned, position)
