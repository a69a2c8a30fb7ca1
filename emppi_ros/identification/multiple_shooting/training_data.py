"""The estimation problem: a model, parameters with limits, and trajectories of recordings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError, unknown
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.windows import Inputs
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter
from emppi_ros.recordings import matching
from emppi_ros.recordings.motion import (
    MAX_STEPS_PER_SAMPLE,
    Motion,
    near_samples,
    resample,
    split_at,
    step_times,
)
from emppi_ros.recordings.noise import (
    MIN_NOISE,
    SMOOTHING_CUTOFF_HZ,
    rounding_noise,
    smooth,
    smoothing_noise,
    white_level,
)
from emppi_ros.recordings.recordings import Recording, recording_names
from emppi_ros.recordings.signals import Signal

LIMIT = math.sqrt(3.0)  # limits in coordinates: those of a uniform distribution of variance one
DECADE = 10.0  # ratio of limits from which on a parameter is on a log scale


class TrackedPoints(NamedTuple):
    """Measured positions of sites of the model, such as markers that cameras track."""

    sites: tuple[str, ...]
    positions: Array  # (T, sites, 3) [m] before each physics step; NaN where a point is hidden
    noise: float  # m: their standard deviation


@dataclass(frozen=True)
class ShootingProblem:
    """
    Measured trajectories of one system: one, or several recordings in sequence.

    The model has only slide and hinge joints, so that a state is a plain vector, S = nq + nv. A
    single trajectory has the known `start` (S,). With `first_steps`, `start` (G, S) is measured
    instead, and the initial states are estimated.
    """

    model: mujoco.MjModel
    parameters: tuple[Parameter, ...]
    start: Array
    controls: Array  # (T, nu) of each physics step
    references: Array  # (T, S) states measured after each step
    noise: Array  # (S,) their standard deviations, infinite if not measured
    first_steps: tuple[int, ...] = ()  # of each of G consecutive recordings
    observed: Bools | bool = True  # (T, S) false where a reference is interpolated
    continuous: bool = True  # from window to window, unless the model does not explain that
    points: TrackedPoints | None = None  # also compared, by the densities of particles only

    def __post_init__(self) -> None:
        """Raise IdentificationError if limits or noise do not fit."""
        for p in self.parameters:
            if not (math.isfinite(p.lower) and math.isfinite(p.upper)):
                raise IdentificationError(
                    f'{p.name}: found limits [{p.lower:g}, {p.upper:g}]; both must be finite: '
                    f'they set the scale of the search'
                )
        if np.any(self.noise <= 0.0):
            raise IdentificationError('the noise of measurements must be positive')
        if self.points is not None:
            shape = self.points.positions.shape
            expected = (len(self.controls), len(self.points.sites), 3)
            if shape != expected or not self.points.noise > 0.0:
                raise IdentificationError(
                    f'tracked points: found positions {shape} and noise {self.points.noise:g} m; '
                    f'expected {expected}, a row for each step, and more than 0'
                )
            self.sites  # noqa: B018 - raises if one is not in the model

    @property
    def sites(self) -> list[int]:
        """Ids of the tracked points; SceneError if the model does not have one."""
        points = self.points.sites if self.points is not None else ()
        return [scene.find(self.model, 'site', name) for name in points]

    @property
    def inputs(self) -> Inputs:
        """What acts at each step."""
        return Inputs(self.controls, self.first_steps or (0,))

    @property
    def limits(self) -> Array:
        """Lower and upper limits (2, P)."""
        return np.array([[p.lower for p in self.parameters], [p.upper for p in self.parameters]])

    @property
    def scale(self) -> Array:
        """Unit (nq + nv,) of each state: its standard deviation over all trajectories."""
        spread = self.references.std(axis=0)
        return np.where(spread > 0.0, spread, 1.0)

    @property
    def logarithmic(self) -> Bools:
        """Mask (P,) of parameters on a log scale: limits more than a decade apart."""
        lower, upper = self.limits
        return (lower > 0.0) & (upper > DECADE * lower)

    def coordinates(self, theta: Array) -> Array:
        """Return parameters (..., P) in standard deviations of the uniform prior, centered."""
        lower, upper = self._bent(self.limits)
        return LIMIT * (2.0 * self._bent(theta) - upper - lower) / (upper - lower)

    def theta(self, coordinates: Array) -> Array:
        """Return the parameters (..., P) at coordinates, clipped to the limits."""
        lower, upper = self._bent(self.limits)
        bent = 0.5 * (lower + upper) + 0.5 * (upper - lower) * coordinates / LIMIT
        bent = np.clip(bent, lower, upper)
        return np.clip(np.where(self.logarithmic, np.exp(bent), bent), *self.limits)

    def _bent(self, theta: Array) -> Array:
        """Return parameters (..., P), with the logarithm taken where `logarithmic`."""
        return np.where(self.logarithmic, np.log(np.where(self.logarithmic, theta, 1.0)), theta)


@dataclass(frozen=True)
class TrainingData:
    """The problem to solve, and the parts of each recording."""

    problem: ShootingProblem
    windows: int
    later: tuple[Array, ...]  # (T, S) measured states of held-out parts
    names: tuple[str, ...]  # of recordings
    parts: tuple[tuple[Motion, Motion], ...]  # to learn from, and held out
    begin: tuple[Array, Array] | None = None  # mean and covariance of particles; None: anywhere
    note: str = ''  # for the user


def prepare(
    plant: Plant,
    recordings: Sequence[Recording],
    window_s: float,
    held_out: float,
    noise: Mapping[str, float],
) -> TrainingData:
    """
    Return the training data of recordings, in windows of a length, with a share held out.

    Positions may be sampled less often than the model steps: steps without a sample do not count.
    Velocities are measured, or derived from smoothed positions; derived ones only initialize the
    windows and have infinite noise. The noise of measurements is the residual of smoothing, or
    given in `noise` (by names such as `position/hinge`). Raises IdentificationError that names
    what does not fit.
    """
    matching.require_scalar_joints(plant.model)
    length = max(round(window_s / plant.model.opt.timestep), 1)
    pieces = [_states(plant.model, recording) for recording in recordings]
    kept = 1.0 - held_out + 1e-9  # rounding must not cost a window
    counts = [int(kept * (motion.steps - 1)) // length for motion, _, _ in pieces]
    if min(counts) < 1:
        short = recordings[int(np.argmin(counts))]
        raise IdentificationError(
            f'{short.sources[0].name}: shorter than one window of {window_s:g} s, with '
            f'{held_out:.0%} held out: use shorter windows, or a longer recording'
        )
    ends = [count * length for count in counts]
    cuts = [(*piece, end) for piece, end in zip(pieces, ends, strict=True)]
    observed = np.concatenate([rows[1 : end + 1] for _, _, rows, end in cuts])
    problem = ShootingProblem(
        plant.model,
        plant.parameters,
        np.array([states[0] for _, states, _ in pieces]),
        np.concatenate([motion.ctrl[:end] for motion, _, _, end in cuts]),
        np.concatenate([states[1 : end + 1] for _, states, _, end in cuts]),
        _read_noise(plant.model, recordings, noise),
        tuple(int(begin) for begin in np.cumsum([0, *ends[:-1]])),
        observed,
    )
    later = tuple(states[end + 1 :] for _, states, _, end in cuts)
    parts = tuple(split_at(motion, end + 1) for motion, _, _, end in cuts)
    return TrainingData(problem, sum(counts), later, tuple(recording_names(recordings)), parts)


def _states(model: mujoco.MjModel, recording: Recording) -> tuple[Motion, Array, Bools]:
    """Return the motion at the model's steps, its states (N, nq + nv), and which were measured."""
    motion = resample(recording, model, steps_per_sample=MAX_STEPS_PER_SAMPLE)
    if motion.applied.any():
        where = next(s.where for s in recording.signals.values() if s.kind in ('torque', 'effort'))
        raise IdentificationError(
            f'{where}: this method does not take external forces: leave the column out, or use '
            '--method states'
        )
    h, time = model.opt.timestep, step_times(recording, model)
    smoothed = smooth(motion.qpos, 1.0 / h, SMOOTHING_CUTOFF_HZ)
    observed = np.concatenate([motion.observed, np.ones(motion.observed.shape, bool)], axis=1)
    qvel = np.diff(smoothed, axis=0, prepend=2.0 * smoothed[:1] - smoothed[1:2]) / h
    for of in recording.names('velocity'):
        signal = recording.signals['velocity', of]
        if signal.time[0] > time[0] + signal.period or signal.time[-1] < time[-1] - signal.period:
            raise IdentificationError(
                f'{signal.where}: from {signal.time[0]:.6g} to {signal.time[-1]:.6g} s, and '
                f'positions from {time[0]:.6g} to {time[-1]:.6g} s: record both as long, or '
                'leave it out'
            )
        dof = model.jnt_dofadr[scene.find_scalar(model, of)]
        qvel[:, dof] = np.interp(time, signal.time, signal.values)
        if signal.period > 1.5 * h:
            observed[:, model.nq + dof] = near_samples(signal, time, h)
    return motion, np.concatenate([motion.qpos, qvel], axis=1), observed


def measurement_names(model: mujoco.MjModel) -> list[str]:
    """Return the names of a state's components."""
    kinds = 'position', 'velocity'
    return [f'{kind}/{joint}' for kind in kinds for joint in scene.names(model, 'joint')]


def _read_noise(
    model: mujoco.MjModel, recordings: Sequence[Recording], given: Mapping[str, float]
) -> Array:
    """Return the standard deviation (nq + nv,) of measurements; infinite if not measured."""
    names = measurement_names(model)
    for name, value in given.items():
        if name not in names:
            raise IdentificationError(f'--noise {name}: {unknown("measurement", name, names)}')
        if not 0.0 < value < math.inf:
            raise IdentificationError(f'--noise {name}: found {value:g}, expected more than 0')
    sd = np.full(len(names), np.inf)
    for index, name in enumerate(names):
        kind, _, of = name.partition('/')
        signals = [r.signals[kind, of] for r in recordings if (kind, of) in r.signals]
        if len(signals) == len(recordings):  # one noise for all, so all must have it
            sd[index] = given.get(name) or np.sqrt(np.mean([_noise(s) ** 2 for s in signals]))
        elif name in given:
            raise IdentificationError(
                f'--noise {name}: was not measured in every recording, so that it counts in none: '
                'leave it out'
            )
    return sd


def _noise(signal: Signal) -> float:
    """Return the standard deviation of the noise of a signal; IdentificationError if unknown."""
    sd = smoothing_noise(signal, SMOOTHING_CUTOFF_HZ)
    if sd is None:
        raise IdentificationError(
            f'{signal.where}: {1.0 / signal.period:.3g} samples a second do not tell noise from '
            f'motion: give it: --noise {signal.kind}/{signal.of}=SD'
        )
    least = max(rounding_noise(signal.values), MIN_NOISE * float(np.std(signal.values)))
    level, band_hz = white_level(signal.time, signal.values)
    if band_hz < 0.5 / signal.period:  # a filter left little of the noise at high frequencies
        return max(level, least)
    # both estimates are too large if the motion is fast, but in different ways
    return max(min(sd, level), least)
