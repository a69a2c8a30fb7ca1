"""States at the starts of windows that explain their measurements best, by Gauss-Newton."""

import numpy as np

from emppi_ros.core.arrays import Array, Ints
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting import windows as cuts
from emppi_ros.identification.multiple_shooting.simulation import (
    STEP,
    Inputs,
    make_ensemble,
    perturb_starts,
    roll_out,
)
from emppi_ros.identification.multiple_shooting.windows import Windows
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.recordings.motion import Motion

FREEDOM = 4.0  # degrees of freedom of Student's t: outliers count less, at 7 % more variance
_ITERATIONS = 3  # with each part of a window
_RIDGE = 1e-9  # of the information: components that a window does not show stay


def student_weights(errors: Array, scale: Array) -> Array:
    """Return the weights (W, h, nv) of squared errors by Student's t, at most about 1."""
    return (FREEDOM + 1.0) / (FREEDOM + (errors / scale) ** 2)


def fit_starts(
    plant: Plant,
    thetas: Array,
    scale: Array,
    motion: Motion,
    begins: Ints,
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
    begin = perturb_starts(starts, 0).reshape(-1, count, states)
    reached, diverged = roll_out(ensemble, Inputs.of_motion(motion), windows.steps, begin)
    if diverged.any():
        return None
    positions = reached[..., : states // 2]
    positions = positions.reshape(samples, 1 + states, count, windows.length, -1)
    root = windows.observed[:, 1:] / scale
    errors = positions[:, 0] - windows.measured[:, 1:]
    scaled, weight = root * errors, np.sqrt(student_weights(errors, scale))
    slopes = root * weight * np.moveaxis(positions[:, 1:] - positions[:, :1], 1, 0) / STEP
    flat = np.moveaxis(slopes, 0, -1).reshape(samples, count, -1, states)
    residual = (weight * scaled).reshape(samples, count, -1, 1)
    transposed = flat.swapaxes(-1, -2)
    gram = transposed @ flat
    ridge = _RIDGE * np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    gram = gram + ridge * np.eye(states)
    return starts - np.linalg.solve(gram, transposed @ residual)[..., 0], gram
