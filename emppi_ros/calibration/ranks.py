"""
Simulation-based calibration: ranks of the truth among draws of the posterior.

If truths are drawn from the prior and the posterior is right, the rank is uniform (Talts et al.,
*Validating Bayesian inference algorithms with simulation-based calibration*, 2018). A belief that
is too narrow piles ranks up at both ends, one that is too wide in the middle, a bias at one end.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from emppi_ros.core import weights

Array = npt.NDArray[np.float64]
DRAWS = 99  # of the belief: ranks from 0 to 99
_BINS = (20, 10, 5, 4, 2)  # divide the number of ranks
_LEAST = 5  # ranks expected in a bin, for the chi-square test
CONFIDENCE = 0.95


def rank(log_weights: Array, values: Array, truth: float, rng: np.random.Generator) -> int:
    """
    Return how many of DRAWS independent draws from weighted values (M,) are below the truth.

    Among draws that equal the truth, each rank is equally likely.
    """
    shares = np.exp(weights.normalize(log_weights))
    draws = rng.choice(values, size=DRAWS, p=shares / shares.sum())
    below, equal = int((draws < truth).sum()), int((draws == truth).sum())
    return below + int(rng.integers(equal + 1))


class RankHistogram(NamedTuple):
    """
    Counts of ranks in bins of equal probability.

    Attributes
    ----------
    counts : tuple of int
        Ranks in each bin, from the lowest.
    low, high : int
        Ends of the interval that holds the count of one bin with a probability of at least 95 %
        if ranks are uniform.
    probability : float
        Probability of counts at least as uneven if ranks are uniform (chi-square test).

    """

    counts: tuple[int, ...]
    low: int
    high: int
    probability: float


def histogram(ranks: Sequence[int]) -> RankHistogram:
    """Return the histogram of ranks; its bins hold five or more in the mean, if two can."""
    total = len(ranks)
    bins = next((n for n in _BINS if total >= _LEAST * n), _BINS[-1])
    counts, _ = np.histogram(ranks, bins=bins, range=(-0.5, DRAWS + 0.5))
    low, high = stats.binom.interval(CONFIDENCE, total, 1.0 / bins)
    probability = float(stats.chisquare(counts).pvalue)
    return RankHistogram(tuple(counts.tolist()), int(low), int(high), probability)
