"""What a posterior says about motion that it has not seen, held against what happens."""

import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import sample_metrics
from emppi_ros.bench.identify.csvgd_systems import roll_out
from emppi_ros.identify.csvgd.problem import ShootingProblem

Array = npt.NDArray[np.float64]
STARTS = 10  # held-out trajectories
DRAWS = 8  # of such trajectories and their noise: one says less than methods differ
_FAR = 0.1  # rad or m, standard deviation of the starts' positions around the one for training
_THIN = 5  # one step of so many is compared


def compare(
    problem: ShootingProblem, truth: Array, theta: Array, seed: int = 0
) -> dict[str, float]:
    """
    Return how the predictions of particles (N, P) differ from measurements of the truth (P,).

    Both are sets of noisy trajectories, in standard deviations of the noise, from starts near
    the one of the training data; divergences are means over starts. Predictions get the noise
    of the measurements, so that a perfect posterior has a divergence of zero.
    """
    rng = np.random.default_rng([seed, 1])
    size = problem.model.nq
    rows: list[tuple[float, ...]] = []
    for _ in range(STARTS):
        start = problem.start.copy()
        start[:size] += _FAR * rng.standard_normal(size)
        exact, clean = (_thinned(problem, each, start) for each in (truth[None], theta))
        clean = clean[np.isfinite(clean).all(axis=1)]
        # sets of one size: the estimates' bias is the same both ways
        simulated = clean + rng.standard_normal(clean.shape)
        real = exact + rng.standard_normal(clean.shape)
        rows.append((
            sample_metrics.knn_kl(real, simulated),
            sample_metrics.knn_kl(simulated, real),
            sample_metrics.mmd(simulated, real),
            sample_metrics.log_density(real, clean, 1.0),
            float(np.sqrt(np.mean((clean - exact) ** 2))),
        ))  # fmt: skip
    names = 'kl_real_sim', 'kl_sim_real', 'mmd', 'log_density', 'error'
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def repeat(
    problem: ShootingProblem, truth: Array, theta: Array, seed: int = 0
) -> dict[str, Array]:
    """Return each of these differences (DRAWS,), of draws from `seed` on."""
    draws = [compare(problem, truth, theta, seed + draw) for draw in range(DRAWS)]
    return {name: np.array([draw[name] for draw in draws]) for name in draws[0]}


def mean(values: Array) -> tuple[float, float]:
    """Return the mean and its standard error."""
    with np.errstate(invalid='ignore'):  # of what is infinite there is none
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _thinned(problem: ShootingProblem, theta: Array, start: Array) -> Array:
    """Return trajectories (N, D) in standard deviations of the noise."""
    states = roll_out(problem.model, problem.parameters, theta, start, problem.controls)
    return (states[:, _THIN - 1 :: _THIN] / problem.noise).reshape(len(theta), -1)
