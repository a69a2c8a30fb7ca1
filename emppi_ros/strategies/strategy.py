"""
A strategy of the planner: two functions, one that samples plans and one that weighs them.

The new plan is the weighted mean of the samples. A strategy is a module of this folder and a line
in `registry.py`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array


class Strategy(NamedTuple):
    """
    How to sample plans and how to weigh them.

    Attributes
    ----------
    sample : callable
        Maps a generator, a shape (D, K, H, nu) and the variance (H, nu) of the noise to noise of
        that shape, which is added to the last plan.
    weigh : callable
        Maps the cost to go (N, H) of N samples, +inf if they diverged, their log prior weights
        (N,), and the temperature to weights (N, H), which sum to 1 at each step.
    compares_plans : bool
        Whether all models roll out the same K plans, and a plan has one cost: the measure of risk
        over models, by default the mean. Otherwise each model has samples of its own.
    control_cost : bool
        Whether the cost contains lambda (u - r)' Sigma^-1 du, due to importance sampling.

    """

    sample: Callable[[np.random.Generator, tuple[int, ...], Array], Array]
    weigh: Callable[[Array, Array, float], Array]
    compares_plans: bool
    control_cost: bool
