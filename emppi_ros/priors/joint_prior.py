"""Joint prior of a task: independent distributions, and weighted particles from a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
import functools

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import distributions, resampling
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.particles import Belief, uniform

_DRAWS = 10_000  # resolve quantiles of 0.001 to about a tenth of a standard deviation
_TAIL = 0.001
_QUANTILES = 500


@dataclass(frozen=True, eq=False)
class JointPrior:
    """Distribution of all P parameters: particles at `columns`, and their own priors elsewhere."""

    parameters: Sequence[Parameter]
    priors: Sequence[Prior]  # those at `columns` are unused
    columns: Sequence[int] = ()
    values: Array = field(default_factory=lambda: np.empty((0, 0)))  # (N, len(columns))
    weights: Array = field(default_factory=lambda: np.empty(0))  # (N,), sum to 1
    file: str = ''  # path of the prior file, if any
    kept: Sequence[str] = ()  # names of parameters that are not in the file

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P); those from particles are systematic, and may repeat."""
        theta = distributions.sample(self.parameters, self.priors, count, rng)
        if self.columns:
            chosen = resampling.systematic(self.weights, count, rng.random())
            theta[:, list(self.columns)] = self.values[chosen]
        return theta

    def initial_belief(self, count: int, rng: np.random.Generator) -> Belief:
        """Return `count` particles to start with: those of the file, if it has as many."""
        if len(self.weights) == count and 0 < len(self.columns) == len(self.parameters):
            with np.errstate(divide='ignore'):  # zero weights become -inf
                return Belief(self.values.copy(), np.log(self.weights))
        return uniform(self.sample(count, rng))

    def mean(self) -> Array:
        """Return the mean (P,), estimated from draws within the parameters' bounds."""
        return self.draws.mean(axis=0)

    @functools.cached_property
    def range(self) -> Array:
        """Quantiles 0.001 and 0.999 of each parameter, (2, P)."""
        return np.quantile(self.draws, [_TAIL, 1.0 - _TAIL], axis=0)

    @functools.cached_property
    def spread(self) -> Array:
        """Standard deviation (P,) in unbounded coordinates; 0 if a parameter is certain."""
        z = distributions.to_unbounded(self.parameters, self.draws)
        return np.where(np.ptp(z, axis=0) > 0.0, z.std(axis=0), 0.0)

    @functools.cached_property
    def center(self) -> Array:
        """Mean (P,) in unbounded coordinates."""
        return distributions.to_unbounded(self.parameters, self.draws).mean(axis=0)

    @functools.cached_property
    def correlation(self) -> Array:
        """Correlation (P, P) in unbounded coordinates; not 0 only between particle columns."""
        z = distributions.to_unbounded(self.parameters, self.draws)
        z = (z - z.mean(axis=0)) / np.where(self.spread > 0.0, self.spread, np.inf)
        matrix, joint = np.eye(len(self.parameters)), np.array(self.columns, dtype=int)
        matrix[np.ix_(joint, joint)] = z[:, joint].T @ z[:, joint] / len(z)
        np.fill_diagonal(matrix, 1.0)
        return matrix

    def relative_sd(self, belief: Belief) -> Array:
        """Return the sd (P,) of a belief over this prior's, unbounded; nan if it is certain."""
        z = distributions.to_unbounded(self.parameters, belief.theta)
        sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, z)))
        return sd / np.where(self.spread > 0.0, self.spread, np.nan)

    def tail_probability(self, theta: Array) -> Array:
        """Return the prior probability (P,) of values at least as extreme as theta (P,)."""
        below, above = (self.draws < theta).mean(axis=0), (self.draws > theta).mean(axis=0)
        return 1.0 - np.maximum(below, above)

    def distance(self, belief: Belief) -> Array:
        """
        Return the Wasserstein-1 distance (P,) of each parameter's belief, in sd of this prior.

        It is infinite if the prior is certain of another value.
        """
        scale, shares = self.draws.std(axis=0), np.exp(belief.log_weights)
        columns = zip(self._quantiles.T, belief.theta.T, strict=True)
        distances = np.array([_wasserstein_distance(*pair, shares) for pair in columns])
        certain = np.ptp(self.draws, axis=0) == 0.0
        if_certain = np.where(distances > 0.0, np.inf, 0.0)
        return np.where(certain, if_certain, distances / np.where(certain, 1.0, scale))

    @functools.cached_property
    def _quantiles(self) -> Array:
        """Evenly spaced quantiles, which are faster to compare with than all draws."""
        return np.quantile(self.draws, (np.arange(_QUANTILES) + 0.5) / _QUANTILES, axis=0)

    @functools.cached_property
    def draws(self) -> Array:
        """Stored draws (10 000, P), always the same."""
        return self.sample(_DRAWS, np.random.default_rng(0))

    def resample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P) from 10 000 stored ones, faster than `sample`."""
        return self.draws[rng.integers(len(self.draws), size=count)]

    def describe(self) -> str:
        """Return a description of the origin of this prior."""
        if not self.file:
            return "the task's own"
        kept = f"; the task's own for {', '.join(self.kept)}" if self.kept else ''
        return f'{self.file}{kept}'


def _wasserstein_distance(draws: Array, values: Array, shares: Array) -> float:
    """
    Return the Wasserstein-1 distance of equally likely draws from values of given shares.

    As in `scipy.stats`, which takes half as long to import as the rest of the belief node.
    """
    edges = np.sort(np.concatenate([draws, values]))
    order = np.argsort(values)
    cumulative = np.concatenate([[0.0], np.cumsum(shares[order])])
    below = np.sort(draws).searchsorted(edges[:-1], 'right') / len(draws)
    ours = cumulative[values[order].searchsorted(edges[:-1], 'right')] / cumulative[-1]
    return float(np.abs(below - ours) @ np.diff(edges))
