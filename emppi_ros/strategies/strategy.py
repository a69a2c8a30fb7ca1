"""
Strategies of the planner: how plans are sampled, and how samples become the next plan.

The next plan is the weighted mean of the samples. Register new strategies in `STRATEGIES`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array

_ELITES = 0.1  # of all plans


class Strategy(NamedTuple):
    """How to sample plans and how to weigh them."""

    # generator, shape (D, K, H, nu), variance (H, nu) -> noise, which is added to the last plan
    sample: Callable[[np.random.Generator, tuple[int, ...], Array], Array]
    # cost to go (N, H) of N samples, +inf if they diverged, their log prior weights (N,),
    # temperature -> weights (N, H) that sum to 1 at each step
    weigh: Callable[[Array, Array, float], Array]
    # whether all models roll out the same K plans, and a plan has one cost: the measure of risk
    # over models, by default the mean; otherwise each model has samples of its own
    compares_plans: bool
    control_cost: bool  # whether costs contain lambda (u - r)' Sigma^-1 du (importance sampling)


def white_noise(rng: np.random.Generator, shape: tuple[int, ...], variance: Array) -> Array:
    """Return white noise of the given variance."""
    return rng.standard_normal(shape) * np.sqrt(variance)


def noise_or_none(rng: np.random.Generator, shape: tuple[int, ...], variance: Array) -> Array:
    """Return white noise, but none in the first sample: the last plan."""
    noise = white_noise(rng, shape, variance)
    noise[:, 0] = 0.0
    return noise


def weigh_steps(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return the softmax (N, H) of costs, one per step: eq. 9; `normalize` subtracts beta."""
    return np.exp(weights.normalize(log_prior[:, None] - costs / temperature, axis=0))


def weigh_plans(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return the softmax (N, H) of the costs of whole plans, the same at all steps."""
    return np.broadcast_to(weigh_steps(costs[:, :1], log_prior, temperature), costs.shape)


def weigh_elites(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return equal weights (N, H) of the best tenth of the plans, at least one."""
    elites = np.argsort(costs[:, 0], kind='stable')[: max(1, round(_ELITES * len(costs)))]
    elites = elites[np.isfinite(costs[elites, 0])]
    shares = np.zeros_like(costs)
    shares[elites] = 1.0 / len(elites)
    return shares


def weigh_best(costs: Array, log_prior: Array, temperature: float) -> Array:
    """Return the weights (N, H) of which the best plan has all."""
    shares = np.zeros_like(costs)
    shares[np.argmin(costs[:, 0])] = 1.0
    return shares


STRATEGIES: dict[str, Strategy] = {
    'emppi': Strategy(white_noise, weigh_steps, False, True),  # Abraham et al. 2020
    'mppi': Strategy(white_noise, weigh_plans, True, True),  # Williams et al. 2017
    'cem': Strategy(white_noise, weigh_elites, True, False),  # Kobilarov 2012
    'predictive_sampling': Strategy(noise_or_none, weigh_best, True, False),  # Howell et al. 2022
}
