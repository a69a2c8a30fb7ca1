"""
Log-weight arithmetic, shared by the planner and the belief.

Weights stay in log space, so that neither an unlikely particle nor a costly rollout
underflows. If all weights are zero, that is an error; there is no fallback to uniform weights.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import DegenerateWeightsError


def normalize(log_weights: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Return log weights whose exponentials sum to 1 over `axis` (all axes by default)."""
    peak = log_weights.max(axis=axis, keepdims=True)
    if not np.isfinite(peak).all():
        raise DegenerateWeightsError(
            f'log weights need a finite maximum, found {np.unique(peak[~np.isfinite(peak)])}'
        )
    shifted = log_weights - peak
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def effective_sample_size(log_weights: Array) -> float:
    """Return 1 / sum of squared weights: M for uniform weights, 1 for a one-hot set."""
    return float(np.exp(-np.logaddexp.reduce(2.0 * normalize(log_weights))))


def entropy(log_weights: Array) -> float:
    """Return -sum of w log w in nats; log M for uniform weights, 0 for a one-hot set."""
    log_w = normalize(log_weights)
    weights = np.exp(log_w)
    return float(-np.sum(weights[weights > 0.0] * log_w[weights > 0.0]))


def mean(log_weights: Array, values: Array) -> Array:
    """Return the weighted mean over the first axis: (M,), (M, P) -> (P,)."""
    return np.exp(normalize(log_weights)) @ values


def covariance(log_weights: Array, values: Array) -> Array:
    """Return the weighted (population) covariance: (M,), (M, P) -> (P, P)."""
    weights = np.exp(normalize(log_weights))
    centred = values - weights @ values
    return (centred * weights[:, None]).T @ centred


def quantile(log_weights: Array, values: Array, probability: float) -> Array:
    """Return the weighted quantile per column: (M,), (M, P) -> (P,)."""
    weights = np.exp(normalize(log_weights))
    order = np.argsort(values, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    rows = np.minimum(np.sum(cumulative < probability, axis=0), len(values) - 1)
    return np.take_along_axis(values, order, axis=0)[rows, np.arange(values.shape[1])]
