"""The data of the page's plots: the last half minute, by the clock of the source."""

from collections import deque
from typing import NamedTuple

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.priors.particles import Belief
from emppi_ros.viz.web.robot_source import Snapshot

SPAN_S, STEP_S = 30.0, 0.2
MAX_ROWS = round(SPAN_S / STEP_S) + 1
_GAP_S = 2.0  # after a longer gap without a viewer, older rows are dropped


class HistoryRow(NamedTuple):
    """The plotted values of one time."""

    clock: float
    belief: Belief
    theta: Array | None  # (P,) true parameters; None if unknown
    ess: float
    error: float
    terms: dict[str, float]
    latencies: dict[str, float]


class History:
    """The rows of one run, oldest first."""

    def __init__(self) -> None:
        self.rows: deque[HistoryRow] = deque(maxlen=MAX_ROWS)
        self._run = -1
        self._changes: tuple[tuple[float, str], ...] = ()

    def append(self, snapshot: Snapshot, terms: dict[str, float]) -> bool:
        """Add a row if the last one is old enough; return whether one was added."""
        last = self.rows[-1].clock if self.rows else -np.inf
        clock = snapshot.clock
        if snapshot.run != self._run or clock < last or clock > last + _GAP_S:
            self.rows.clear()
            self._run, last = snapshot.run, -np.inf
        if snapshot.display is None or clock < last + STEP_S - 1e-6:
            return False
        self._changes = snapshot.changes
        belief, latencies = snapshot.display.belief, dict(snapshot.latencies)
        measured = belief, snapshot.theta, snapshot.ess, snapshot.error
        self.rows.append(HistoryRow(clock, *measured, terms, latencies))
        return True

    @property
    def times(self) -> Array:
        """Times of the rows (n,) [s] relative to the newest: none is above 0."""
        clocks = np.array([row.clock for row in self.rows])
        return clocks - clocks[-1]

    def changes(self, parameter: str) -> list[float]:
        """Return times [s] of a parameter's changes, relative to the newest row."""
        return [time - self.rows[-1].clock for time, name in self._changes if name == parameter]

    def series(self, kind: str, name: str) -> Array:
        """Return a term or latency of each row (n,); NaN where it is missing."""
        return np.array([getattr(m, kind).get(name, np.nan) for m in self.rows])

    def values(self, name: str) -> Array:
        """Return `ess` or `error` of each row (n,)."""
        return np.array([getattr(row, name) for row in self.rows])

    def truths(self, column: int) -> Array:
        """Return the true value of a parameter at each row (n,); NaN where it is unknown."""
        return np.array([np.nan if m.theta is None else m.theta[column] for m in self.rows])

    def means(self, column: int) -> Array:
        """Return the mean of a parameter at each row (n,)."""
        return np.array(
            [weights.mean(m.belief.log_weights, m.belief.theta)[column] for m in self.rows]
        )

    def histograms(self, column: int, bins: int, low: float, high: float) -> Array:
        """
        Return the weight in equal bins of a range, at each row (n, bins).

        Each sums to the weight of the particles within the range.
        """
        edges = np.linspace(low, high, bins + 1)
        beliefs = [(m.belief.theta[:, column], np.exp(m.belief.log_weights)) for m in self.rows]
        counts = [np.histogram(theta, edges, weights=shares)[0] for theta, shares in beliefs]
        return np.array(counts).reshape(-1, bins)

    def extent(self, column: int, low: float, high: float) -> tuple[float, float]:
        """Return limits that hold the given ones and every particle of every row."""
        values = [m.belief.theta[:, column] for m in self.rows]
        low = min(low, *(float(v.min()) for v in values)) if values else low
        high = max(high, *(float(v.max()) for v in values)) if values else high
        return (low, high) if high > low else (low - 0.5, high + 0.5)
