"""
Model predictive path integral control (Williams et al. 2017) of the risk over models.

All models roll out the same plans; the softmax of their costs weighs whole plans.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.strategies import emppi
from emppi_ros.strategies.strategy import Strategy


def weigh(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return the softmax (N, H) of the costs of whole plans, the same at all steps."""
    return np.broadcast_to(emppi.weigh(costs[:, :1], log_prior, temperature), costs.shape)


STRATEGY = Strategy(emppi.sample, weigh, compares_plans=True, control_cost=True)
