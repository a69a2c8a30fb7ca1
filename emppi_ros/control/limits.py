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
        clipped = np.clip(controls, self.lower, self.upper)
        if np.all(np.isinf(self.rate)):
            return clipped
        last = previous
        for step in range(clipped.shape[-2]):
            last = np.clip(clipped[..., step, :], last - self.rate, last + self.rate)
            clipped[..., step, :] = last
        return clipped
