"""Means of a few runs with their confidence intervals."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import CONFIDENCE

DERIVED = ('rate', 'ratio')  # properties that belong to the numbers


class Mean(NamedTuple):
    """A mean with its 95 % interval, None if there is none."""

    mean: float
    low: float | None
    high: float | None
    total: int

    def __str__(self) -> str:
        """Return such as `+0.31 (-0.10 to +0.72)`."""
        return format(self, '+.2f')

    def __format__(self, digits: str) -> str:
        """Return mean and interval, each in a format such as `.3g`."""
        if not digits:
            return str(self)
        if self.low is None or self.high is None:
            return f'{self.mean:{digits}}'
        return f'{self.mean:{digits}} ({self.low:{digits}} to {self.high:{digits}})'

    def __neg__(self) -> 'Mean':
        """Return the mean of the negative values."""
        if self.low is None or self.high is None:
            return self._replace(mean=-self.mean)
        return Mean(-self.mean, -self.high, -self.low, self.total)


def mean(values: Sequence[float]) -> Mean:
    """
    Return the mean with a bias-corrected and accelerated (BCa) bootstrap interval.

    A single value has no interval; equal values have one of width 0.
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


def plain(value: object) -> Any:
    """Return mappings, named tuples and dataclasses as dictionaries, with derived properties."""
    return statistics.plain(value, DERIVED)
