"""Rows over time, such as joint states and applied commands, and the commands in force."""

from bisect import bisect_right
from collections.abc import Sequence
import math

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import StaleInputError
from emppi_ros.robots.plan import Plan

_CELL_S = 1e-3  # between samples of a plan, to average it


def average(stamps: Array, rows: Array, begins: Array, ends: Array) -> Array:
    """
    Return the means (..., k) over intervals of rows (n, k), each of which holds until the next.

    The first row also holds before its stamp. `begins` and `ends` (...) bound the intervals; the
    mean of an empty one is the row that holds then. Means are continuous in the bounds.
    """
    areas = np.cumsum(np.diff(stamps)[:, None] * rows[:-1], axis=0)
    areas = np.concatenate([np.zeros_like(rows[:1]), areas])
    first, last = (np.maximum(np.searchsorted(stamps, t, 'right') - 1, 0) for t in (begins, ends))
    totals = [
        areas[i] + (t - stamps[i])[..., None] * rows[i] for i, t in ((first, begins), (last, ends))
    ]
    width = (ends - begins)[..., None]
    # within one row: exact, also if empty
    means = (totals[1] - totals[0]) / np.where(width > 0.0, width, 1.0)
    return np.where((first == last)[..., None], rows[first], means)


class TimeSeries:
    """Rows by increasing stamp; rows older than `span_s` seconds are discarded."""

    MEMORY = ('_stamps', '_rows')

    def __init__(self, what: str, span_s: float = 1.0, reach_s: float = 0.02) -> None:
        """Name the rows for errors; the last row is valid until `reach_s` after its stamp."""
        self._what, self._span, self._reach = what, span_s, reach_s
        self._stamps: list[float] = []
        self._rows: list[Array] = []

    @property
    def last_stamp(self) -> float:
        """Newest stamp; -inf if there is none."""
        return self._stamps[-1] if self._stamps else -np.inf

    @property
    def last(self) -> Array:
        """Newest row."""
        self._need_any()
        return self._rows[-1]

    def between(self, begin: float, end: float) -> tuple[Array, Array]:
        """Return stamps (n,) and rows (n, k) that hold from `begin` to `end`; StaleInputError."""
        self._need_any()
        first = max(bisect_right(self._stamps, begin) - 1, 0)
        used = slice(first, max(bisect_right(self._stamps, end), first + 1))
        return np.array(self._stamps[used]), np.array(self._rows[used])

    def append(self, stamp: float, row: Array) -> None:
        """Add a row, unless it is not newer than the last."""
        if stamp <= self.last_stamp:
            return
        self._stamps.append(stamp)
        self._rows.append(row)
        old = bisect_right(self._stamps, stamp - self._span)
        if old > len(self._stamps) // 2:  # amortized, not at every call
            del self._stamps[:old], self._rows[:old]

    def clear(self) -> None:
        """Discard all rows."""
        self._stamps.clear()
        self._rows.clear()

    def interpolate(self, time: float) -> Array:
        """Return the row at `time`, interpolated linearly; StaleInputError if out of range."""
        self._need_any()
        i = bisect_right(self._stamps, time)
        if i == len(self._stamps):
            if time > self._stamps[-1] + self._reach:
                raise StaleInputError(
                    f'{self._what}: the newest is {time - self._stamps[-1]:.3f} s too old'
                )
            return self._rows[-1]
        if i == 0:
            raise StaleInputError(
                f'{self._what}: the oldest is {self._stamps[0] - time:.3f} s too new'
            )
        t0, t1 = self._stamps[i - 1], self._stamps[i]
        share = (time - t0) / (t1 - t0)
        return (1.0 - share) * self._rows[i - 1] + share * self._rows[i]

    def __call__(self, times: Array) -> Array:
        """Return the rows at `times` (n,), where each row holds until the next stamp."""
        self._need_any()
        index = [bisect_right(self._stamps, time) - 1 for time in times.tolist()]
        return np.array([self._rows[max(i, 0)] for i in index])

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the means (..., k) of the rows that hold in intervals with bounds (...)."""
        held = self.between(float(np.min(begins)), float(np.max(ends)))
        return average(*held, begins, ends)

    def _need_any(self) -> None:
        if not self._stamps:
            raise StaleInputError(f'{self._what}: none received yet')


class CommandsInForce:
    """The applied commands, and after the last of them those of the newest plan in force."""

    def __init__(self, applied: TimeSeries, plans: Sequence[Plan], rests: bool) -> None:
        """`rests`: a bridge whose last command is exact rest executes no plan."""
        self._applied, self._plans = applied, plans
        self._resting = rests and not np.any(applied.last)

    def __call__(self, times: Array) -> Array:
        """Return the commands (n, joints) at times (n,)."""
        return self._follow_plans(times, self._applied(times))

    def _follow_plans(self, times: Array, rows: Array) -> Array:
        """Return the rows (n, joints) at times (n,), with those of plans where these hold."""
        planned = times > (np.inf if self._resting else self._applied.last_stamp)
        for plan in reversed(self._plans):
            in_force = planned & (times >= plan.start)
            if in_force.any():
                rows[in_force] = plan.at(times[in_force])
                planned &= ~in_force
        return rows

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the mean commands (..., joints) in intervals with bounds (...)."""
        end = float(np.max(ends))
        stamps, rows = self._applied.between(float(np.min(begins)), end)
        planned = max(0, math.ceil((end - self._applied.last_stamp) / _CELL_S))
        if planned:
            starts = stamps[-1] + _CELL_S * np.arange(planned)
            held = np.repeat(rows[-1:], planned, axis=0)
            stamps = np.concatenate([stamps, starts])
            rows = np.concatenate([rows, self._follow_plans(starts + 0.5 * _CELL_S, held)])
        return average(stamps, rows, begins, ends)


Commands = TimeSeries | CommandsInForce


def in_steps(
    commands: Commands, begin: float, duration: float | Array, count: int, delays: Array | None
) -> Array:
    """
    Return the mean command in each of `count` physics steps that last `duration` from `begin` [s].

    It has shape (count, joints), or (M, count, joints) with delays (M,); the duration may then be
    (M,) per model. Means keep the impulse of commands that change within a step.
    """
    starts = np.array(begin) if delays is None else begin - delays
    widths = np.broadcast_to(duration, starts.shape)[..., None] / count
    begins = starts[..., None] + np.arange(count) * widths
    return commands.average(begins, begins + widths)
