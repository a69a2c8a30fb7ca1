"""Bounds of controls, and of their change from one step to the next."""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array


class ControlLimits(NamedTuple):
    """Bounds of each control, and of its change in one step."""

    lower: Array  # (nu,)
    upper: Array  # (nu,)
    rate: Array  # (nu,), largest change in a step; inf if a control may jump

    def clip(self, controls: Array, previous: Array) -> Array:
        """Return controls (..., H, nu) clipped to bounds and rate, starting from `previous`."""
        clipped = np.minimum(np.maximum(controls, self.lower), self.upper)
        inside = (previous >= self.lower) & (previous <= self.upper)
        # from inside of the bounds, a rate that spans them never binds
        if np.all(np.isinf(self.rate) | (inside & (self.rate >= self.upper - self.lower))):
            return clipped
        steps = np.ascontiguousarray(np.moveaxis(clipped, -2, 0))  # (H, ..., nu)
        rate = np.broadcast_to(self.rate, steps.shape[1:]).copy()  # equal shapes are faster
        last = np.broadcast_to(previous, rate.shape)
        for row in steps:
            np.maximum(row, last - rate, out=row)
            np.minimum(row, last + rate, out=row)
            last = row
        return np.ascontiguousarray(np.moveaxis(steps, 0, -2))
