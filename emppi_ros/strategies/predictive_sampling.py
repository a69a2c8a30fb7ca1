"""Predictive sampling (Howell et al. 2022): the best of the last plan and of the samples."""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.strategies import emppi
from emppi_ros.strategies.strategy import Strategy


def sample(rng: np.random.Generator, shape: tuple[int, ...], variance: Array) -> Array:
    """Return white noise, but none in the first sample: the last plan."""
    noise = emppi.sample(rng, shape, variance)
    noise[:, 0] = 0.0
    return noise


def weigh(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return the weights (N, H) of which the best plan has all."""
    weights = np.zeros_like(costs)
    weights[np.argmin(costs[:, 0])] = 1.0
    return weights


STRATEGY = Strategy(sample, weigh, compares_plans=True, control_cost=False)
