"""
Ensemble model predictive path integral control (Abraham et al. 2020): eq. 9.

Each model has samples of its own, and its belief is the prior of their weights.
"""

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.strategies.strategy import Strategy


def sample(rng: np.random.Generator, shape: tuple[int, ...], variance: Array) -> Array:
    """Return white noise of the given variance."""
    return rng.standard_normal(shape) * np.sqrt(variance)


def weigh(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return the softmax (N, H) of costs, one per step."""
    return weights.softmin(costs, temperature, log_prior[:, None], axis=0)


STRATEGY = Strategy(sample, weigh, compares_plans=False, control_cost=True)
