r"""
Covariance of the parameters that allows for errors of the model.

White noise gives H^-1. Errors of a model are correlated, over the samples of a window and beyond,
and then the covariance is H^-1 S H^-1 (White 1982), where S is the covariance of the sum of the
scores of the windows, with Bartlett weights for those that follow one another (Newey and West
1987). In no direction is S taken to be less than H.
"""

import numpy as np
import numpy.typing as npt
import scipy.linalg

from emppi_ros.identify.shooting.estimation import ShootingEstimate

Array = npt.NDArray[np.float64]
_RATE = 2.0 / 9.0  # of the number of lags (Newey and West 1994)


def covariance(result: ShootingEstimate) -> Array:
    """Return the covariance (P, P) in the scales, with a prior variance of one."""
    information, scores = result.information, result.scores
    count, size = scores.shape
    sums = score_covariance(scores, result.windows.recordings)
    sums *= count / max(count - size, 1)
    bounded = information + np.eye(size)  # with the prior
    inverse = np.linalg.inv(bounded)
    sums = _at_least(sums + np.eye(size), bounded)
    found: Array = inverse @ sums @ inverse
    return found


def score_covariance(scores: Array, recordings: npt.NDArray[np.int_]) -> Array:
    """Return the covariance (P, P) of the sum of scores (W, P)."""
    lags = int(4.0 * (len(scores) / 100.0) ** _RATE)
    total = scores.T @ scores
    for recording in np.unique(recordings):
        own = scores[recordings == recording]
        for lag in range(1, min(lags, len(own) - 1) + 1):
            product = own[lag:].T @ own[:-lag]
            total = total + (1.0 - lag / (lags + 1.0)) * (product + product.T)
    return np.asarray(total)


def _at_least(matrix: Array, least: Array) -> Array:
    """Return a matrix (P, P) whose quadratic form is nowhere below that of another one."""
    ratios, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T), least)
    basis = least @ vectors  # vectors' least vectors = 1
    return np.asarray(basis @ np.diag(np.maximum(ratios, 1.0)) @ basis.T)
