"""
The cross-entropy method (Kobilarov 2012): the new plan is the mean of the best plans.

With `noise_adaptation` the variance of the noise follows the best plans, too.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.strategies import emppi
from emppi_ros.strategies.strategy import Strategy

_ELITES = 0.1  # of all plans


def weigh(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return equal weights (N, H) of the best tenth of the plans, at least one."""
    elites = np.argsort(costs[:, 0], kind='stable')[: max(1, round(_ELITES * len(costs)))]
    elites = elites[np.isfinite(costs[elites, 0])]
    weights = np.zeros_like(costs)
    weights[elites] = 1.0 / len(elites)
    return weights


STRATEGY = Strategy(emppi.sample, weigh, compares_plans=True, control_cost=False)
