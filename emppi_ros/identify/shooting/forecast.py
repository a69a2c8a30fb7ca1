"""
Forecasts of the held-out part of a recording.

A forecast begins anew every HORIZON_S: from a state that is fitted to the measurements before it,
over a window as long as those that the parameters were learned from.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common.figures import HeldOutForecast
from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.shooting import windows as cuts
from emppi_ros.identify.shooting.estimation import FREEDOM, student_weights
from emppi_ros.identify.shooting.simulation import make_ensemble, roll_out
from emppi_ros.identify.shooting.windows import Windows
from emppi_ros.model.ensemble import Ensemble

Array = npt.NDArray[np.float64]
HORIZON_S = 0.5
_STEP = 1e-6
_ITERATIONS = 3  # of Gauss-Newton, with each part of a window
_RIDGE = 1e-9  # of the information: components that a window does not show stay


def forecast(
    plant: Plant,
    thetas: Array,
    scale: Array,
    known: Motion,
    later: Motion,
    length: int,
    seed: int,
    threads: int = 0,
) -> HeldOutForecast | None:
    """
    Return the forecast of measurements of `later`, which follows `known`.

    Parameters
    ----------
    plant : Plant
        The model.
    thetas : (N, P) array
        Samples of the parameters.
    scale : (nv,) array
        Scale of the errors of measurements, whose distribution is Student's t.
    known, later : Motion
        The parts of one recording.
    length : int
        Steps to which the state before a forecast is fitted.
    seed : int
        Source of the states at the start, and of the measurement noise that is added.
    threads : int
        Threads of the simulation; 0: all cores.

    Returns
    -------
    HeldOutForecast or None
        Forecasts one after the other; None if nothing is held out, or a simulation diverges.

    """
    step_s = plant.model.opt.timestep
    horizon = max(round(HORIZON_S / step_s), 1)
    count = min(later.steps // horizon, 1_000_000)
    if not count or known.steps <= length:
        return None
    whole = Motion(
        np.concatenate([known.qpos, later.qpos]),
        np.concatenate([known.weights, later.weights]),
        np.concatenate([known.ctrl, later.ctrl]),
        np.concatenate([known.applied, later.applied]),
    )
    begins = known.steps - 1 + horizon * np.arange(count)
    rng = np.random.default_rng(seed)
    fit = fit_starts(plant, thetas, scale, whole, begins - length, length, threads)
    if fit is None:
        return None
    mean, gram = fit
    root = np.linalg.cholesky(np.linalg.inv(gram))
    fitted = mean + (root @ rng.standard_normal((*mean.shape, 1)))[..., 0]
    windows = cuts.at_starts(whole, begins - length, length + horizon)
    ensemble = make_ensemble(plant, len(thetas), count, threads)
    ensemble.write(thetas)
    positions = roll_out(ensemble, whole, windows, fitted)
    if positions is None:
        return None
    future = positions[:, :, length:].reshape(len(thetas), count * horizon, -1)
    noise = rng.standard_t(FREEDOM, future.shape)
    measured = windows.measured[:, length + 1 :].reshape(count * horizon, -1)
    return HeldOutForecast.of_motion(plant.model, measured, future + scale * noise)


def inside(one: HeldOutForecast, share: float = 0.9) -> list[float]:
    """Return the share of measurements (Q,) inside the central bands of a forecast."""
    low, high = np.quantile(one.forecast, [0.5 - 0.5 * share, 0.5 + 0.5 * share], axis=0)
    hits: list[float] = np.mean((one.measured >= low) & (one.measured <= high), axis=0).tolist()
    return hits


def fit_starts(
    plant: Plant,
    thetas: Array,
    scale: Array,
    motion: Motion,
    begins: npt.NDArray[np.int_],
    length: int,
    threads: int = 0,
) -> tuple[Array, Array] | None:
    """
    Return the states (N, W, 2 nv) that explain windows best, for each sample of parameters.

    Windows of `length` steps begin at the steps `begins` (W,). The second array is the information
    (N, W, 2 nv, 2 nv) of these states. None if a simulation diverges.
    """
    states = 2 * plant.model.nv
    ensemble = make_ensemble(plant, len(thetas) * (1 + states), len(begins), threads)
    ensemble.write(np.repeat(thetas, 1 + states, axis=0))
    shortest = cuts.at_starts(motion, begins, min(length, cuts.shortest_length(motion)))
    starts = np.tile(cuts.guess_starts(shortest, plant.model.opt.timestep), (len(thetas), 1, 1))
    gram = np.empty(0)
    for part in _growing(shortest.length, length):
        windows = cuts.at_starts(motion, begins, part)
        for _ in range(_ITERATIONS):
            fitted = _fit_once(ensemble, motion, windows, starts, scale)
            if fitted is None:
                return None
            starts, gram = fitted
    return starts, gram


def _growing(first: int, last: int) -> list[int]:
    """Return lengths from the first to the last, each at most twice the one before."""
    lengths = [first]
    while lengths[-1] < last:
        lengths.append(min(2 * lengths[-1], last))
    return lengths


def _fit_once(
    ensemble: Ensemble, motion: Motion, windows: Windows, starts: Array, scale: Array
) -> tuple[Array, Array] | None:
    """Return the starts (N, W, 2 nv) after a Gauss-Newton step, and their information there."""
    samples, count, states = starts.shape
    begin = np.repeat(starts[:, None], 1 + states, axis=1)
    component = np.arange(states)
    begin[:, 1 + component, :, component] += _STEP
    found = roll_out(ensemble, motion, windows, begin.reshape(-1, count, states))
    if found is None:
        return None
    found = found.reshape(samples, 1 + states, count, windows.length, -1)
    root = windows.seen[:, 1:] / scale
    errors = found[:, 0] - windows.measured[:, 1:]
    left, weight = root * errors, np.sqrt(student_weights(errors, scale))
    slopes = root * weight * np.moveaxis(found[:, 1:] - found[:, :1], 1, 0) / _STEP
    flat = np.moveaxis(slopes, 0, -1).reshape(samples, count, -1, states)
    residual = (weight * left).reshape(samples, count, -1, 1)
    transposed = flat.swapaxes(-1, -2)
    gram = transposed @ flat
    ridge = _RIDGE * np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    gram = gram + ridge * np.eye(states)
    return starts - np.linalg.solve(gram, transposed @ residual)[..., 0], gram
