"""
Windows of recordings: cut to equal length, simulated in one batch, and the states at their starts.

Derivatives are forward differences. Beside the model of a sample of parameters, one is simulated
for each perturbed parameter, and one for each component of start states, perturbed in all windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.recordings.motion import Motion, delay_rows

STEP = 1e-6  # of the scale of a parameter or state; rounding errors grow as 1e-16 / step
FREEDOM = 4.0  # degrees of freedom of Student's t: outliers count less, at 7 % more variance
MIN_SAMPLES = 12  # in the shortest windows, of the joint with the fewest
_DEGREE = 3  # of the polynomial through a window that gives the guess of its start
_REWEIGHTED = 10  # times
_TINY = 1e-12  # rad or m
_CAUCHY = 3.5  # median absolute errors at which a sample counts half
_ITERATIONS = 3  # with each part of a window
_RIDGE = 1e-9  # of the information: components that a window does not show stay
_LAG_RATE = 2.0 / 9.0  # of the number of lags (Newey and West 1994)


@dataclass(frozen=True)
class Windows:
    """W windows of h steps, of one or more recordings, with the configurations at their starts."""

    measured: Array  # (W, 1 + h, nv) positions: those after the first are compared
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
    starts, recordings = [], []
    for index, part in enumerate(motion.parts):
        first = np.arange(part.start, part.stop - length, length)
        if not len(first):
            raise IdentificationError(
                f'{part.stop - part.start} steps of a recording are shorter than a window of '
                f'{length}'
            )
        starts.append(first)
        recordings.append(np.full(len(first), index))
    return at_starts(motion, np.concatenate(starts), length, np.concatenate(recordings))


def at_starts(motion: Motion, starts: Ints, length: int, recordings: Ints | int = 0) -> Windows:
    """Return the windows of `length` steps that start at the given steps (W,)."""
    rows = starts[:, None] + np.arange(length + 1)
    owners = np.broadcast_to(recordings, len(starts))
    return Windows(motion.qpos[rows], motion.observed[rows], rows[:, :-1], owners)


def shortest_length(motion: Motion) -> int:
    """Return the number of steps that hold MIN_SAMPLES samples of each joint."""
    shares = [motion.observed[part].mean(axis=0).min() for part in motion.parts]
    return int(np.ceil(MIN_SAMPLES / max(min(shares), 1e-6)))


def guess_starts(windows: Windows, step_s: float) -> Array:
    """Return positions and velocities (W, 2 nv) at starts, by polynomials through samples."""
    time = step_s * np.arange(windows.length + 1, dtype=np.float64)
    powers = time[:, None] ** np.arange(_DEGREE + 1)
    starts = np.zeros((windows.count, 2, windows.measured.shape[-1]))
    starts[:, 0] = windows.measured[:, 0]  # with too few samples, at rest
    for w, joint in np.ndindex(windows.count, starts.shape[-1]):
        rows = np.flatnonzero(windows.observed[w, :, joint])[:MIN_SAMPLES]
        if len(rows) > 2 * _DEGREE:
            values = windows.measured[w, rows, joint]
            starts[w, :, joint] = _fit_robustly(powers[rows], values)[:2]
    return starts.reshape(windows.count, -1)


def _fit_robustly(powers: Array, values: Array) -> Array:
    """Return the coefficients of a polynomial; outliers count less (Cauchy's weights)."""
    weights = np.ones(len(values))
    fit: Array = np.zeros(powers.shape[1])
    for _ in range(_REWEIGHTED):
        root = np.sqrt(weights)
        fit = np.asarray(np.linalg.lstsq(root[:, None] * powers, root * values, rcond=None)[0])
        errors = np.abs(values - powers @ fit)
        weights = 1.0 / (1.0 + (errors / (_CAUCHY * max(float(np.median(errors)), _TINY))) ** 2)
    return fit


class Inputs(NamedTuple):
    """Inputs at the T time steps of one or more recordings."""

    ctrl: Array  # (T, nu), each applied until the next
    begins: Sequence[int] = (0,)  # first step of each recording
    applied: Array | None = None  # (T, nv) external generalised forces, N or N m; None: none

    @classmethod
    def of_motion(cls, motion: Motion) -> 'Inputs':
        """Return the inputs of a motion."""
        return cls(motion.ctrl, motion.begins, motion.applied if motion.applied.any() else None)


def make_ensemble(plant: Plant, models: int, rollouts: int, threads: int = 0) -> Ensemble:
    """Return the models of a plant whose parameters are those of the registry."""
    return Ensemble(plant.model, plant.parameters, models, rollouts, threads)


def roll_out(
    ensemble: Ensemble, inputs: Inputs, steps: Ints, starts: Array, forces: Array | None = None,
    sites: Sequence[int] = (),
) -> tuple[Array, Bools]:  # fmt: skip
    """
    Return the states (M, W, h, 2 nv) after each step, and which models (M,) diverge.

    Windows begin with states `starts` (M, W, 2 nv), and have the inputs of `steps` (W, h). More
    generalised `forces` (M, W, h, nv) may act. Positions of `sites` before each step follow the
    states: 2 nv + 3 sites columns.
    """
    shape = ensemble.models, *steps.shape
    if ensemble.delays is None:
        ctrl = np.broadcast_to(inputs.ctrl[steps], (*shape, inputs.ctrl.shape[1]))
    else:
        delays = ensemble.delays / ensemble.model.opt.timestep
        ctrl = delay_rows(inputs.ctrl, inputs.begins, delays)[:, steps]
    if inputs.applied is not None:
        applied = np.broadcast_to(inputs.applied[steps], (*shape, inputs.applied.shape[1]))
        forces = applied if forces is None else applied + forces
    begin = State(*np.split(starts, 2, axis=-1))
    record = ('qpos', 'qvel', 'site_xpos') if sites else ('qpos', 'qvel')
    fields, diverged = ensemble.rollout(begin, ctrl, record, forces)
    parts = [fields['qpos'], fields['qvel']]
    if sites:
        points = fields['site_xpos'].reshape(*shape, -1, 3)
        parts.append(points[..., list(sites), :].reshape(*shape, -1))
    states = np.concatenate(parts, axis=-1)
    return states, diverged.any(axis=1) | ~np.isfinite(states).all(axis=(1, 2, 3))


def simulate(
    plant: Plant, thetas: Array, motion: Motion, steps: Ints, starts: Array, threads: int = 0,
    forces: Array | None = None,
) -> tuple[Array, Bools]:  # fmt: skip
    """Return what `roll_out` does, for parameters (M, P) and the inputs of a motion."""
    ensemble = make_ensemble(plant, len(thetas), len(steps), threads)
    ensemble.write(thetas)
    return roll_out(ensemble, Inputs.of_motion(motion), steps, starts, forces)


def perturb_starts(
    starts: Array, unknowns: int, scale: Array | float = 1.0, first: int = 0, step: float = STEP
) -> Array:
    """
    Return the starts (N, 1 + unknowns + S, W, S) of all models of N samples.

    They are those given (N, W, S), but in each of the last S models one component is larger by
    `step` times its scale, in all windows from the `first` on.
    """
    size = starts.shape[-1]
    rows = np.repeat(starts[:, None], 1 + unknowns + size, axis=1)
    rows[:, 1 + unknowns :, first:] += step * np.diag(np.broadcast_to(scale, size))[:, None]
    return rows


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

    They are found by Gauss-Newton in windows that begin at the steps `begins` (W,) and grow to
    `length`. The second array is their information (N, W, 2 nv, 2 nv). None if a simulation
    diverges.
    """
    states = 2 * plant.model.nv
    ensemble = make_ensemble(plant, len(thetas) * (1 + states), len(begins), threads)
    ensemble.write(np.repeat(thetas, 1 + states, axis=0))
    part = min(length, shortest_length(motion))
    windows, gram = at_starts(motion, begins, part), np.empty(0)
    starts = np.tile(guess_starts(windows, plant.model.opt.timestep), (len(thetas), 1, 1))
    while True:
        for _ in range(_ITERATIONS):
            fitted = _fit_once(ensemble, motion, windows, starts, scale)
            if fitted is None:
                return None
            starts, gram = fitted
        if part == length:
            return starts, gram
        part = min(2 * part, length)
        windows = at_starts(motion, begins, part)


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
