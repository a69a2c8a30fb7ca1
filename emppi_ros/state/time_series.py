"""A buffer of stamped rows, such as joint states or applied commands."""

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import StaleInputError

Array = npt.NDArray[np.float64]


def average(stamps: Array, rows: Array, begins: Array, ends: Array) -> Array:
    """
    Return the means (..., k) over intervals of rows (n, k), each of which holds until the next.

    The first row also holds before its stamp. `begins` and `ends` (...) bound the intervals; the
    mean of an empty one is the row that holds then. Means are exact: they are continuous in the
    bounds, while a row sampled in an interval jumps when a stamp enters or leaves it.
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

    @property
    def stamps(self) -> Array:
        """Stamps (n,) of the rows that are kept; StaleInputError if there are none."""
        self._need_any()
        return np.array(self._stamps)

    @property
    def rows(self) -> Array:
        """The rows that are kept (n, k); StaleInputError if there are none."""
        self._need_any()
        return np.array(self._rows)

    def append(self, stamp: float, row: Array) -> bool:
        """Add a row; return False if it is not newer than the last, and drop it."""
        if stamp <= self.last_stamp:
            return False
        self._stamps.append(stamp)
        self._rows.append(row)
        old = bisect_right(self._stamps, stamp - self._span)
        if old > len(self._stamps) // 2:  # amortized, not at every call
            del self._stamps[:old], self._rows[:old]
        return True

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

    def hold(self, times: Array) -> Array:
        """Return the rows at `times` (n,), where each row holds until the next stamp."""
        self._need_any()
        index = [bisect_right(self._stamps, time) - 1 for time in times.tolist()]
        return np.array([self._rows[max(i, 0)] for i in index])

    __call__ = hold

    def average(self, begins: Array, ends: Array) -> Array:
        """Return the means (..., k) of the rows that hold in intervals with bounds (...)."""
        self._need_any()
        first = max(bisect_right(self._stamps, float(np.min(begins))) - 1, 0)
        used = slice(first, max(bisect_right(self._stamps, float(np.max(ends))), first + 1))
        return average(np.array(self._stamps[used]), np.array(self._rows[used]), begins, ends)

    def _need_any(self) -> None:
        if not self._stamps:
            raise StaleInputError(f'{self._what}: none received yet')
