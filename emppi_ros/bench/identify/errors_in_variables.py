"""
Regression with noisy inputs by taking their noise out of the covariance.

Least squares of noisy inputs x = t + e underestimates, as cov(x) = cov(t) + cov(e). Inputs that
hang together show how much: along some direction t hardly varies, and what is left there is noise.
So, with inputs of variance 1 whose noise is a like share of each, that share is at most the
smallest eigenvalue of their correlation matrix. It also must not explain more of the output than
the inputs leave open (Frisch 1934): where that bound is the lower one, inputs do not hang together
enough for it to be told. The sampling error of the correlation matrix is weighed as Tikhonov does.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from emppi_ros.bench.identify.regression_inputs import Scaled, base, check, related, standardize

Array = npt.NDArray[np.float64]
_SHARES = 50  # of noise that are tried


class Corrected(NamedTuple):
    """Coefficients for noiseless inputs, and what they come from."""

    coefficients: Array  # (d,) zero for inputs that are redundant or not related
    columns: npt.NDArray[np.intp]  # inputs that were used
    noise: float  # share of their variance
    certain: bool  # false: inputs do not tell their noise, and this is but its bound


def solve(correlation: Array, with_output: Array, rows: int, noise: float) -> Array:
    """
    Return coefficients (d,) with a share of noise taken out of the correlation matrix.

    They minimize E |(S + E - noise I) b - c|^2 over errors E of a sample correlation matrix S of
    `rows` normal samples, for which E[E^2] = (S^2 + tr(S) S) / rows (Wishart).
    """
    values, vectors = np.linalg.eigh(correlation)
    signal = values - noise
    error = values * (values + values.sum()) / rows
    return vectors @ (signal / (signal**2 + error) * (vectors.T @ with_output))


def correct(scaled: Scaled) -> tuple[Array, float, bool]:
    """Return coefficients (d,) in standardized units, the share of noise, and if it is certain."""
    rows = len(scaled.x)
    correlation = scaled.x.T @ scaled.x / rows
    with_output = scaled.y @ scaled.x / rows

    def unexplained(noise: float) -> float:
        """Return the variance of the output that neither t nor noise in x explains."""
        b = solve(correlation, with_output, rows, noise)
        return float(1.0 - 2.0 * b @ with_output + b @ correlation @ b - noise * b @ b)

    most = max(float(np.linalg.eigvalsh(correlation)[0]), 0.0)
    # not monotonic, for what is uncertain is weighed down: the first share that explains all
    shares = np.linspace(0.0, most, _SHARES)
    beyond = next((i for i, share in enumerate(shares) if unexplained(share) < 0.0), None)
    if beyond is not None:
        most = brentq(unexplained, *shares[beyond - 1 : beyond + 1]) if beyond else 0.0
    return solve(correlation, with_output, rows, most), most, beyond is None


def regress(x: Array, y: Array) -> Corrected:
    """
    Return coefficients for noiseless inputs from noisy ones.

    Parameters
    ----------
    x : (n, d) array
        Noisy inputs, of which some may be combinations of others, or have nothing to do with y.
    y : (n,) array
        Noisy output.

    Returns
    -------
    Corrected
        In the units of x and y.

    Raises
    ------
    IdentificationError
        If x or y is no data to learn from.

    """
    check(x, y)
    columns = base(x)
    scaled = standardize(x[:, columns], y)
    kept = related(scaled)
    found, noise, certain = correct(Scaled(scaled.x[:, kept], scaled.y, scaled.unit[kept]))
    coefficients = np.zeros(x.shape[1])
    coefficients[columns[kept]] = found * scaled.unit[kept]
    return Corrected(coefficients, columns[kept], noise, certain)
