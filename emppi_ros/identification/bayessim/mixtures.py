"""
Mixtures of Gaussians with full covariance, in all of space and within a box.

The box is mapped to all of space by the quantile function of the standard normal distribution, so
that a single Gaussian represents the uniform distribution in the box.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.problem import LIMIT

_EDGE = 1e-15  # of the probability: a point on a bound counts as just inside


class GaussianMixture(NamedTuple):
    """A mixture of K Gaussians in P dimensions."""

    log_weights: Array  # (K,) their exponentials sum to 1
    means: Array  # (K, P)
    roots: Array  # (K, P, P) lower triangular R with positive diagonal, covariance (R' R)^-1

    def log_density(self, points: Array) -> Array:
        """Return the log density (n,) at points (n, P)."""
        whitened = np.einsum('kij,nkj->nki', self.roots, points[:, None] - self.means)
        logs = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        parts = self.log_weights + logs - 0.5 * np.sum(whitened**2, axis=2)
        result: Array = logsumexp(parts, axis=1) - 0.5 * points.shape[1] * np.log(2.0 * np.pi)
        return result

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P)."""
        weights = np.exp(self.log_weights)
        chosen = rng.choice(len(weights), size=count, p=weights / weights.sum())
        normal = rng.standard_normal((count, self.means.shape[1], 1))
        return self.means[chosen] + np.linalg.solve(self.roots[chosen], normal)[..., 0]


class BoxedMixture(NamedTuple):
    """A density between -LIMIT and LIMIT: a mixture of Gaussians of the mapped coordinates."""

    mixture: GaussianMixture

    def log_density(self, points: Array) -> Array:
        """Return the log density (n,) at points (n, P) of the box."""
        return self.mixture.log_density(to_unbounded(points)) + log_slope(points)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P)."""
        return from_unbounded(self.mixture.sample(count, rng))


def to_unbounded(points: Array) -> Array:
    """Return points (..., P) between -LIMIT and LIMIT, mapped to all of space."""
    return ndtri(np.clip(0.5 + 0.5 * points / LIMIT, _EDGE, 1.0 - _EDGE))


def from_unbounded(mapped: Array) -> Array:
    """Return the points (..., P) of the box that are mapped here."""
    return LIMIT * (2.0 * ndtr(mapped) - 1.0)


def log_slope(points: Array) -> Array:
    """Return the log determinant (...) of the Jacobian of the map at points (..., P)."""
    mapped = to_unbounded(points)
    each = 0.5 * mapped**2 + 0.5 * np.log(2.0 * np.pi) - np.log(2.0 * LIMIT)
    return np.asarray(each.sum(axis=-1))
