"""How far two sets of samples are from one another: KL divergence, MMD, log-likelihood."""

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.csvgd.svgd import squared_distances

Array = npt.NDArray[np.float64]
NEIGHBOURS = 3  # k of the paper: less biased than 1, and few samples suffice


def knn_kl(p: Array, q: Array, neighbours: int = NEIGHBOURS) -> float:
    """
    Estimate KL(p || q) from samples p (N, D) and q (M, D) by nearest neighbours.

    The estimator of Wang, Kulkarni and Verdu (2009); Heiden et al. (2022), supplement, eq. 3.

    Returns
    -------
    float
        Infinite if neighbours in p coincide, so that it has no density: a collapsed posterior.

    """
    if min(len(p) - 1, len(q)) < neighbours:
        raise IdentificationError(
            f'KL divergence: found {len(p)} and {len(q)} samples; '
            f'{neighbours} neighbours need at least {neighbours + 1} and {neighbours}'
        )
    within = cKDTree(p).query(p, k=neighbours + 1)[0][:, -1]  # the nearest is the point itself
    across = cKDTree(q).query(p, k=[neighbours])[0][:, -1]
    if np.any(within == 0.0):
        return np.inf
    ratio = np.mean(np.log(across / within))
    return float(p.shape[1] * ratio + np.log(len(q) / (len(p) - 1)))


def mmd(p: Array, q: Array, bandwidth: float | None = None) -> float:
    """
    Return the squared maximum mean discrepancy of samples p (N, D) and q (M, D), unbiased.

    With the kernel exp(-|x - y|^2 / h) (Gretton et al. 2012, eq. 3); if h is None it is the
    median of the squared distances in q, the reference: all posteriors meet the same kernel.
    """
    q_apart = squared_distances(q, q)
    if bandwidth is None:
        bandwidth = float(np.median(q_apart[np.triu_indices(len(q), 1)]))
    pp, qq, pq = (np.exp(-d / bandwidth) for d in (squared_distances(p, p), q_apart,
                                                   squared_distances(p, q)))  # fmt: skip
    return float(
        (pp.sum() - len(p)) / (len(p) * (len(p) - 1))
        + (qq.sum() - len(q)) / (len(q) * (len(q) - 1))
        - 2.0 * pq.mean()
    )


def log_density(references: Array, simulated: Array, noise: float) -> float:
    """
    Return the mean log density of references (R, D) under a mixture of Gaussians.

    One Gaussian with the standard deviation `noise` in every dimension sits at each of the
    simulated (N, D). Per dimension, so that it is comparable across lengths.
    """
    dims = references.shape[1]
    log_p = -0.5 * squared_distances(references, simulated) / noise**2
    mixture = logsumexp(log_p, axis=1) - np.log(len(simulated))
    return float(np.mean(mixture) / dims - np.log(noise) - 0.5 * np.log(2.0 * np.pi))
