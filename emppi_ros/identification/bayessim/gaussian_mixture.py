"""Mixtures of Gaussians with full covariance."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from emppi_ros.core.arrays import Array


class GaussianMixture(NamedTuple):
    """
    A mixture of K Gaussians in P dimensions.

    Attributes
    ----------
    log_weights : (K,) array
        Their exponentials sum to 1.
    means : (K, P) array
        Means.
    roots : (K, P, P) array
        Lower triangular R with positive diagonal; R' R is the inverse of the covariance.

    """

    log_weights: Array
    means: Array
    roots: Array

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
