"""The particle belief: Bayes update (eq. 10) and resampling (Algorithm 1, lines 19 and 20)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import BeliefError
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.distributions import to_bounded, to_unbounded
from emppi_ros.priors.resampling import RESAMPLERS, Indices, ResamplingConfig, systematic


class Belief(NamedTuple):
    """Weighted particles over the parameters of a task."""

    theta: Array  # (M, P) parameters of each particle, in the units of the task
    log_weights: Array  # (M,) of each particle; the weights sum to 1


def uniform(theta: Array) -> Belief:
    """Return particles (M, P) of equal weight."""
    return Belief(theta, np.full(len(theta), -np.log(len(theta))))


def reweight(belief: Belief, log_likelihood: Array) -> Belief:
    """
    Return the belief after an observation: p(theta) <- p(x' | x, u, theta) p(theta) / eta.

    `log_likelihood` (M,) is -inf for particles whose prediction diverged. DegenerateWeightsError
    if that holds for all particles, or if a likelihood is NaN.
    """
    if log_likelihood.shape != belief.log_weights.shape:
        raise BeliefError(
            f'{log_likelihood.shape[0]} likelihoods for {len(belief.log_weights)} particles'
        )
    return Belief(belief.theta, weights.normalize(belief.log_weights + log_likelihood))


def tempering_power(belief: Belief, log_likelihood: Array, min_size: float) -> float:
    """Return the largest power in [0, 1] of the likelihood that keeps `min_size` particles."""
    if (log_likelihood == -np.inf).all() or np.isnan(log_likelihood).any():
        return 1.0

    def excess(power: float) -> float:
        tempered = belief.log_weights + raise_to_power(log_likelihood, power)
        return weights.effective_sample_size(tempered) - min_size

    if excess(1.0) >= 0.0:
        return 1.0
    if excess(0.0) <= 0.0:
        return 0.0
    return float(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-3))


def raise_to_power(log_likelihood: Array, power: float) -> Array:
    """Return the log of a likelihood (M,) to a power; -inf stays, at power 0 too."""
    diverged = log_likelihood == -np.inf
    return np.where(diverged, -np.inf, power * np.where(diverged, 0.0, log_likelihood))


def update(
    config: ResamplingConfig, belief: Belief, log_likelihood: Array
) -> tuple[Belief, float]:
    """Return the belief after an observation, and the power of its likelihood: 1, or tempered."""
    power = 1.0
    if config.tempering is not None:
        min_size = config.tempering * weights.effective_sample_size(belief.log_weights)
        power = tempering_power(belief, log_likelihood, min_size)
    if power < 1.0:
        log_likelihood = raise_to_power(log_likelihood, power)
    return reweight(belief, log_likelihood), power


def resample(
    config: ResamplingConfig,
    parameters: Sequence[Parameter],
    belief: Belief,
    rng: np.random.Generator,
) -> tuple[Belief, Indices | None]:
    """Resample if the effective sample size is too small; return each particle's parent if so."""
    ess = weights.effective_sample_size(belief.log_weights)
    if ess >= config.ess_fraction * len(belief.log_weights):
        return belief, None
    return draw(config, parameters, belief, rng)


def draw(
    config: ResamplingConfig,
    parameters: Sequence[Parameter],
    belief: Belief,
    rng: np.random.Generator,
) -> tuple[Belief, Indices]:
    """Return particles of equal weight by the configured scheme, and each particle's parent."""
    z = to_unbounded(parameters, belief.theta)
    z, parents = RESAMPLERS[config.scheme](config, z, belief.log_weights, rng)
    return uniform(to_bounded(parameters, z)), parents


def select(belief: Belief, models: int) -> Belief:
    """Return the particles of a planner with so many models: all, or a systematic sample."""
    if models == len(belief.log_weights):
        return belief
    chosen = systematic(np.exp(belief.log_weights), models, 0.5)
    return uniform(belief.theta[chosen])
