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
    bounds = np.array([begins, ends])
    held = np.maximum(stamps.searchsorted(bounds, 'right') - 1, 0)  # rows at the bounds
    areas = np.zeros_like(rows)  # of the rows before each
    np.cumsum((stamps[1:] - stamps[:-1])[:, None] * rows[:-1], axis=0, out=areas[1:])
    at = rows[held]
    totals = areas[held] + (bounds - stamps[held])[..., None] * at
    width = (ends - begins)[..., None]
    means = (totals[1] - totals[0]) / np.where(width > 0.0, width, 1.0)
    # within one row: exact, also if empty
    return np.where((held[0] == held[1])[..., None], at[0], means)


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

    def at(self, time: float) -> Array:
        """Return the row at `time`, where each row holds until the next stamp."""
        self._need_any()
        return self._rows[max(bisect_right(self._stamps, time) - 1, 0)]

    def __call__(self, times: Array) -> Array:
        """Return the rows at `times` (n,), as `at` does."""
        return np.array([self.at(time) for time in times])

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the means (..., k) of the rows that hold in intervals with bounds (...)."""
        held = self.between(float(begins.min()), float(ends.max()))
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

    def at(self, time: float) -> Array:
        """Return the command (joints,) at a time."""
        if time > self._applied.last_stamp and not self._resting:
            for plan in reversed(self._plans):
                if time >= plan.start:
                    return plan.at(time)
        return self._applied.at(time)

    def __call__(self, times: Array) -> Array:
        """Return the commands (n, joints) at times (n,)."""
        return np.array([self.at(time) for time in times])

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the mean commands (..., joints) in intervals with bounds (...)."""
        end = float(ends.max())
        stamps, rows = self._applied.between(float(begins.min()), end)
        planned = max(0, math.ceil((end - self._applied.last_stamp) / _CELL_S))
        if planned:
            starts = stamps[-1] + _CELL_S * np.arange(planned)
            stamps = np.concatenate([stamps, starts])
            rows = np.concatenate([rows, self._planned(starts + 0.5 * _CELL_S)])
        return average(stamps, rows, begins, ends)

    def _planned(self, times: Array) -> Array:
        """Return the commands (n, joints) at increasing times (n,) after the last applied one."""
        last, end = self._applied.last, len(times)
        rows = np.full((end, len(last)), last)
        for plan in reversed(() if self._resting else self._plans):
            begin = int(times[:end].searchsorted(plan.start))
            rows[begin:end] = plan.at(times[begin:end])
            end = begin  # an older plan holds before a newer one starts
            if end == 0:
                break
        return rows


Commands = TimeSeries | CommandsInForce


def in_steps(
    commands: Commands, begin: float, duration: float | Array, count: int, delays: Array | None
) -> Array:
    """
    Return the mean command in each of `count` physics steps that last `duration` from `begin` [s].

    It has shape (count, joints), or (M, count, joints) with delays (M,); the duration may then be
    (M,) per model. Means keep the impulse of commands that change within a step.
    """
    starts = np.array(begin if delays is None else begin - delays)[..., None]
    widths = np.array(duration)[..., None] / count
    begins = starts + np.arange(count) * widths
    return commands.average(begins, begins + widths)
