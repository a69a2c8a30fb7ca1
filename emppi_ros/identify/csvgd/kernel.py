"""Stein's direction: particles climb a density together, and keep a distance."""

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

Array = npt.NDArray[np.float64]
_CLOSEST = 1e-12  # of a bandwidth: particles in one place repel nobody


def squared_distances(x: Array, y: Array) -> Array:
    """Return the squared distances (N, M) between the rows of x (N, D) and of y (M, D)."""
    return cdist(x, y, 'sqeuclidean')


def median_bandwidth(x: Array) -> float:
    """Return h of exp(-|x - y|^2 / h): the median heuristic of Liu and Wang (2016), for (N, D)."""
    apart = squared_distances(x, x)[np.triu_indices(len(x), 1)]
    return max(float(np.median(apart)) / np.log(len(x)), _CLOSEST) if len(x) > 1 else 1.0


def rbf(x: Array, bandwidth: float) -> tuple[Array, Array]:
    """
    Return the kernel (N, N) of all pairs, and what drives particles apart (N, D).

    The second is the sum over j of the derivative of k(x_j, x_i) by x_j.
    """
    kernel = np.exp(-squared_distances(x, x) / bandwidth)
    return kernel, (2.0 / bandwidth) * (kernel.sum(axis=1)[:, None] * x - kernel @ x)


def direction(x: Array, score: Array, bandwidth: float | None = None) -> Array:
    """
    Return the direction (N, D) in which SVGD moves particles (Liu and Wang 2016, eq. 8).

    Parameters
    ----------
    x, score : (N, D) arrays
        Particles, and the derivatives of the log density there.
    bandwidth : float
        Of the kernel exp(-|x - y|^2 / h); by the median heuristic if None.

    """
    kernel, apart = rbf(x, median_bandwidth(x) if bandwidth is None else bandwidth)
    return (kernel @ score + apart) / len(x)
