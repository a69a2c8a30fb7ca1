"""Where a belief starts: priors of one parameter each, and particles of several at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
import functools

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.belief import distributions, resampling
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.particles import Belief, uniform
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
_MANY = 10_000  # draws tell quantiles of 0.001 to a tenth of a standard deviation or so
_TAIL = 0.001
_FEW = 500


@dataclass(frozen=True, eq=False)
class JointPrior:
    """
    Distribution of all P parameters of a task.

    Parameters at `columns` come together, from weighted particles, so that what is known of one
    given another is kept; all others come from their own priors.
    """

    parameters: Sequence[Parameter]
    priors: Sequence[Prior]  # of columns too, where nobody reads them
    columns: Sequence[int] = ()
    values: Array = field(default_factory=lambda: np.empty((0, 0)))  # (N, len(columns))
    weights: Array = field(default_factory=lambda: np.empty(0))  # (N,), sum to 1
    file: str = ''  # that it was read from
    kept: Sequence[str] = ()  # parameters that the file does not have: the task's own priors

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """
        Return draws (count, P).

        Particles are drawn as often as they weigh, without noise: of fewer than `count`, some
        come twice, and part at the filter's first resampling.
        """
        theta = distributions.sample(self.parameters, self.priors, count, rng)
        if self.columns:
            chosen = resampling.systematic(self.weights, count, rng.random())
            theta[:, list(self.columns)] = self.values[chosen]
        return theta

    def begin(self, count: int, rng: np.random.Generator) -> Belief:
        """
        Return `count` particles from which a belief goes on.

        Those of the file themselves, weights and all, if it has as many and all parameters: a
        belief that was saved goes on as it was.
        """
        if len(self.weights) == count and 0 < len(self.columns) == len(self.parameters):
            with np.errstate(divide='ignore'):  # what weighs nothing is out
                return Belief(self.values.copy(), np.log(self.weights))
        return uniform(self.sample(count, rng))

    def mean(self) -> Array:
        """Return the mean (P,) within the parameters' bounds, from many draws."""
        return self._many.mean(axis=0)

    @functools.cached_property
    def range(self) -> Array:
        """What is held for possible, (2, P): all but one in a thousand at either end."""
        return np.quantile(self._many, [_TAIL, 1.0 - _TAIL], axis=0)

    @functools.cached_property
    def spread(self) -> Array:
        """Standard deviation (P,) without bounds, where particles move; 0 of what is certain."""
        z = distributions.to_unbounded(self.parameters, self._many)
        return np.where(np.ptp(z, axis=0) > 0.0, z.std(axis=0), 0.0)

    @functools.cached_property
    def correlation(self) -> Array:
        """Correlation (P, P) of parameters without bounds; only those of particles have any."""
        z = distributions.to_unbounded(self.parameters, self._many)
        z = (z - z.mean(axis=0)) / np.where(self.spread > 0.0, self.spread, np.inf)
        found, together = np.eye(len(self.parameters)), np.array(self.columns, dtype=int)
        found[np.ix_(together, together)] = z[:, together].T @ z[:, together] / len(z)
        np.fill_diagonal(found, 1.0)
        return found

    def tail(self, theta: Array) -> Array:
        """Return which share of this prior (P,) is at least as far out, at the end next to it."""
        below, above = (self._many < theta).mean(axis=0), (self._many > theta).mean(axis=0)
        return 1.0 - np.maximum(below, above)

    def distance(self, belief: Belief) -> Array:
        """
        Return how far each parameter's belief (P,) has come from this prior.

        By the Wasserstein distance of order 1, in standard deviations of the prior: 0 if
        nothing has changed; of a belief that is certain, how far values of the prior are from
        it on average. Infinite if the prior was certain of another value.
        """
        scale, shares = self._many.std(axis=0), np.exp(belief.log_weights)
        found = np.array(
            [
                scipy.stats.wasserstein_distance(before, now, None, shares)
                for before, now in zip(self._quantiles.T, belief.theta.T, strict=True)
            ]
        )
        certain = np.ptp(self._many, axis=0) == 0.0
        return np.where(
            certain, np.where(found > 0.0, np.inf, 0.0), found / np.where(certain, 1.0, scale)
        )

    @functools.cached_property
    def _quantiles(self) -> Array:
        """As good as many draws, and quicker to compare with."""
        return np.quantile(self._many, (np.arange(_FEW) + 0.5) / _FEW, axis=0)

    @functools.cached_property
    def _many(self) -> Array:
        return self.sample(_MANY, np.random.default_rng(0))

    def describe(self) -> str:
        """Return in words where it is from."""
        if not self.file:
            return "the task's own"
        kept = f"; the task's own for {', '.join(self.kept)}" if self.kept else ''
        return f'{self.file}{kept}'
