"""
Problems of mechanisms that the model explains only over short windows.

Continuity over a whole recording then contradicts the measurements: no particle is near them, and
all end in local minima. Windows of the length that the model explains stay independent instead,
and errors of the model count as noise. They are correlated within a window, which white noise of
their size would ignore: noise is larger by the factor with which the trace of the posterior
covariance is that of the estimator for wrong models (White 1982; magnitude adjustment of composite
likelihoods, Ribatet, Cooley and Davison, Statistica Sinica 2012).
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.csvgd.particle_start import ParticleStart
from emppi_ros.identify.csvgd.recordings import TrainingData
from emppi_ros.identify.csvgd.shooting import MultipleShooting
from emppi_ros.identify.csvgd.target_density import evaluate
from emppi_ros.identify.csvgd.window_search import WindowEstimate
from emppi_ros.identify.shooting.uncertainty import score_covariance

Array = npt.NDArray[np.float64]


def separate(data: TrainingData, estimate: WindowEstimate, threads: int = 0) -> TrainingData:
    """Return the problem of independent windows, with the estimate from which particles begin."""
    problem = replace(data.problem, continuous=False)
    shooter = MultipleShooting(problem, 1, estimate.windows, threads)
    windows = shooter.simulate(estimate.z[None])
    measured = np.isfinite(problem.noise)
    seen = np.isfinite(np.broadcast_to(shooter.noise, windows.states.shape[1:]))[..., measured]
    errors = (windows.states - shooter.measurements()[0])[0][..., measured]
    spare = 1.0 - shooter.size / np.sum(seen)
    sd = np.sqrt(np.sum(errors**2, axis=(0, 1), where=seen) / (spare * np.sum(seen, axis=(0, 1))))
    weights = seen / sd
    slopes = np.moveaxis(windows.slopes[0][..., measured] * weights, 0, -1)
    count, unknown = estimate.windows, shooter.unknown
    flat = slopes.reshape(count, -1, slopes.shape[-1])
    recordings = np.searchsorted(shooter.firsts, np.arange(count), 'right') - 1
    factor = _noise_factor(flat[..., :unknown], flat[..., unknown:],
                           (errors * weights).reshape(count, -1), recordings)  # fmt: skip
    noise = problem.noise.copy()
    noise[measured] = factor * sd * problem.scale[measured]
    problem = replace(problem, noise=noise)
    one = MultipleShooting(problem, 1, count, threads)
    curvature = evaluate(one, estimate.z[None], 'product').curvature[0]
    parameters = np.arange(unknown)
    curvature[parameters, parameters] += 1.0  # of the uniform prior, as a variance
    note = (
        f'{estimate.note(data)}; noise includes errors of the model, and a factor of {factor:.2g}'
    )
    return replace(
        data,
        problem=problem,
        windows=count,
        begin=ParticleStart(estimate.z, np.linalg.inv(curvature)),
        notes=(note,),
    )


def _noise_factor(
    by_parameter: Array, by_start: Array, errors: Array, recordings: npt.NDArray[np.int_]
) -> float:
    """
    Return the factor on the noise of errors (W, n), at least 1.

    Derivatives are those by the parameters (W, n, P), and by the start of each window (W, n, S),
    which is eliminated.
    """
    basis, _ = np.linalg.qr(by_start)
    across = by_parameter - basis @ (basis.swapaxes(1, 2) @ by_parameter)
    scores = (across.swapaxes(1, 2) @ errors[..., None])[..., 0]
    size = scores.shape[1]
    information = np.einsum('wnp,wnq->pq', across, across) + np.eye(size)
    sums = score_covariance(scores, recordings) * len(scores) / max(len(scores) - size, 1)
    return float(np.sqrt(max(np.trace(np.linalg.solve(information, sums)) / size, 1.0)))
