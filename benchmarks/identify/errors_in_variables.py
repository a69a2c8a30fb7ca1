"""
Errors-in-variables regression: subtract the noise of the inputs from their covariance.

Least squares on noisy inputs x = t + e is biased towards zero, as cov(x) = cov(t) + cov(e). If
inputs are correlated, t hardly varies along some direction, and the variance there is noise. So
for scaled inputs with equal shares of noise, that share is at most the smallest eigenvalue of
their correlation matrix. It also must not explain more of the output than the inputs leave open
(Frisch 1934); if that bound is the lower one, the noise is not identifiable.
"""

import numpy as np
import scipy.linalg
from scipy.optimize import brentq
import scipy.stats

from emppi_ros.core.arrays import Array, Ints

_RANK = 1e-8  # relative to the largest column: smaller is rounding
_FALSE_POSITIVES = 0.01  # probability that any noise input is kept
_SHARES = 50  # candidate shares of noise


def independent_columns(x: Array) -> Ints:
    """
    Return linearly independent columns of x (n, d) that span all others, in ascending order.

    QR with pivoting takes the largest remaining column at each step, so that it keeps inputs and
    drops their convex combinations, which are smaller.
    """
    triangle, pivots = scipy.linalg.qr(x, mode='r', pivoting=True)
    sizes = np.abs(np.diag(triangle))
    return np.sort(pivots[: len(sizes)][sizes > _RANK * sizes[0]])


def relevant_columns(x: Array, y: Array) -> Ints:
    """Return the scaled inputs (n, d) that correlate with another input or with the output."""
    n, d = x.shape
    together = np.column_stack([x, y])
    correlation = np.abs(together.T @ together) / n
    np.fill_diagonal(correlation, 0.0)
    # Fisher's z of a zero correlation, with the level corrected for all pairs (Bonferroni)
    level = _FALSE_POSITIVES / (d * (d + 1) / 2) / 2
    least = np.tanh(scipy.stats.norm.isf(level) / np.sqrt(max(n - 3, 1)))
    relevant = np.flatnonzero(correlation[:d].max(axis=1) > least)
    return relevant if len(relevant) else np.arange(d)


def solve(correlation: Array, score: Array, rows: int, noise: float) -> Array:
    """
    Return coefficients (d,) with a share of noise subtracted from the correlation matrix.

    They minimize E |(S + E - noise I) b - c|^2 over errors E of a sample correlation matrix S of
    `rows` normal samples, for which E[E^2] = (S^2 + tr(S) S) / rows (Wishart).
    """
    values, vectors = np.linalg.eigh(correlation)
    signal, error = values - noise, values * (values + values.sum()) / rows
    return vectors @ (signal / (signal**2 + error) * (vectors.T @ score))


def fit(x: Array, y: Array) -> tuple[Array, bool]:
    """Return coefficients (d,) of scaled data, and whether they identify the noise."""
    columns = independent_columns(x)
    columns = columns[relevant_columns(x[:, columns], y)]
    used, rows = x[:, columns], len(x)
    correlation, score = used.T @ used / rows, y @ used / rows

    def unexplained(noise: float) -> float:
        """Return the variance of the output that neither t nor noise in x explains."""
        b = solve(correlation, score, rows, noise)
        return float(1.0 - 2.0 * b @ score + b @ correlation @ b - noise * b @ b)

    most = max(float(np.linalg.eigvalsh(correlation)[0]), 0.0)
    shares = np.linspace(0.0, most, _SHARES)  # not monotonic: the first root counts
    beyond = next((i for i, share in enumerate(shares) if unexplained(share) < 0.0), None)
    if beyond is not None:
        most = brentq(unexplained, *shares[beyond - 1 : beyond + 1]) if beyond else 0.0
    coefficients = np.zeros(x.shape[1])
    coefficients[columns] = solve(correlation, score, rows, most)
    return coefficients, beyond is None
