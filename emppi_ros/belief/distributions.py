"""Priors over parameters, and the unbounded space in which particles move."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import key, one_of
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
_DRAWS = 10_000  # a truncated prior that yields nothing in so many draws has no mass


@dataclass(frozen=True)
class Prior:
    """Distribution of one parameter; what falls outside of the parameter's bounds is redrawn."""

    distribution: str = one_of('normal', 'lognormal', 'uniform', 'fixed', doc='its kind')
    mean: float | None = key(None, doc='normal: mean; lognormal: median')
    sd: float | None = key(None, doc='normal: standard deviation; lognormal: of the logarithm')
    lower: float | None = key(None, doc='uniform: from here')
    upper: float | None = key(None, doc='uniform: to here')
    value: float | None = key(None, doc='fixed: always this')

    def __post_init__(self) -> None:
        """Check that the keys are those of the distribution."""
        needs = {'uniform': ('lower', 'upper'), 'fixed': ('value',)}.get(
            self.distribution, ('mean', 'sd')
        )
        for name in ('mean', 'sd', 'lower', 'upper', 'value'):
            given = getattr(self, name) is not None
            if given != (name in needs):
                raise ConfigError(
                    f'{name}: a {self.distribution} prior '
                    + ('needs this key' if name in needs else 'has no such key')
                    + f' (its keys: {", ".join(needs)})'
                )
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise ConfigError(f'lower: found {self.lower}, which is not below upper {self.upper}')
        if self.sd is not None and self.sd <= 0:
            raise ConfigError(f'sd: found {self.sd}, expected a number above 0')
        if self.distribution == 'lognormal' and self.mean is not None and self.mean <= 0:
            raise ConfigError(f'mean: found {self.mean}; a lognormal prior needs it above 0')

    def sample(self, parameter: Parameter, count: int, rng: np.random.Generator) -> Array:
        """Return `count` draws within the parameter's bounds."""
        kept = np.empty(0)
        for _ in range(_DRAWS):
            draws = self._draw(count, rng)
            inside = (draws > parameter.lower) & (draws < parameter.upper)
            kept = np.concatenate([kept, draws[inside]])[:count]
            if len(kept) == count:
                return kept
        raise ConfigError(
            f'parameter {parameter.name!r}: its prior has next to no mass within '
            f'[{parameter.lower:g}, {parameter.upper:g}]'
        )

    def _draw(self, count: int, rng: np.random.Generator) -> Array:
        if self.distribution == 'fixed':
            return np.full(count, self.value)
        if self.distribution == 'uniform':
            return rng.uniform(self.lower, self.upper, count)  # type: ignore[arg-type]
        draws = rng.standard_normal(count) * self.sd
        if self.distribution == 'lognormal':
            with np.errstate(over='ignore'):  # infinite ones are redrawn
                return self.mean * np.exp(draws)
        return self.mean + draws

    def log_density(self, parameter: Parameter, values: Array) -> Array:
        """Return the log density of values (n,), up to a constant; -inf out of bounds."""
        inside = (values > parameter.lower) & (values < parameter.upper)
        if self.distribution == 'fixed':
            inside &= values == self.value
            found = np.zeros(len(values))
        elif self.distribution == 'uniform':
            inside &= (values >= self.lower) & (values <= self.upper)
            found = np.zeros(len(values))
        elif self.distribution == 'lognormal':
            inside &= values > 0.0
            logs = np.log(np.where(inside, values, 1.0))
            found = -0.5 * ((logs - np.log(self.mean)) / self.sd) ** 2 - logs
        else:
            found = -0.5 * ((values - self.mean) / self.sd) ** 2
        return np.where(inside, found, -np.inf)


def sample(
    parameters: Sequence[Parameter],
    priors: Sequence[Prior],
    count: int,
    rng: np.random.Generator,
) -> Array:
    """Return draws (count, P) of all parameters, independent of one another."""
    columns = [
        prior.sample(parameter, count, rng)
        for parameter, prior in zip(parameters, priors, strict=True)
    ]
    return np.stack(columns, axis=1) if columns else np.empty((count, 0))


def log_density(parameters: Sequence[Parameter], priors: Sequence[Prior], theta: Array) -> Array:
    """Return the log density (M,) of theta (M, P), up to a constant; -inf out of bounds."""
    found = np.zeros(len(theta))
    for parameter, prior, values in zip(parameters, priors, theta.T, strict=True):
        found += prior.log_density(parameter, values)
    return found


def to_unbounded(parameters: Sequence[Parameter], theta: Array) -> Array:
    """Return theta (M, P) in a space without bounds: log if bounded below, logit if both."""
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
    """Return the parameters (M, P) of points without bounds: the inverse of to_unbounded."""
    theta = z.copy()
    for i, p in enumerate(parameters):
        if math.isfinite(p.lower) and math.isfinite(p.upper):
            theta[:, i] = p.lower + (p.upper - p.lower) * 0.5 * (1.0 + np.tanh(0.5 * z[:, i]))
        elif math.isfinite(p.lower):
            theta[:, i] = p.lower + np.exp(z[:, i])
        elif math.isfinite(p.upper):
            theta[:, i] = p.upper - np.exp(-z[:, i])
        # rounded onto a bound, a particle could never come back: its transform is infinite
        within = np.nextafter(p.lower, np.inf), np.nextafter(p.upper, -np.inf)
        theta[:, i] = np.clip(theta[:, i], *within)
    return theta
