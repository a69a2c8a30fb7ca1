"""Resampling: from weights to the indices of the particles that go on."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def systematic(weights: Array, count: int, offset: float) -> npt.NDArray[np.intp]:
    """
    Return `count` indices, evenly spaced over the cumulative weights.

    `offset` in [0, 1) shifts the comb; drawn uniformly it makes the scheme unbiased: particle
    i is drawn count * w_i times on average, and never more than one off. A particle of weight
    zero is never drawn.
    """
    cumulative = np.cumsum(weights)
    positions = (offset + np.arange(count)) / count * cumulative[-1]
    indices = np.searchsorted(cumulative, positions, side='right')
    # rounding can put the last position on the total: stay on the last particle with weight
    return np.minimum(indices, np.flatnonzero(weights)[-1])
