"""Commands over time: those that were applied, and those that the last plans hold."""

from collections.abc import Sequence
import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from emppi_ros.robots.plan import Plan
from emppi_ros.state import time_series
from emppi_ros.state.time_series import TimeSeries

Array = npt.NDArray[np.float64]
_CELL_S = 1e-3  # between samples of a plan, to average it


class Commands(Protocol):
    """Commands over time, such as a `TimeSeries` of the applied ones."""

    def __call__(self, times: Array) -> Array:
        """Return the commands (n, joints) at times (n,)."""
        ...

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the mean commands (..., joints) in intervals with bounds (...)."""
        ...


class CommandsInForce:
    """The applied commands, and after the last of them those of the newest plan in force."""

    def __init__(self, applied: TimeSeries, plans: Sequence[Plan], rests: bool) -> None:
        """`rests`: a bridge whose last command is exact rest executes no plan."""
        self._applied, self._plans = applied, plans
        self._resting = rests and not np.any(applied.last)

    def __call__(self, times: Array) -> Array:
        """Return the commands (n, joints) at times (n,)."""
        rows, last = self._applied.hold(times), self._applied.last_stamp
        if self._resting:
            return rows
        for i in np.flatnonzero(times > last):
            plans_in_force = [plan for plan in self._plans if plan.start <= times[i]]
            if plans_in_force:
                rows[i] = plans_in_force[-1].at(times[i])
        return rows

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the mean commands (..., joints) in intervals with bounds (...)."""
        stamps, rows = self._applied.stamps, self._applied.rows
        planned = max(0, math.ceil((float(np.max(ends)) - stamps[-1]) / _CELL_S))
        starts = stamps[-1] + _CELL_S * np.arange(planned)
        if planned:
            stamps = np.concatenate([stamps, starts])
            rows = np.concatenate([rows, self(starts + 0.5 * _CELL_S)])
        return time_series.average(stamps, rows, begins, ends)


def in_steps(
    commands: Commands, begin: float, duration: float | Array, count: int, delays: Array | None
) -> Array:
    """
    Return the command of each of `count` physics steps that last `duration` from `begin` [s].

    Without delays it is the one at the middle of each step, (count, joints). With delays (M,) it
    is the mean of those that act in the step, (M, count, joints), so that it is continuous in the
    delay; the duration may then be (M,) per model.
    """
    if delays is None:
        return commands(begin + (np.arange(count) + 0.5) * duration / count)
    widths = np.broadcast_to(duration, delays.shape)[:, None] / count
    begins = begin - delays[:, None] + np.arange(count) * widths
    return commands.average(begins, begins + widths)
