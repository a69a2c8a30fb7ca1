"""
Problems of mechanisms that the model explains only over short windows.

Windows of the length that the model explains stay independent, and errors of the model count as
noise. They are correlated within a window, which white noise of their size would ignore: noise is
larger by the factor with which the trace of the posterior covariance is that of the estimator for
wrong models (White 1982; magnitude adjustment of composite likelihoods, Ribatet, Cooley and
Davison, Statistica Sinica 2012).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.identification.multiple_shooting.particles import MultipleShooting, evaluate
from emppi_ros.identification.multiple_shooting.training_data import TrainingData
from emppi_ros.identification.multiple_shooting.window_search import (
    ResidualFunction,
    WindowEstimate,
)
from emppi_ros.identification.multiple_shooting.windows import score_covariance

_MOST_FITS = 20  # with noise that is the size of the errors that the fit before left
_SETTLED = 0.01  # relative change of the noise
_FLOOR = 1e-9  # of the spread of a component: the least noise
_LEAST_SPARE = 0.1  # share of measurements that unknowns leave as degrees of freedom


class _Errors(NamedTuple):
    """Errors of W windows, and their derivatives, in units of their standard deviations."""

    sd: Array  # (k,) of the measured components, in units of the states' spread
    values: Array  # (W, n)
    slopes: Array  # (W, n, P + S)


def separate(data: TrainingData, estimate: WindowEstimate, threads: int = 0) -> TrainingData:
    """Return the problem of independent windows, with the estimate from which particles begin."""
    problem = replace(data.problem, continuous=False)
    measured, count, z = np.isfinite(problem.noise), estimate.windows, estimate.z
    for _ in range(_MOST_FITS):
        shooter = MultipleShooting(problem, 1, count, threads)
        errors = _errors(shooter, z, measured)
        noise = problem.noise.copy()
        noise[measured] = errors.sd * problem.scale[measured]
        settled = np.allclose(noise[measured], problem.noise[measured], rtol=_SETTLED)
        problem = replace(problem, noise=noise)
        if settled:
            break
        residuals = ResidualFunction(MultipleShooting(problem, 1, count, threads), 0.0)
        residuals.search(z, lambda *_: None)
        z = residuals.z
    recordings = np.searchsorted(shooter.firsts, np.arange(count), 'right') - 1
    factor = _noise_factor(errors, shooter.unknown, recordings)
    problem = replace(problem, noise=factor * problem.noise)
    shooter = MultipleShooting(problem, 1, count, threads, precise=True)
    curvature = evaluate(shooter, z[None]).curvature[0]
    parameters = np.arange(shooter.unknown)
    curvature[parameters, parameters] += 1.0  # of the uniform prior, as a variance
    note = (
        f'{estimate.note(data)}; noise includes errors of the model, and a factor of '
        f'{factor:.2g} because they are correlated'
    )
    begin = z, np.linalg.inv(curvature)
    return replace(data, problem=problem, windows=count, begin=begin, note=note)


def _errors(shooter: MultipleShooting, z: Array, measured: Bools) -> _Errors:
    """Return the errors of the measured components (nq + nv,) at a point (D,)."""
    windows = shooter.simulate(z[None])
    counted = np.isfinite(shooter.noise[..., measured])
    errors = (windows.states - shooter.measurements)[0][..., measured]
    spare = max(1.0 - shooter.size / np.sum(counted), _LEAST_SPARE)
    squares = np.sum(errors**2, axis=(0, 1), where=counted)
    sd = np.maximum(np.sqrt(squares / (spare * np.sum(counted, axis=(0, 1)))), _FLOOR)
    weights = counted / sd
    slopes = np.moveaxis(windows.slopes[0][..., measured] * weights, 0, -1)
    count = shooter.windows
    return _Errors(
        sd, (errors * weights).reshape(count, -1), slopes.reshape(count, -1, slopes.shape[-1])
    )


def _noise_factor(errors: _Errors, unknown: int, recordings: Ints) -> float:
    """Return the factor on the noise, at least 1; starts of windows are eliminated."""
    by_parameter, by_start = np.split(errors.slopes, [unknown], axis=-1)
    basis, _ = np.linalg.qr(by_start)
    across = by_parameter - basis @ (basis.swapaxes(1, 2) @ by_parameter)
    scores = (across.swapaxes(1, 2) @ errors.values[..., None])[..., 0]
    information = np.einsum('wnp,wnq->pq', across, across) + np.eye(unknown)
    sums = score_covariance(scores, recordings) * len(scores) / max(len(scores) - unknown, 1)
    return float(np.sqrt(max(np.trace(np.linalg.solve(information, sums)) / unknown, 1.0)))
