"""
Information of measurements about the parameters of each particle: a floor for its spread.

A particle filter forgets its own uncertainty (docs/method.md). Sensitivities of predictions come
from a regression over the particles (statistical linearization; Sarkka, *Bayesian Filtering and
Smoothing*, 2013, section 5.4). Coordinates z are unbounded.
"""

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.priors.resampling import Indices

_RIDGE = 1e-6  # of the prior's variance: particles closer than this are one
_SIGNIFICANT = 3.0  # times the information that chance adds


def start(spread: Array, count: int) -> Array:
    """Return the information (M, P, P) in a prior with standard deviations `spread` (P,)."""
    return np.tile(np.diag(spread**-2), (count, 1, 1))


def sensitivity(
    log_weights: Array, z: Array, errors: Array, precision: Array, spread: Array
) -> Array:
    """
    Return the derivative (N, P) of errors (M, N) by z (M, P).

    Directions of z whose effect on the errors is not larger than chance explains are removed; the
    others are reduced by what chance adds to their information. `precision` (N,) is that of the
    errors, `spread` (P,) the standard deviation of the prior.
    """
    size, columns = errors.shape[1], z.shape[1]
    shares = np.exp(weights.normalize(log_weights))
    independent = 1.0 / (shares @ shares) - columns - 1.0
    if independent <= 1.0 or len(z) <= columns + 2:
        return np.zeros((size, columns))
    x, y = z - shares @ z, errors - shares @ errors
    weighted = x * shares[:, None]
    root = np.linalg.cholesky(weighted.T @ x + _RIDGE * np.diag(spread**2))
    # in coordinates in which the particles have unit variance
    white = np.linalg.solve(root, x.T).T
    slope = (white * shares[:, None]).T @ y  # (P, N)
    unexplained = precision @ (shares @ (y - white @ slope) ** 2)
    values, axes = np.linalg.eigh((slope * precision) @ slope.T)
    ratio = values / max(unexplained / independent, 1e-300)
    kept = np.where(ratio > _SIGNIFICANT, 1.0 - 1.0 / np.maximum(ratio, 1.0), 0.0)
    slope = (axes * np.sqrt(kept)) @ (axes.T @ slope)
    return np.linalg.solve(root.T, slope).T


def add(information: Array, jacobian: Array, precision: Array) -> Array:
    """Return information (..., P, P) after errors with sensitivity (N, P), precision (N,)."""
    return information + (jacobian.T * precision) @ jacobian


def drift(information: Array, variance: Array) -> Array:
    """Return the information (M, P, P) after a random walk that adds variances (P,)."""
    diagonal = np.einsum('mii->mi', information)
    scale = 1.0 / np.sqrt(1.0 + diagonal * variance)
    return information * scale[:, :, None] * scale[:, None, :]


def raise_variance(information: Array, log_weights: Array, variance: Array) -> Array:
    """Return the information (M, P, P) after a random walk to at least `variance` (P,)."""
    present = np.diag(covariance(log_weights, information))
    return drift(information, np.maximum(variance - present, 0.0))


def jump(information: Array, columns: Indices, spread: Array) -> Array:
    """Return the information (M, P, P) after one parameter of each particle jumped."""
    rows, jumped = np.arange(len(information)), information.copy()
    jumped[rows, columns, :] = 0.0
    jumped[rows, :, columns] = 0.0
    jumped[rows, columns, columns] = spread[columns] ** -2
    return jumped


def unexplained(information: Array, column: int, step: float) -> Array:
    """
    Return how much of a parameter's step the change of each parameter (P,) leaves unexplained.

    `information` (P, P) is that since the step. The result is chi-squared: 0 at `column`, and
    that of no change at all for parameters about which nothing was learned.
    """
    own, shared = np.diag(information), information[column]
    explained = np.divide(shared**2, own, out=np.zeros_like(own), where=own > 0.0)
    return np.asarray(step**2 * (own[column] - explained))


def restart(information: Array, flags: Bools, since: Array, spread: Array) -> Array:
    """
    Return the information (M, P, P) with that about the parameters at `flags` (P,) started again.

    About these it is that of a prior with standard deviations `spread` (P,), and `since` (P, P).
    """
    both, either = np.logical_and.outer(flags, flags), np.logical_or.outer(flags, flags)
    return np.where(either, np.where(both, since + np.diag(spread**-2), 0.0), information)


def covariance(log_weights: Array, information: Array) -> Array:
    """Return the mean inverse (P, P) of the particles' information (M, P, P)."""
    shares = np.exp(weights.normalize(log_weights))
    return np.einsum('m,mij->ij', shares, np.linalg.inv(information))


def missing(covariance: Array, floor: Array) -> Array:
    """Return what a covariance (P, P) lacks of a floor (P, P), in each direction."""
    root = np.linalg.cholesky(floor)
    half = np.linalg.solve(root, covariance)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, half.T))
    axes = root @ vectors
    return (axes * np.maximum(1.0 - values, 0.0)) @ axes.T


def diffuse(
    z: Array, added: Array, center: Array, spread: Array, rng: np.random.Generator
) -> Array:
    """Return z (M, P) after noise of covariance `added` (P, P) that leaves the prior unchanged."""
    values, vectors = np.linalg.eigh(added)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    # a step of an Ornstein-Uhlenbeck process about the mean of the prior
    pull = 0.5 * (z - center) / spread**2 @ added
    return z - pull + rng.standard_normal(z.shape) @ root.T
