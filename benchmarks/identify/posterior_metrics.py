"""Distances between sample sets, and comparison of predictions on held-out motions."""

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from benchmarks.identify.csvgd_systems import rollout
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.csvgd.problem import ShootingProblem

Array = npt.NDArray[np.float64]
NEIGHBOURS = 3  # k of the paper; less biased than 1
STARTS = 10  # held-out trajectories
DRAWS = 8  # repetitions with other starts and noise, for a standard error
_START_SD = 0.1  # rad or m, of starting positions about that of training
_STRIDE = 5  # compare every n-th step


def knn_kl(p: Array, q: Array, neighbours: int = NEIGHBOURS) -> float:
    """
    Estimate KL(p || q) from samples p (N, D) and q (M, D) by nearest neighbors.

    The estimator of Wang, Kulkarni and Verdu (2009); Heiden et al. (2022), supplement, eq. 3.
    Infinite if neighbors in p coincide (a collapsed posterior has no density).
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
    Return the unbiased squared maximum mean discrepancy of samples p (N, D) and q (M, D).

    The kernel is exp(-|x - y|^2 / h) (Gretton et al. 2012, eq. 3). By default h is the median
    squared distance in q, the reference, so that all posteriors are compared with the same kernel.
    """
    q_apart = cdist(q, q, 'sqeuclidean')
    if bandwidth is None:
        bandwidth = float(np.median(q_apart[np.triu_indices(len(q), 1)]))
    apart = cdist(p, p, 'sqeuclidean'), q_apart, cdist(p, q, 'sqeuclidean')
    pp, qq, pq = (np.exp(-d / bandwidth) for d in apart)
    return float(
        (pp.sum() - len(p)) / (len(p) * (len(p) - 1))
        + (qq.sum() - len(q)) / (len(q) * (len(q) - 1))
        - 2.0 * pq.mean()
    )


def log_density(references: Array, simulated: Array, noise: float) -> float:
    """
    Return the mean log density of references (R, D) under a mixture of Gaussians.

    The mixture has one Gaussian with standard deviation `noise` at each of the simulated (N, D).
    The result is divided by D, so that it is comparable across trajectory lengths.
    """
    dims = references.shape[1]
    log_p = -0.5 * cdist(references, simulated, 'sqeuclidean') / noise**2
    mixture = logsumexp(log_p, axis=1) - np.log(len(simulated))
    return float(np.mean(mixture) / dims - np.log(noise) - 0.5 * np.log(2.0 * np.pi))


def compare_predictions(
    problem: ShootingProblem, truth: Array, theta: Array, seed: int = 0
) -> dict[str, float]:
    """
    Return the difference of predictions of particles (N, P) from measurements of the truth (P,).

    Both are sets of noisy trajectories, in standard deviations of the noise, from starts near that
    of the training data; divergences are means over starts. Predictions get measurement noise,
    too, so a perfect posterior has a divergence of zero.
    """
    rng = np.random.default_rng([seed, 1])
    size = problem.model.nq
    rows: list[tuple[float, ...]] = []
    for _ in range(STARTS):
        start = problem.start.copy()
        start[:size] += _START_SD * rng.standard_normal(size)
        exact, clean = (_thinned(problem, each, start) for each in (truth[None], theta))
        clean = clean[np.isfinite(clean).all(axis=1)]
        # equal sizes: the same bias in both directions
        simulated = clean + rng.standard_normal(clean.shape)
        real = exact + rng.standard_normal(clean.shape)
        rows.append((
            knn_kl(real, simulated),
            knn_kl(simulated, real),
            mmd(simulated, real),
            log_density(real, clean, 1.0),
            float(np.sqrt(np.mean((clean - exact) ** 2))),
        ))  # fmt: skip
    names = 'kl_real_sim', 'kl_sim_real', 'mmd', 'log_density', 'error'
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def repeat_comparison(
    problem: ShootingProblem, truth: Array, theta: Array, seed: int = 0
) -> dict[str, Array]:
    """Return each metric (DRAWS,) for draws from `seed` on."""
    draws = [compare_predictions(problem, truth, theta, seed + draw) for draw in range(DRAWS)]
    return {name: np.array([draw[name] for draw in draws]) for name in draws[0]}


def mean_and_error(values: Array) -> tuple[float, float]:
    """Return the mean and its standard error."""
    with np.errstate(invalid='ignore'):  # infinite values have none
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _thinned(problem: ShootingProblem, theta: Array, start: Array) -> Array:
    """Return trajectories (N, D) in standard deviations of the noise."""
    states = rollout(problem.model, problem.parameters, theta, start, problem.controls)
    return (states[:, _STRIDE - 1 :: _STRIDE] / problem.noise).reshape(len(theta), -1)
