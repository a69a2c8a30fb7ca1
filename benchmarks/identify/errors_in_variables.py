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

from emppi_ros.core.arrays import Array

_RANK = 1e-8  # relative to the largest column: smaller is rounding
_RELEVANT = 5.0  # standard errors of a correlation: of 5000 pairs, noise exceeds it in 1 of 300
_SHARES = 200  # candidate shares of noise


def solve(correlation: Array, score: Array, rows: int, noise: float) -> Array:
    """
    Return coefficients (d,) with a share of noise subtracted from the correlation matrix.

    They minimize E |(S + E - noise I) b - c|^2 over errors E of a sample correlation matrix S of
    `rows` normal samples, for which E[E^2] = (S^2 + tr(S) S) / rows (Wishart).
    """
    values, vectors = np.linalg.eigh(correlation)
    signal, error = values - noise, values * (values + values.sum()) / rows
    return vectors @ (signal / (signal**2 + error) * (vectors.T @ score))


def regress(x: Array, y: Array) -> tuple[Array, bool]:
    """Return coefficients (d,) for noiseless inputs, and whether the noise is identified."""
    # QR with pivoting drops convex combinations of other inputs, which are smaller than these
    triangle, pivots = scipy.linalg.qr(x, mode='r', pivoting=True)
    sizes = np.abs(np.diag(triangle))
    columns = np.sort(pivots[: len(sizes)][sizes > _RANK * sizes[0]])
    scale = np.sqrt(np.mean(np.column_stack([x[:, columns], y]) ** 2, axis=0))
    both = np.column_stack([x[:, columns], y]) / scale
    correlation = both.T @ both / len(x)
    off_diagonal = np.abs(correlation - np.eye(len(correlation)))[:-1]
    relevant = np.flatnonzero(off_diagonal.max(axis=1) * np.sqrt(len(x)) > _RELEVANT)
    score, correlation = correlation[relevant, -1], correlation[np.ix_(relevant, relevant)]
    best, most = np.zeros(len(relevant)), max(float(np.linalg.eigvalsh(correlation)[0]), 0.0)
    for share in np.linspace(0.0, most, _SHARES):
        b = solve(correlation, score, len(x), share)
        # the variance of the output that neither t nor noise in x explains
        identified = bool(1.0 - 2.0 * b @ score + b @ correlation @ b - share * b @ b >= 0.0)
        if not identified:
            break
        best = b
    coefficients = np.zeros(x.shape[1])
    coefficients[columns[relevant]] = best * scale[-1] / scale[relevant]
    return coefficients, identified
