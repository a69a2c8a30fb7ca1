"""
Kalman filter and disturbance smoother of a linear system with normal noise.

The smoother needs no inverse of the covariance of states, so that noise may vanish along some
directions. It also yields the derivative of the likelihood by the covariance of noise (Koopman
and Shephard, 1992, "Exact score for time series models in state space form").
"""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array


class LinearSystem(NamedTuple):
    """States x (n,) at T times, and measurements of them with noise of variance 1."""

    mean: Array  # (n,), of the first state, before its measurement
    covariance: Array  # (n, n), likewise
    transition: Array  # (T - 1, n, n): the next state is transition @ x + shift + noise
    shift: Array  # (T - 1, n)
    noise: Array  # (T - 1, n, n), its covariance
    slopes: Array  # (T, m, n): measurements are slopes @ x
    measured: Array  # (T, m); where rows of slopes are zeros, nothing


class SmoothedStates(NamedTuple):
    """States given all measurements."""

    mean: Array  # (T, n)
    covariance: Array  # (T, n, n)
    # squared innovations in units of their covariances, and the sum of the logarithms of the
    # determinants of these: minus twice the log likelihood, but for a constant
    squares: float
    log_determinant: float
    # derivative (T, n) of the log likelihood by the state that is predicted from earlier
    # measurements, and its covariance (T, n, n)
    gradient: Array
    curvature: Array


def smooth(system: LinearSystem) -> SmoothedStates:
    """Return the states given all measurements."""
    count, m, n = system.slopes.shape
    predicted, covariance = np.empty((count, n)), np.empty((count, n, n))
    closed, variances = np.empty((count, n, n)), np.empty((count, m, m))
    shown, known = np.empty((count, n)), np.empty((count, n, n))
    x, p, squares = system.mean, system.covariance, 0.0
    for k, slopes in enumerate(system.slopes):
        predicted[k], covariance[k] = x, p
        across = p @ slopes.T
        variances[k] = slopes @ across + np.eye(m)
        weighted = slopes.T @ np.linalg.inv(variances[k])
        innovation = system.measured[k] - slopes @ x
        shown[k], known[k] = weighted @ innovation, weighted @ slopes
        squares += float(innovation @ np.linalg.solve(variances[k], innovation))
        if k < count - 1:
            move = system.transition[k]
            gain = move @ p @ weighted
            closed[k] = move - gain @ slopes
            x = move @ x + gain @ innovation + system.shift[k]
            # Joseph's form: no rounding makes it negative
            p = closed[k] @ p @ closed[k].T + gain @ gain.T + system.noise[k]
    gradient, curvature = shown, known
    for k in range(count - 2, -1, -1):
        gradient[k] += closed[k].T @ gradient[k + 1]
        curvature[k] += closed[k].T @ curvature[k + 1] @ closed[k]
    return SmoothedStates(
        predicted + np.einsum('tij,tj->ti', covariance, gradient),
        covariance - covariance @ curvature @ covariance,
        squares, float(np.sum(np.linalg.slogdet(variances)[1])), gradient, curvature,
    )  # fmt: skip


def scores(smoothed: SmoothedStates, factor: float = 1.0) -> Array:
    """
    Return derivatives (T, n, n) of the log likelihood by the covariances of first state and noise.

    `factor` multiplies all covariances, those of measurements, too.
    """
    outer = smoothed.gradient[:, :, None] * smoothed.gradient[:, None, :]
    return 0.5 * (outer / factor - smoothed.curvature)


def noise_squares(smoothed: SmoothedStates, noise: Array, factor: float = 1.0) -> Array:
    """
    Return expected squares (T - 1,) of the noise, in units of its covariance (T - 1, n, n).

    Their mean is n if the noise is normal. `factor` is that of `scores`.
    """
    n = noise.shape[-1]
    return n + 2.0 * np.einsum('kij,kji->k', scores(smoothed, factor)[1:], noise)
