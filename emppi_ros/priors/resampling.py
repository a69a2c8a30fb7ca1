"""Resampling schemes for weighted particles. Register new ones in `RESAMPLERS`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.config import fraction, non_negative, positive, registered

Indices = npt.NDArray[np.intp]
# (config, z (M, P), log weights (M,), rng) -> z (M, P) of equal weight, parents (M,)
Resampler = Callable[
    ['ResamplingConfig', Array, Array, np.random.Generator], tuple[Array, Indices]
]


_SHIFT, _STRETCH = 0.5, 2.0  # of mean and variance, which 50 draws hardly exceed by chance
_SINGULAR = 1e-12  # ratio of variances


def systematic(weights: Array, count: int, offset: float) -> Indices:
    """
    Return `count` indices, evenly spaced over the cumulative weights (M,).

    `offset` in [0, 1) shifts all positions. If it is drawn uniformly, resampling is unbiased:
    particle i is drawn count * w_i times in the mean, and never more than one off. A particle
    of weight zero is never drawn.
    """
    cumulative = np.cumsum(weights)
    positions = (offset + np.arange(count)) / count * cumulative[-1]
    indices = np.searchsorted(cumulative, positions, side='right')
    # rounding can move the last position past the total: use the last particle with weight
    return np.minimum(indices, np.flatnonzero(weights)[-1])


def liu_west(
    config: 'ResamplingConfig', z: Array, log_weights: Array, rng: np.random.Generator
) -> tuple[Array, Indices]:
    """
    Resample systematically, then shrink towards the mean and add noise (Liu and West 2001).

    Shrinkage and noise together preserve mean and covariance. `walk_sd` adds further noise.
    """
    parents = systematic(np.exp(log_weights), len(log_weights), rng.random())
    mean = weights.mean(log_weights, z)
    root = _square_root(weights.covariance(log_weights, z))
    jitter = np.sqrt(1.0 - config.shrinkage**2) * rng.standard_normal(z.shape) @ root.T
    z = config.shrinkage * z[parents] + (1.0 - config.shrinkage) * mean + jitter
    if config.walk_sd:
        z += config.walk_sd * rng.standard_normal(z.shape)
    return z, parents


def gaussian(
    config: 'ResamplingConfig', z: Array, log_weights: Array, rng: np.random.Generator
) -> tuple[Array, Indices]:
    """Draw all particles from a Gaussian around the mean (Algorithm 1, lines 19 and 20)."""
    parents = systematic(np.exp(log_weights), len(log_weights), rng.random())
    mean = weights.mean(log_weights, z)
    return mean + config.noise_sd * rng.standard_normal(z.shape), parents


def match_moments(z: Array, mean: Array, covariance: Array) -> Array:
    """
    Return particles z (M, P) of equal weight, moved so that they have exactly these moments.

    Without that, mean and covariance wander with each draw (second-order exact sampling; Pham,
    Mon. Weather Rev. 129, 2001). Particles that differ by more than chance explains stay as they
    are: they have lost a mode, which no linear map brings back.
    """
    values, vectors = np.linalg.eigh(covariance)
    if values[0] <= _SINGULAR * values[-1]:
        return z
    root = vectors * np.sqrt(values)
    white = np.linalg.solve(root, (z - mean).T).T
    shift = white.mean(axis=0)
    white = white - shift
    stretch, axes = np.linalg.eigh(white.T @ white / len(z))
    if shift @ shift > _SHIFT**2 * len(shift) or not _within(stretch):
        return z
    return mean + white @ (axes / np.sqrt(stretch)) @ axes.T @ root.T


def _within(stretch: Array) -> bool:
    """Return whether variances (P,) are near those that were asked for, 1."""
    return bool(1.0 / _STRETCH < stretch[0] and stretch[-1] < _STRETCH)


RESAMPLERS: dict[str, Resampler] = {
    'liu-west': liu_west,
    'gaussian': gaussian,
}


@dataclass(frozen=True)
class ResamplingConfig:
    """When and how to resample."""

    scheme: str = registered(
        RESAMPLERS,
        default='liu-west',
        doc='liu-west: systematic, with kernel jitter; gaussian: around the mean, as in the paper',
    )
    ess_fraction: float = positive(
        0.5, doc='resample when the effective sample size is below this fraction of the particles'
    )
    shrinkage: float = fraction(0.95, doc='liu-west: shrinkage towards the mean; 1 adds no jitter')
    tempering: float | None = fraction(
        0.3, doc='temper updates so that they keep this fraction of the effective sample size'
    )
    walk_sd: float = non_negative(
        0.0, doc='liu-west: sd of additional noise, in unbounded (log) coordinates'
    )
    noise_sd: float = positive(
        0.05, doc='gaussian: sd around the mean, in unbounded (log) coordinates'
    )


def _square_root(covariance: Array) -> Array:
    """Return a factor A with A A' = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
