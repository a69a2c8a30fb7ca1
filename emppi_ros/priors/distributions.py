"""
Prior distributions of single parameters, and the map to unbounded coordinates.

Register new distributions in `DISTRIBUTIONS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key, registered
from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.model.parameters import Parameter

_MAX_BATCHES = 10_000  # of draws, after which a truncated prior counts as without mass


class Distribution(NamedTuple):
    """A kind of distribution. Its functions take the values of `keys` as last arguments."""

    keys: tuple[str, ...]  # of `Prior`, in the order of the arguments
    sample: Callable[..., Array]  # (rng, n, *values) -> (n,)
    log_density: Callable[..., Array]  # (x (n,), *values) -> (n,), up to a constant
    positive: tuple[str, ...] = ()  # keys that must be above 0


def _sample_lognormal(rng: np.random.Generator, count: int, median: float, sd: float) -> Array:
    with np.errstate(over='ignore'):  # infinite draws are out of bounds, and redrawn
        return median * np.exp(sd * rng.standard_normal(count))


def _lognormal(x: Array, median: float, sd: float) -> Array:
    logs = np.log(np.where(x > 0.0, x, 1.0))
    return np.where(x > 0.0, -0.5 * ((logs - np.log(median)) / sd) ** 2 - logs, -np.inf)


DISTRIBUTIONS: dict[str, Distribution] = {
    'normal': Distribution(
        ('mean', 'sd'),
        lambda rng, count, mean, sd: mean + sd * rng.standard_normal(count),
        lambda x, mean, sd: -0.5 * ((x - mean) / sd) ** 2,
        ('sd',),
    ),
    'lognormal': Distribution(('mean', 'sd'), _sample_lognormal, _lognormal, ('mean', 'sd')),
    'uniform': Distribution(
        ('lower', 'upper'),
        lambda rng, count, lower, upper: rng.uniform(lower, upper, count),
        lambda x, lower, upper: np.where((x >= lower) & (x <= upper), 0.0, -np.inf),
    ),
    'fixed': Distribution(
        ('value',),
        lambda _, count, value: np.full(count, value),
        lambda x, value: np.where(x == value, 0.0, -np.inf),
    ),
}


@dataclass(frozen=True)
class Prior:
    """
    Distribution of one parameter, truncated to the parameter's bounds.

    `Prior('normal', mean=1.0, sd=0.1)`; lognormal takes `mean` (the median) and `sd` (of the
    logarithm), uniform takes `lower` and `upper`, fixed takes `value`. Values are in the unit of
    the parameter. ConfigError if a key is missing, superfluous or out of range.
    """

    distribution: str = registered(DISTRIBUTIONS, doc='kind of distribution')
    mean: float | None = key(None, doc='normal: mean; lognormal: median')
    sd: float | None = key(None, doc='standard deviation; lognormal: of the logarithm')
    lower: float | None = key(None, doc='uniform: lower bound')
    upper: float | None = key(None, doc='uniform: upper bound')
    value: float | None = key(None, doc='fixed: the value')

    def __post_init__(self) -> None:
        """Check that the keys are those of the distribution."""
        if self.distribution not in DISTRIBUTIONS:
            raise ConfigError(unknown('distribution', self.distribution, DISTRIBUTIONS))
        kind = DISTRIBUTIONS[self.distribution]
        for name in ('mean', 'sd', 'lower', 'upper', 'value'):
            value, prior = getattr(self, name), f'a {self.distribution} prior'
            if (value is not None) != (name in kind.keys):
                fault = 'has no such key' if value is not None else 'needs this key'
                raise ConfigError(f'{name}: {prior} {fault} (its keys: {", ".join(kind.keys)})')
            if name in kind.positive and not value > 0:
                raise ConfigError(f'{name}: found {value}; {prior} needs it above 0')
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise ConfigError(f'lower: found {self.lower}, which is not below upper {self.upper}')

    def sample(self, parameter: Parameter, count: int, rng: np.random.Generator) -> Array:
        """Return `count` draws within the parameter's bounds; ConfigError if that fails."""
        accepted = np.empty(0)
        for _ in range(_MAX_BATCHES):
            draws = DISTRIBUTIONS[self.distribution].sample(rng, count, *self._values)
            inside = (draws > parameter.lower) & (draws < parameter.upper)
            accepted = np.concatenate([accepted, draws[inside]])[:count]
            if len(accepted) == count:
                return accepted
        raise ConfigError(
            f'parameter {parameter.name!r}: its prior has almost no probability within '
            f'[{parameter.lower:g}, {parameter.upper:g}]'
        )

    def log_density(self, parameter: Parameter, values: Array) -> Array:
        """Return the log density of values (n,), up to a constant; -inf out of bounds."""
        inside = (values > parameter.lower) & (values < parameter.upper)
        density = DISTRIBUTIONS[self.distribution].log_density(values, *self._values)
        return np.where(inside, density, -np.inf)

    @property
    def _values(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in DISTRIBUTIONS[self.distribution].keys)


def sample(
    parameters: Sequence[Parameter], priors: Sequence[Prior], count: int, rng: np.random.Generator
) -> Array:
    """Return independent draws (count, P) of all parameters."""
    pairs = zip(parameters, priors, strict=True)
    columns = [prior.sample(parameter, count, rng) for parameter, prior in pairs]
    return np.stack(columns, axis=1) if columns else np.empty((count, 0))


def log_density(parameters: Sequence[Parameter], priors: Sequence[Prior], theta: Array) -> Array:
    """Return the log density (M,) of theta (M, P), up to a constant; -inf out of bounds."""
    total = np.zeros(len(theta))
    for parameter, prior, values in zip(parameters, priors, theta.T, strict=True):
        total += prior.log_density(parameter, values)
    return total


def to_unbounded(parameters: Sequence[Parameter], theta: Array) -> Array:
    """Return theta (M, P) in unbounded coordinates: log for one bound, logit for two."""
    z = theta.copy()
    for i, p in enumerate(parameters):
        if math.isfinite(p.lower) and math.isfinite(p.upper):
            z[:, i] = np.log(theta[:, i] - p.lower) - np.log(p.upper - theta[:, i])
        elif math.isfinite(p.lower):
            z[:, i] = np.log(theta[:, i] - p.lower)
        elif math.isfinite(p.upper):
            z[:, i] = -np.log(p.upper - theta[:, i])
    return z


def to_bounded(parameters: Sequence[Parameter], z: Array) -> Array:
    """Return theta (M, P) from unbounded coordinates: the inverse of `to_unbounded`."""
    theta = z.copy()
    for i, p in enumerate(parameters):
        if math.isfinite(p.lower) and math.isfinite(p.upper):
            theta[:, i] = p.lower + (p.upper - p.lower) * 0.5 * (1.0 + np.tanh(0.5 * z[:, i]))
        elif math.isfinite(p.lower):
            theta[:, i] = p.lower + np.exp(z[:, i])
        elif math.isfinite(p.upper):
            theta[:, i] = p.upper - np.exp(-z[:, i])
        # a particle rounded onto a bound would stay there: its transform is infinite
        within = np.nextafter(p.lower, np.inf), np.nextafter(p.upper, -np.inf)
        theta[:, i] = np.clip(theta[:, i], *within)
    return theta
