"""Recordings cut into windows of equal length, and first guesses of the states at their starts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings.motion import Motion

MIN_SAMPLES = 12  # in the shortest windows, of the joint with the fewest
_DEGREE = 3  # of the polynomial through a window that gives the guess of its start
_REWEIGHTED = 10  # times
_TINY = 1e-12  # rad or m
_CAUCHY = 3.5  # median absolute errors at which a sample counts half
_LAG_RATE = 2.0 / 9.0  # of the number of lags (Newey and West 1994)


@dataclass(frozen=True)
class Windows:
    """
    W windows of h steps, of one or more recordings.

    The start of a window is the configuration at its first step; the h next ones are compared.
    """

    measured: Array  # (W, 1 + h, nv) positions
    observed: Bools  # (W, 1 + h, nv) where they were measured
    steps: Ints  # (W, h) step of the motion at which each simulation step begins
    recordings: Ints  # (W,) index of the recording

    @property
    def count(self) -> int:
        """The number of windows, W."""
        return len(self.measured)

    @property
    def length(self) -> int:
        """The number of steps in each, h."""
        return self.steps.shape[1]


def cut(motion: Motion, length: int) -> Windows:
    """
    Return a motion in windows of `length` steps; the rest of each recording is left out.

    Consecutive windows share a configuration: the last one of a window is the start of the next.
    IdentificationError if a recording is shorter than a window.
    """
    first, owner = [], []
    for index, part in enumerate(motion.parts):
        count = (part.stop - part.start - 1) // length
        if count < 1:
            raise IdentificationError(
                f'{part.stop - part.start} steps of a recording are shorter than a window of '
                f'{length}'
            )
        first += [part.start + length * k for k in range(count)]
        owner += [index] * count
    return _at(motion, np.array(first), length, np.array(owner))


def at_starts(motion: Motion, starts: Sequence[int] | Ints, length: int) -> Windows:
    """Return the windows of one recording that start at the given steps."""
    return _at(motion, np.array(starts), length, np.zeros(len(starts), int))


def _at(motion: Motion, first: Ints, length: int, owner: Ints) -> Windows:
    rows = first[:, None] + np.arange(length + 1)
    return Windows(motion.qpos[rows], motion.observed[rows], rows[:, :-1], owner)


def shortest_length(motion: Motion) -> int:
    """Return the number of steps that hold MIN_SAMPLES samples of each joint."""
    shares = [motion.observed[part].mean(axis=0).min() for part in motion.parts]
    return int(np.ceil(MIN_SAMPLES / max(min(shares), 1e-6)))


def guess_starts(windows: Windows, step_s: float) -> Array:
    """
    Return positions and velocities (W, 2 nv) at the starts, by a polynomial through each one.

    It goes through the first MIN_SAMPLES samples. Where a window has too few, positions are those
    measured, and velocities zero.
    """
    time = step_s * np.arange(windows.length + 1, dtype=np.float64)
    powers = time[:, None] ** np.arange(_DEGREE + 1)
    starts = np.zeros((windows.count, 2, windows.measured.shape[-1]))
    for w, (values, observed) in enumerate(zip(windows.measured, windows.observed, strict=True)):
        for joint, column in enumerate(observed.T):
            starts[w, 0, joint] = values[0, joint]
            rows = np.flatnonzero(column)[:MIN_SAMPLES]
            if len(rows) > 2 * _DEGREE:
                starts[w, :, joint] = _fit_robustly(powers[rows], values[rows, joint])[:2]
    return starts.reshape(windows.count, -1)


def _fit_robustly(powers: Array, values: Array) -> Array:
    """Return the coefficients of a polynomial; outliers count less (Cauchy's weights)."""
    weights = np.ones(len(values))
    fit: Array = np.zeros(powers.shape[1])
    for _ in range(_REWEIGHTED):
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(root[:, None] * powers, root * values, rcond=None)[0]
        fit = np.asarray(solution, np.float64)
        errors = np.abs(values - powers @ fit)
        weights = 1.0 / (1.0 + (errors / (_CAUCHY * max(float(np.median(errors)), _TINY))) ** 2)
    return fit


def score_covariance(scores: Array, recordings: Ints) -> Array:
    """Return the covariance (P, P) of the sum of the scores (W, P) of consecutive windows."""
    lags = int(4.0 * (len(scores) / 100.0) ** _LAG_RATE)
    total = scores.T @ scores
    for recording in np.unique(recordings):
        rows = scores[recordings == recording]
        for lag in range(1, min(lags, len(rows) - 1) + 1):
            product = rows[lag:].T @ rows[:-lag]
            total = total + (1.0 - lag / (lags + 1.0)) * (product + product.T)
    return np.asarray(total)
