"""What the page's plots show: the last half minute, by the clock of what is seen."""

from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.core import weights
from emppi_ros.viz.web.source import Snapshot

Array = npt.NDArray[np.float64]
SPAN_S, STEP_S = 30.0, 0.2
ROWS = round(SPAN_S / STEP_S) + 1
_GAP_S = 2.0  # nobody looked: what was before no longer counts as just before


class Moment(NamedTuple):
    """A row of the plots."""

    clock: float
    belief: Belief
    ess: float
    error: float
    terms: dict[str, float]
    latencies: dict[str, float]


class History:
    """The moments of one run, oldest first."""

    def __init__(self) -> None:
        """Know none."""
        self.moments: deque[Moment] = deque(maxlen=ROWS)
        self._run = -1

    def note(self, seen: Snapshot, terms: dict[str, float]) -> bool:
        """Take down a moment, if its time has come; return whether it had."""
        last = self.moments[-1].clock if self.moments else -np.inf
        clock = seen.clock
        if seen.run != self._run or clock < last or clock > last + _GAP_S:
            self.moments.clear()
            self._run, last = seen.run, -np.inf
        if seen.seen is None or clock < last + STEP_S - 1e-6:
            return False
        self.moments.append(
            Moment(clock, seen.seen.belief, seen.ess, seen.error, terms, dict(seen.latencies))
        )
        return True

    @property
    def times(self) -> Array:
        """How long ago each moment was (n,) [s], none above 0."""
        clocks = np.array([moment.clock for moment in self.moments])
        return clocks - clocks[-1]

    def series(self, kind: str, name: str) -> Array:
        """Return a number of each moment (n,): NaN where there was none."""
        return np.array([getattr(m, kind).get(name, np.nan) for m in self.moments])

    def values(self, name: str) -> Array:
        """Return `ess` or `error` of each moment (n,)."""
        return np.array([getattr(moment, name) for moment in self.moments])

    def means(self, column: int) -> Array:
        """Return the belief's mean of a parameter at each moment (n,)."""
        return np.array(
            [weights.mean(m.belief.log_weights, m.belief.theta)[column] for m in self.moments]
        )

    def histograms(self, column: int, bins: int, low: float, high: float) -> Array:
        """
        Return the weight in each of as many equal parts of a range, at each moment (n, bins).

        Rows sum to the weight that lies within the range.
        """
        edges = np.linspace(low, high, bins + 1)
        return np.array(
            [
                np.histogram(
                    m.belief.theta[:, column], edges, weights=np.exp(m.belief.log_weights)
                )[0]
                for m in self.moments
            ]
        ).reshape(-1, bins)

    def extent(self, column: int, low: float, high: float) -> tuple[float, float]:
        """Return limits that hold the given ones and every particle of every moment."""
        values = [m.belief.theta[:, column] for m in self.moments]
        low = min(low, *(float(v.min()) for v in values)) if values else low
        high = max(high, *(float(v.max()) for v in values)) if values else high
        return (low, high) if high > low else (low - 0.5, high + 0.5)
