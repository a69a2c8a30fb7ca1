"""
Scores of a belief about each parameter of a task, given the truth.

Ranks are uniform if truths are drawn from the prior and the belief is right (Talts et al.,
*Validating Bayesian inference algorithms with simulation-based calibration*, 2018).
"""

import math

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task

LOW, HIGH = 0.05, 0.95  # quantiles: the ends of a 90 % interval
SETTLING_S = 1.0  # after the start, in which scores do not count
DRAWS = 99  # of the belief: ranks from 0 to 99
NARROWEST = 1e-6  # sd, in sd of the prior: a narrower belief counts as this wide


def score(task: Task, i: int, belief: Belief, truth: Array) -> tuple[float, float, float, float]:
    """
    Return four scores of a belief about parameter `i`, given the true values (P,) of all.

    They are whether the 50 % and the 90 % interval hold the truth, 0 or 1; the square of
    z = (truth - mean) / sd; and the log score of unbounded coordinates in sd of the prior [nats].
    """
    log_weights, values = belief.log_weights, belief.theta[:, i]
    mean, sd, _, _ = summarize(belief, i)
    z = to_unbounded(task.parameters, belief.theta)[:, i]
    spread, scale = task.prior.spread[i], task.prior.draws[:, i].std()
    mean_z = float(weights.mean(log_weights, z))
    sd_z = float(np.sqrt(weights.covariance(log_weights, z[:, None])[0, 0]))
    true_z = to_unbounded(task.parameters, truth[None])[0, i]
    return (
        float(is_inside(log_weights, values, truth[i], 0.5)),
        float(is_inside(log_weights, values, truth[i], 0.9)),
        ((truth[i] - mean) / max(sd, NARROWEST * scale)) ** 2,
        normal_log_score(mean_z / spread, max(sd_z / spread, NARROWEST), true_z / spread),
    )


def summarize(belief: Belief, i: int) -> tuple[float, float, float, float]:
    """Return mean, sd, and the ends of the 90 % interval of parameter `i`."""
    log_weights, values = belief.log_weights, belief.theta[:, i : i + 1]
    return (
        float(weights.mean(log_weights, values)[0]),
        float(np.sqrt(weights.covariance(log_weights, values)[0, 0])),
        float(weights.quantile(log_weights, values, LOW)[0]),
        float(weights.quantile(log_weights, values, HIGH)[0]),
    )


def is_inside(log_weights: Array, values: Array, truth: float, probability: float) -> bool:
    """Return whether the central interval of weighted values (M,) holds the truth."""
    tail = 0.5 * (1.0 - probability)
    low, high = (
        weights.quantile(log_weights, values[:, None], at)[0] for at in (tail, 1.0 - tail)
    )
    return bool(low <= truth <= high)


def normal_log_score(mean: float, sd: float, truth: float) -> float:
    """
    Return the log density of the truth by a normal distribution.

    Averages over beliefs with these moments it is a proper score of any distribution (Dawid and
    Sebastiani, *Coherent dispersion criteria for optimal experimental design*, Annals of
    Statistics 27, 1999).
    """
    return -0.5 * math.log(2.0 * math.pi) - math.log(sd) - 0.5 * ((truth - mean) / sd) ** 2


def rank(log_weights: Array, values: Array, truth: float, rng: np.random.Generator) -> int:
    """Return how many of DRAWS draws of values (M,) are below the truth; equal ones at random."""
    shares = np.exp(weights.normalize(log_weights))
    draws = rng.choice(values, size=DRAWS, p=shares / shares.sum())
    below, equal = int((draws < truth).sum()), int((draws == truth).sum())
    return below + int(rng.integers(equal + 1))
