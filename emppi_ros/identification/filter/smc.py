"""
Tempered sequential Monte Carlo: particles of the prior become particles of the posterior.

After Del Moral, Doucet and Jasra, *Sequential Monte Carlo samplers* (2006): the power of the
likelihood grows as far as the effective sample size stays at a given fraction; particles are then
resampled, and moved by Metropolis-Hastings steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import distributions, resampling
from emppi_ros.priors.distributions import Prior

LogLikelihood = Callable[[Array], Array]
_STEP_SCALE = 2.38  # over the root of P: optimal (Gelman, Roberts and Gilks 1996)
_MIN_GAIN = 1e-9  # of the power


@dataclass(frozen=True)
class SmcConfig:
    """Settings of the sampler."""

    particles: int = 300
    moves: int = 2  # Metropolis-Hastings steps at each power
    ess_fraction: float = 0.5  # effective sample size that a new power leaves
    power: float = 0.5  # final: innovations are correlated, and models have errors


class SmcState(NamedTuple):
    """The complete state of an inference at some power: it can resume there, or is finished."""

    theta: Array  # (N, P) equally weighted particles
    log_likelihood: Array  # (N,)
    powers: Array  # up to now
    moved: Array  # accepted share of each move
    generator: str | npt.NDArray[Any]  # JSON state of the random number generator


def infer(
    parameters: Sequence[Parameter],
    priors: Sequence[Prior],
    log_likelihood: LogLikelihood,
    config: SmcConfig,
    rng: np.random.Generator,
    watch: Callable[[SmcState], None] = lambda _: None,
    state: SmcState | None = None,
) -> SmcState:
    """
    Return particles of the posterior.

    `log_likelihood` maps (N, P) to (N,), -inf where a model diverges. `watch` is called with the
    state at every power; from each of them the inference can resume, bit for bit.
    """
    if state is None:
        theta = distributions.sample(parameters, priors, config.particles, rng)
        now = log_likelihood(theta)
        powers, moved = [0.0], list[float]()
    else:
        theta, now = state.theta, state.log_likelihood
        powers, moved = state.powers.tolist(), state.moved.tolist()
        rng.bit_generator.state = json.loads(str(state.generator))

    def current() -> SmcState:
        generator = json.dumps(rng.bit_generator.state)
        return SmcState(theta, now, np.array(powers), np.array(moved), generator)

    while powers[-1] < config.power:
        watch(current())
        gain = _gain(now, config.power - powers[-1], config.ess_fraction)
        powers.append(min(powers[-1] + gain, config.power))
        log_weights = weights.normalize(gain * now)
        covariance = weights.covariance(log_weights, theta) * _STEP_SCALE**2 / len(parameters)
        chosen = resampling.systematic(np.exp(log_weights), len(theta), rng.random())
        theta, now = theta[chosen], now[chosen]
        for _ in range(config.moves):
            zero = np.zeros(len(parameters))
            steps = rng.multivariate_normal(zero, covariance, len(theta), method='eigh')
            before = distributions.log_density(parameters, priors, theta)
            after = distributions.log_density(parameters, priors, theta + steps)
            inside = np.isfinite(after)
            other = np.where(inside[:, None], theta + steps, theta)
            new = log_likelihood(other)
            log_ratio = powers[-1] * (new - now) + np.where(inside, after - before, -np.inf)
            accepted = np.log(rng.random(len(theta))) < log_ratio
            theta, now = np.where(accepted[:, None], other, theta), np.where(accepted, new, now)
            moved.append(float(accepted.mean()))
    return current()


def _gain(log_likelihood: Array, most: float, share: float) -> float:
    """Return by how much the power may grow so that this share of the sample size is left."""
    sound = np.isfinite(log_likelihood)
    if np.isnan(log_likelihood).any() or not sound.any():
        raise IdentificationError(
            'all particles diverge: bounds of parameters or time steps are too large'
        )
    finite = log_likelihood[sound]
    least = share * len(finite)

    def excess(power: float) -> float:
        return weights.effective_sample_size(power * finite) - least

    if excess(most) >= 0.0:
        return most
    return max(float(brentq(excess, 0.0, most, xtol=_MIN_GAIN)), _MIN_GAIN)
