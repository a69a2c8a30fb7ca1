"""Bounds on controls, and on how fast they change from one step to the next."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class ControlLimits(NamedTuple):
    """Bounds per control; `rate` is the largest change from one step to the next."""

    lower: Array  # (nu,)
    upper: Array  # (nu,)
    rate: Array  # (nu,), inf where a control may jump

    def clip(self, controls: Array, previous: Array) -> Array:
        """Return controls (..., H, nu) within bounds, each in reach of the one before it."""
        clipped = np.minimum(np.maximum(controls, self.lower), self.upper)
        if np.all(np.isinf(self.rate)):
            return clipped
        steps = np.ascontiguousarray(np.moveaxis(clipped, -2, 0))  # (H, ..., nu)
        rate = np.broadcast_to(self.rate, steps.shape[1:]).copy()  # rows of one size are quick
        last = np.broadcast_to(previous, rate.shape)
        for row in steps:
            np.maximum(row, last - rate, out=row)
            np.minimum(row, last + rate, out=row)
            last = row
        return np.ascontiguousarray(np.moveaxis(steps, 0, -2))
