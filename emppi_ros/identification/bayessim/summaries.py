"""
Summaries of trajectories: vectors of fixed length from which a density of parameters is learned.

The four kinds of Heiden et al. (2022), supplement 2.4.1. Each maps trajectories (N, T, D), whose
D components are in comparable units, to features (N, F). To add one, register it in SUMMARIES.
"""

from collections.abc import Callable

import numpy as np

from emppi_ros.core.arrays import Array, Ints
from emppi_ros.core.errors import IdentificationError

SAMPLES = 20  # instants that are kept of a trajectory, as in 400 steps of which every 20th is used
DELAYS = 5, 10, 20, 50, 100  # of autocorrelations, in steps of 1/400 of a trajectory
_DELAY_UNIT = 400
_VARIANCE = 1e-12  # of a component that does not move


def downsampled(trajectories: Array) -> Array:
    """Return the states at SAMPLES evenly spaced instants, the last of them included."""
    return _flat(trajectories[:, _instants(trajectories.shape[1])])


def difference(trajectories: Array) -> Array:
    """Return differences at SAMPLES instants, mean and variance (Ramos et al. 2019, eq. 22)."""
    steps = np.diff(trajectories, axis=1)
    chosen = steps[:, _instants(steps.shape[1])]
    return np.concatenate([_flat(chosen), steps.mean(axis=1), steps.var(axis=1)], axis=1)


def statistics(trajectories: Array) -> Array:
    """Return means, variances, cross-correlations of components, and autocorrelations."""
    count = trajectories.shape[1]
    mean, variance = trajectories.mean(axis=1), trajectories.var(axis=1)
    normal = (trajectories - mean[:, None]) / np.sqrt(variance + _VARIANCE)[:, None]
    rows, columns = np.triu_indices(trajectories.shape[2], 1)
    cross = np.einsum('nti,ntj->nij', normal, normal)[:, rows, columns] / count
    delays = sorted({max(1, round(delay * count / _DELAY_UNIT)) for delay in DELAYS})
    auto = [np.mean(normal[:, delay:] * normal[:, :-delay], axis=1) for delay in delays]
    return np.concatenate([mean, variance, cross, *auto], axis=1)


def signature(trajectories: Array) -> Array:
    """
    Return the path signature to depth 3 of each trajectory, with time as a component of the path.

    The signature of a piecewise linear path is the product of those of its pieces (Chen 1958),
    that of a piece with increment d is (1, d, d x d / 2, d x d x d / 6). The path is that through
    the instants of `downsampled`, from the origin, so that its start counts, too.
    """
    number, _, size = trajectories.shape
    points = trajectories[:, _instants(trajectories.shape[1])]
    time = np.broadcast_to(np.linspace(0.0, 1.0, points.shape[1])[:, None], (*points.shape[:2], 1))
    path = np.concatenate([time, points], axis=2)
    increments = np.diff(path, axis=1, prepend=np.zeros((number, 1, size + 1)))
    first, second, third = (np.zeros((number, *depth * [size + 1])) for depth in (1, 2, 3))
    for d in np.moveaxis(increments, 1, 0):
        square = d[:, :, None] * d[:, None, :]
        cube = square[..., None] * d[:, None, None, :]
        third += (
            second[..., None] * d[:, None, None, :]
            + first[:, :, None, None] * square[:, None] / 2.0
            + cube / 6.0
        )
        second += first[:, :, None] * d[:, None, :] + square / 2.0
        first += d
    return np.concatenate([first, _flat(second), _flat(third)], axis=1)


def _instants(count: int) -> Ints:
    """Return the indices of SAMPLES of so many steps, or of all if there are fewer."""
    ends = np.linspace(0.0, count, min(SAMPLES, count) + 1)[1:]
    return np.round(ends).astype(int) - 1


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


SUMMARIES: dict[str, Callable[[Array], Array]] = {
    'downsampled': downsampled,
    'difference': difference,
    'statistics': statistics,
    'signature': signature,
}


def check_length(steps: int) -> None:
    """Raise IdentificationError if trajectories are too short for their statistics."""
    if steps < SAMPLES:
        raise IdentificationError(
            f'the part that is used has {steps} samples at steps of the model; a summary needs at '
            f'least {SAMPLES}: use a longer --duration, or a smaller --step'
        )
