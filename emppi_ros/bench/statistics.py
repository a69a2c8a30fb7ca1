"""Rates and means of a few runs with their confidence intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


class Share(NamedTuple):
    """A count of a total, with a 95 % interval of the underlying probability."""

    count: int
    total: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The observed rate."""
        return self.count / self.total

    def __str__(self) -> str:
        """Return such as `18/20 (70 %-97 %)`."""
        return f'{self.count}/{self.total} ({100 * self.low:.0f} %-{100 * self.high:.0f} %)'


class Mean(NamedTuple):
    """A mean with its 95 % interval, None if there is none."""

    mean: float
    low: float | None
    high: float | None
    total: int

    def __str__(self) -> str:
        """Return such as `+0.31 (-0.10 to +0.72)`."""
        if self.low is None or self.high is None:
            return f'{self.mean:+.2f}'
        return f'{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})'


def share(hits: Sequence[bool]) -> Share:
    """Return the share of true values with its Wilson interval; needs at least one value."""
    count, total = sum(hits), len(hits)
    interval = stats.binomtest(count, total).proportion_ci(CONFIDENCE, method='wilson')
    return Share(count, total, float(interval.low), float(interval.high))


def mean(values: Sequence[float]) -> Mean:
    """
    Return the mean with a bias-corrected and accelerated (BCa) bootstrap interval.

    A single value has no interval; equal values have an interval of width 0, which the bootstrap
    itself cannot compute.
    """
    centre = float(np.mean(values))
    if len(values) < 2:
        return Mean(centre, None, None, len(values))
    if np.ptp(values) == 0.0:
        return Mean(centre, centre, centre, len(values))
    result = stats.bootstrap(
        (np.asarray(values),),
        np.mean,
        confidence_level=CONFIDENCE,
        random_state=np.random.default_rng(0),  # named `rng` from SciPy 1.15 on
    )
    low, high = (float(bound) for bound in result.confidence_interval)
    return Mean(centre, low, high, len(values))
