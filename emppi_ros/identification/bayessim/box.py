"""
Densities within a box: coordinates mapped to all of space, where mixtures of Gaussians live.

The map is the quantile function of the standard normal distribution. The uniform distribution in
the box becomes the standard normal one, so that a single Gaussian represents it exactly.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from emppi_ros.core.arrays import Array
from emppi_ros.identification.bayessim.gaussian_mixture import GaussianMixture
from emppi_ros.identification.multiple_shooting.problem import LIMIT

_EDGE = 1e-15  # of the probability: a point on a bound counts as just inside


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


class BoxedMixture(NamedTuple):
    """A density between -LIMIT and LIMIT: a mixture of Gaussians of the mapped coordinates."""

    mixture: GaussianMixture

    def log_density(self, points: Array) -> Array:
        """Return the log density (n,) at points (n, P) of the box."""
        return self.mixture.log_density(to_unbounded(points)) + log_slope(points)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P)."""
        return from_unbounded(self.mixture.sample(count, rng))
