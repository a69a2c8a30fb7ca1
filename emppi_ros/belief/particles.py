"""
The particle belief: Bayes update (eq. 10) and resampling (Algorithm 1, lines 19 and 20).

>>> belief = reweight(belief, log_likelihood)
>>> belief, resampled = resample(config, parameters, belief, rng)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.belief import resampling
from emppi_ros.belief.distributions import to_bounded, to_unbounded
from emppi_ros.core import weights
from emppi_ros.core.config import fraction, key, one_of, positive
from emppi_ros.core.errors import BeliefError
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


class Belief(NamedTuple):
    """Particles over the parameters of a task."""

    theta: Array  # (M, P)
    log_weights: Array  # (M,), exponentials sum to 1


@dataclass(frozen=True)
class ResamplingConfig:
    """When and how particles are renewed."""

    scheme: str = one_of(
        'liu-west',
        'gaussian',
        default='liu-west',
        doc='systematic + kernel jitter (keeps modes), or around the mean (the paper)',
    )
    ess_fraction: float = positive(
        0.5, doc='resample when the effective sample size is below this fraction of the particles'
    )
    shrinkage: float = fraction(
        0.95, doc='liu-west: how far jittered particles keep their place; 1 adds no jitter'
    )
    tempering: float | None = fraction(
        None, doc='an update counts only as far as it leaves this fraction of the sample size'
    )
    walk_sd: float = key(
        0.0,
        check=lambda v: v >= 0,
        allowed='a number from 0',
        doc='liu-west: noise added on top, in transformed (log) units, so that nothing is certain',
    )
    noise_sd: float = positive(
        0.05, doc='gaussian: noise added around the mean, in transformed (log) units'
    )


def uniform(theta: Array) -> Belief:
    """Return particles of equal weight."""
    return Belief(theta, np.full(len(theta), -np.log(len(theta))))


def reweight(belief: Belief, log_likelihood: Array) -> Belief:
    """
    Return the belief after an observation: p(theta) <- p(x' | x, u, theta) p(theta) / eta.

    A particle whose prediction diverged has log likelihood -inf. If that leaves nobody, or
    a likelihood is NaN, `DegenerateWeightsError` says so and the belief stays as it was.
    """
    if log_likelihood.shape != belief.log_weights.shape:
        raise BeliefError(
            f'{log_likelihood.shape[0]} likelihoods for {len(belief.log_weights)} particles'
        )
    return Belief(belief.theta, weights.normalize(belief.log_weights + log_likelihood))


def temper(belief: Belief, log_likelihood: Array, least: float) -> Array:
    """
    Return the likelihood (M,) to a power in [0, 1] that leaves `least` effective particles.

    In many dimensions one measurement may leave a single particle, and with it no spread from
    which jitter could find better ones. What a power takes off is lost, and later measurements
    make up for it. Particles that diverged are out at any power.
    """
    out = log_likelihood == -np.inf
    if out.all() or np.isnan(log_likelihood).any():
        return log_likelihood
    kept = np.where(out, 0.0, log_likelihood)

    def raised(power: float) -> Array:
        return np.where(out, -np.inf, power * kept)

    def excess(power: float) -> float:
        return weights.effective_sample_size(belief.log_weights + raised(power)) - least

    if excess(1.0) >= 0.0:
        return log_likelihood
    if excess(0.0) <= 0.0:
        return raised(0.0)
    return raised(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-3))


def update(config: ResamplingConfig, belief: Belief, log_likelihood: Array) -> Belief:
    """Return the belief after an observation, tempered as the settings say."""
    if config.tempering is not None:
        least = config.tempering * weights.effective_sample_size(belief.log_weights)
        log_likelihood = temper(belief, log_likelihood, least)
    return reweight(belief, log_likelihood)


def resample(
    config: ResamplingConfig,
    parameters: Sequence[Parameter],
    belief: Belief,
    rng: np.random.Generator,
) -> tuple[Belief, Indices | None]:
    """Return a belief with enough effective particles, and each one's parent if it was drawn."""
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
    """
    Return a belief of equal weights, and each particle's parent.

    `liu-west` draws particles by systematic resampling, then shrinks them towards the mean
    and adds noise so that mean and covariance stay as they were (Liu and West 2001). The
    paper's `gaussian` draws all particles anew around the mean.
    """
    count = len(belief.log_weights)
    z = to_unbounded(parameters, belief.theta)
    centre = weights.mean(belief.log_weights, z)
    chosen = resampling.systematic(np.exp(belief.log_weights), count, rng.random())
    if config.scheme == 'gaussian':
        z = centre + config.noise_sd * rng.standard_normal(z.shape)
        return uniform(to_bounded(parameters, z)), chosen
    spread = _square_root(weights.covariance(belief.log_weights, z))
    jitter = np.sqrt(1.0 - config.shrinkage**2) * rng.standard_normal(z.shape) @ spread.T
    z = config.shrinkage * z[chosen] + (1.0 - config.shrinkage) * centre + jitter
    if config.walk_sd:
        z += config.walk_sd * rng.standard_normal(z.shape)
    return uniform(to_bounded(parameters, z)), chosen


def select(belief: Belief, models: int) -> Belief:
    """
    Return the particles that a planner of `models` models plans with.

    All of them, weights and all, if there are as many (the paper's N); otherwise an even
    systematic choice, without randomness, whose members weigh the same.
    """
    if models == len(belief.log_weights):
        return belief
    chosen = resampling.systematic(np.exp(belief.log_weights), models, 0.5)
    return uniform(belief.theta[chosen])


def _square_root(covariance: Array) -> Array:
    """Return a factor A with A A' = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
