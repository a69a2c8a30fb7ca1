"""
Errors-in-variables regression: subtract the noise of the inputs from their covariance.

Least squares on noisy inputs x = t + e is biased towards zero, as cov(x) = cov(t) + cov(e). If
inputs are correlated, t hardly varies along some direction, and the variance there is noise. So
for standardized inputs with equal shares of noise, that share is at most the smallest eigenvalue
of their correlation matrix. It also must not explain more of the output than the inputs leave open
(Frisch 1934); if that bound is the lower one, the noise is not identifiable. The sampling error of
the correlation matrix is regularized as by Tikhonov.

Select the inputs first:

>>> columns = independent_columns(x)             # without redundant inputs
>>> scaled = standardize(x[:, columns], y)
>>> columns = columns[relevant_columns(scaled)]  # without pure noise
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.optimize import brentq
import scipy.stats

from emppi_ros.core.errors import IdentificationError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
_RANK = 1e-8  # relative to the largest column: smaller is rounding
_FALSE_POSITIVE_RATE = 0.01  # probability that any noise input is kept
_SHARES = 50  # candidate shares of noise


class StandardizedData(NamedTuple):
    """Inputs and output with mean 0 and variance 1, and the unit of coefficients."""

    x: Array  # (n, d)
    y: Array  # (n,)
    unit: Array  # (d,) of coefficients: sd of y over sd of x


def check_data(x: Array, y: Array) -> None:
    """Raise IdentificationError unless x (n, d) and y (n,) are valid data."""
    if x.ndim != 2 or y.shape != x.shape[:1] or not x.size:
        raise IdentificationError(
            f'inputs {x.shape} and output {y.shape} do not match: expected (n, d) and (n,)'
        )
    for name, values in (('inputs', x), ('output', y)):
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise IdentificationError(f'{name}: row {row} is not finite')
    if np.ptp(y) == 0.0:
        raise IdentificationError('output: never changes, so nothing can be learned')


def standardize(x: Array, y: Array) -> StandardizedData:
    """Return standardized inputs (n, d) and output (n,); constant inputs are errors."""
    check_data(x, y)
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0.0)
    if len(constant):
        raise IdentificationError(f'inputs: columns {constant.tolist()} never change')
    unit = y.std() / x.std(axis=0)
    return StandardizedData((x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std(), unit)


def independent_columns(x: Array) -> Indices:
    """
    Return linearly independent columns of x (n, d) that span all others, in ascending order.

    QR with pivoting picks the largest remaining column at each step. If redundant inputs are
    convex combinations of others, as in the benchmark of Ting et al. (2006), it picks the others,
    which are larger. For the regressor of a robot it returns base parameters.
    """
    moving = x - x.mean(axis=0)
    if not np.any(moving):
        raise IdentificationError('inputs: none changes: record more motion')
    r, pivots = scipy.linalg.qr(moving, mode='r', pivoting=True)
    sizes = np.abs(np.diag(r))
    return np.sort(pivots[: len(sizes)][sizes > _RANK * sizes[0]])


def relevant_columns(scaled: StandardizedData) -> Indices:
    """
    Return inputs that correlate with another one or with the output; the others are noise.

    Fisher's z of a zero correlation is normal with variance 1 / (n - 3); the significance level is
    corrected for all pairs (Bonferroni). If no input is relevant, all are returned.
    """
    n, d = scaled.x.shape
    together = np.column_stack([scaled.x, scaled.y])
    correlation = np.abs(together.T @ together) / n
    np.fill_diagonal(correlation, 0.0)
    pairs = d * (d + 1) / 2
    least = np.tanh(
        scipy.stats.norm.isf(_FALSE_POSITIVE_RATE / pairs / 2) / np.sqrt(max(n - 3, 1))
    )
    relevant = np.flatnonzero(correlation[:d].max(axis=1) > least)
    return relevant if len(relevant) else np.arange(d)


class ErrorsInVariablesFit(NamedTuple):
    """Coefficients for noiseless inputs."""

    coefficients: Array  # (d,) zero for redundant and irrelevant inputs
    columns: npt.NDArray[np.intp]  # of the inputs that were used
    noise: float  # share of the variance of inputs
    certain: bool  # whether the noise is identified; if not, it is an upper bound


def solve_with_noise(correlation: Array, with_output: Array, rows: int, noise: float) -> Array:
    """
    Return coefficients (d,) with a share of noise subtracted from the correlation matrix.

    They minimize E |(S + E - noise I) b - c|^2 over errors E of a sample correlation matrix S of
    `rows` normal samples, for which E[E^2] = (S^2 + tr(S) S) / rows (Wishart).
    """
    values, vectors = np.linalg.eigh(correlation)
    signal = values - noise
    error = values * (values + values.sum()) / rows
    return vectors @ (signal / (signal**2 + error) * (vectors.T @ with_output))


def fit_standardized(scaled: StandardizedData) -> tuple[Array, float, bool]:
    """Return standardized coefficients (d,), the noise share, and whether it is identified."""
    rows = len(scaled.x)
    correlation = scaled.x.T @ scaled.x / rows
    with_output = scaled.y @ scaled.x / rows

    def unexplained(noise: float) -> float:
        """Return the variance of the output that neither t nor noise in x explains."""
        b = solve_with_noise(correlation, with_output, rows, noise)
        return float(1.0 - 2.0 * b @ with_output + b @ correlation @ b - noise * b @ b)

    most = max(float(np.linalg.eigvalsh(correlation)[0]), 0.0)
    # not monotonic because of the regularization: use the first root
    shares = np.linspace(0.0, most, _SHARES)
    beyond = next((i for i, share in enumerate(shares) if unexplained(share) < 0.0), None)
    if beyond is not None:
        most = brentq(unexplained, *shares[beyond - 1 : beyond + 1]) if beyond else 0.0
    return solve_with_noise(correlation, with_output, rows, most), most, beyond is None


def regress(x: Array, y: Array) -> ErrorsInVariablesFit:
    """
    Return coefficients for noiseless inputs, in the units of noisy data x (n, d) and y (n,).

    Inputs may be redundant or irrelevant. IdentificationError if the data are invalid.
    """
    check_data(x, y)
    columns = independent_columns(x)
    scaled = standardize(x[:, columns], y)
    relevant = relevant_columns(scaled)
    weights, noise, certain = fit_standardized(
        StandardizedData(scaled.x[:, relevant], scaled.y, scaled.unit[relevant])
    )
    coefficients = np.zeros(x.shape[1])
    coefficients[columns[relevant]] = weights * scaled.unit[relevant]
    return ErrorsInVariablesFit(coefficients, columns[relevant], noise, certain)
