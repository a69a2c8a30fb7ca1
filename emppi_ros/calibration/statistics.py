"""Shares and medians of a few runs with their confidence intervals."""

from collections.abc import Mapping, Sequence
import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_LARGE = 1000.0  # from which numbers have no fraction


@dataclass(frozen=True)
class Share:
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


class MeanShare(NamedTuple):
    """A mean of shares with its 95 % interval."""

    mean: float
    low: float
    high: float
    total: int

    def __str__(self) -> str:
        """Return such as `91 % (80 %-96 %)`."""
        return f'{100 * self.mean:.0f} % ({100 * self.low:.0f} %-{100 * self.high:.0f} %)'


class Median(NamedTuple):
    """A median with its 95 % interval, None if there is none; infinite values are allowed."""

    median: float
    low: float | None
    high: float | None
    total: int

    def __str__(self) -> str:
        """Return such as `0.31 (0.10 to 0.72)`, three digits each; large ones are whole."""
        numbers = [x for x in self[:3] if x is not None]
        texts = [f'{x:.0f}' if abs(x) >= _LARGE else f'{x:.3g}' for x in numbers]
        return '{} ({} to {})'.format(*texts) if len(texts) == 3 else texts[0]


def share(hits: Sequence[bool]) -> Share:
    """Return the share of true values with its Wilson interval; needs at least one value."""
    count, total = sum(hits), len(hits)
    interval = stats.binomtest(count, total).proportion_ci(CONFIDENCE, method='wilson')
    return Share(count, total, float(interval.low), float(interval.high))


def mean_share(shares: Sequence[float]) -> MeanShare:
    """Return the mean of shares from 0 to 1, with the Wilson interval of true or false ones."""
    # true or false values vary at least as much; equal shares have an interval, too
    total, centre = len(shares), float(np.mean(shares))
    z = float(stats.norm.ppf(0.5 + 0.5 * CONFIDENCE))
    scale = 1.0 / (1.0 + z**2 / total)
    middle = scale * (centre + 0.5 * z**2 / total)
    half = scale * z * np.sqrt(centre * (1.0 - centre) / total + 0.25 * z**2 / total**2)
    return MeanShare(centre, float(max(middle - half, 0.0)), float(min(middle + half, 1.0)), total)


def median(values: Sequence[float]) -> Median:
    """Return the median with a distribution-free 95 % interval, which needs six values or more."""
    ordered, total = np.sort(values), len(values)
    centre = float(np.median(ordered))
    rank = int(stats.binom.ppf(0.5 * (1.0 - CONFIDENCE), total, 0.5))  # values below the interval
    if rank < 1:
        return Median(centre, None, None, total)
    return Median(centre, float(ordered[rank - 1]), float(ordered[total - rank]), total)


def plain(value: object, derived: Sequence[str] = ()) -> Any:
    """Return mappings, named tuples and dataclasses as dictionaries, with derived properties."""
    if isinstance(value, Mapping):
        return {key: plain(item, derived) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, '_fields'):  # a named tuple
        names = [*value._fields]
    else:
        return value
    names += [name for name in derived if hasattr(value, name)]
    return {name: plain(getattr(value, name), derived) for name in names}
