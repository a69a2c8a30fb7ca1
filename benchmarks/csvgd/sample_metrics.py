"""Distances between sets of samples: the paper's metrics of posteriors (Heiden et al. 2022)."""

import math

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError

NEIGHBOURS = 3  # k of the paper; less biased than 1


def knn_kl(p: Array, q: Array, neighbours: int = NEIGHBOURS) -> float:
    """
    Estimate KL(p || q) [nats] from samples p (N, D) and q (M, D) by nearest neighbours.

    The estimator of Wang, Kulkarni and Verdu (2009); Heiden et al. (2022), supplement, eq. 3.
    Infinite if neighbours in p coincide: a collapsed posterior has no density.
    IdentificationError if there are too few samples.
    """
    if min(len(p) - 1, len(q)) < neighbours:
        raise IdentificationError(
            f'KL divergence: found {len(p)} and {len(q)} samples; '
            f'{neighbours} neighbours need at least {neighbours + 1} and {neighbours}'
        )
    within = cKDTree(p).query(p, k=neighbours + 1)[0][:, -1]  # the nearest is the point itself
    across = cKDTree(q).query(p, k=[neighbours])[0][:, -1]
    if np.any(within == 0.0):
        return math.inf
    ratio = np.mean(np.log(across / within))
    return float(p.shape[1] * ratio + np.log(len(q) / (len(p) - 1)))


def squared_mmd(p: Array, q: Array) -> float:
    """
    Return the unbiased squared maximum mean discrepancy of samples p (N, D) and q (M, D).

    The kernel is exp(-|x - y|^2 / h) (Gretton et al. 2012, eq. 3). h is the median squared
    distance in q, the reference, so that all posteriors are compared with the same kernel.
    """
    q_apart = cdist(q, q, 'sqeuclidean')
    bandwidth = float(np.median(q_apart[np.triu_indices(len(q), 1)]))
    apart = cdist(p, p, 'sqeuclidean'), q_apart, cdist(p, q, 'sqeuclidean')
    pp, qq, pq = (np.exp(-d / bandwidth) for d in apart)
    return float(
        (pp.sum() - len(p)) / (len(p) * (len(p) - 1))
        + (qq.sum() - len(q)) / (len(q) * (len(q) - 1))
        - 2.0 * pq.mean()
    )


def log_density(measured: Array, simulated: Array) -> float:
    """
    Return the mean log density [nats a number] of a measurement (D,) in a mixture of predictions.

    The mixture has a standard normal at each of the simulated (N, D): both are in units of the
    noise, and so is the density.
    """
    squares = np.sum((simulated - measured) ** 2, axis=1)
    mixture = logsumexp(-0.5 * squares) - np.log(len(simulated))
    return float(mixture / len(measured) - 0.5 * np.log(2.0 * np.pi))
