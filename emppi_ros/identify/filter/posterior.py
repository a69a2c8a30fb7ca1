"""
Particles of a posterior, from those of the prior, by a tempered likelihood.

Del Moral, Doucet and Jasra, *Sequential Monte Carlo samplers* (2006): the likelihood counts to a
power that grows from 0, each time as far as half of the particles are worth something;
they are drawn by their weights, and then moved by steps of Metropolis and Hastings, which leave
the posterior as it is: no jitter widens it, and a likelihood that is rough needs no derivatives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from emppi_ros.belief import distributions, resampling
from emppi_ros.belief.distributions import Prior
from emppi_ros.core import weights
from emppi_ros.core.errors import IdentificationError
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
LogLikelihood = Callable[[Array], Array]
_REACH = 2.38  # over the root of P: the best size of steps (Gelman, Roberts and Gilks 1996)
_FINE = 1e-9  # power below which nothing goes on


@dataclass(frozen=True)
class Settings:
    """How many particles are moved how often."""

    particles: int = 300
    moves: int = 2  # at each power
    ess_fraction: float = 0.5  # that a power leaves
    power: float = 0.5  # of the likelihood in the end: innovations hang together, models err


class State(NamedTuple):
    """All that an inference goes on from, at some power."""

    theta: Array  # (N, P)
    log_likelihood: Array  # (N,)
    powers: Array  # so far
    moved: Array  # share of particles, at each move
    generator: str  # of random numbers, as JSON

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> 'State':
        """Return the state whose parts these are."""
        parts = (arrays[name] for name in cls._fields[:-1])
        return cls(*parts, str(arrays['generator']))


class Posterior(NamedTuple):
    """Particles of one weight, and how they came about."""

    theta: Array  # (N, P)
    log_likelihood: Array  # (N,)
    powers: tuple[float, ...]
    acceptance: float  # share of moves


def infer(
    parameters: Sequence[Parameter],
    priors: Sequence[Prior],
    log_likelihood: LogLikelihood,
    settings: Settings,
    rng: np.random.Generator,
    watch: Callable[[State], None] = lambda _: None,
    state: State | None = None,
) -> Posterior:
    """
    Return particles of the posterior.

    `log_likelihood` takes (N, P) to (N,), -inf where a model diverges. `watch` is told of every
    power; from one of the states that it was told of the inference goes on bit for bit.
    """
    if state is None:
        theta = distributions.sample(parameters, priors, settings.particles, rng)
        now = log_likelihood(theta)
        powers, moved = [0.0], list[float]()
    else:
        theta, now = state.theta, state.log_likelihood
        powers, moved = state.powers.tolist(), state.moved.tolist()
        rng.bit_generator.state = json.loads(state.generator)
    while powers[-1] < settings.power:
        generator = json.dumps(rng.bit_generator.state)
        watch(State(theta, now, np.array(powers), np.array(moved), generator))
        gain = _gain(now, settings.power - powers[-1], settings.ess_fraction)
        powers.append(min(powers[-1] + gain, settings.power))
        log_weights = weights.normalize(gain * now)
        covariance = weights.covariance(log_weights, theta) * _REACH**2 / len(parameters)
        chosen = resampling.systematic(np.exp(log_weights), len(theta), rng.random())
        theta, now = theta[chosen], now[chosen]
        for _ in range(settings.moves):
            steps = rng.multivariate_normal(
                np.zeros(len(parameters)), covariance, len(theta), method='eigh'
            )
            before = distributions.log_density(parameters, priors, theta)
            after = distributions.log_density(parameters, priors, theta + steps)
            inside = np.isfinite(after)
            other = np.where(inside[:, None], theta + steps, theta)
            new = log_likelihood(other)
            better = powers[-1] * (new - now) + np.where(inside, after - before, -np.inf)
            taken = np.log(rng.random(len(theta))) < better
            theta, now = np.where(taken[:, None], other, theta), np.where(taken, new, now)
            moved.append(float(taken.mean()))
    return Posterior(theta, now, tuple(powers), float(np.mean(moved)))


def _gain(log_likelihood: Array, most: float, share: float) -> float:
    """Return by how much a power may grow that leaves this share of the sample size."""
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
    return max(float(brentq(excess, 0.0, most, xtol=_FINE)), _FINE)
