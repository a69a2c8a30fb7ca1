"""Diagnostics: whether the model explains the recordings, they agree, and commands lag."""

from collections.abc import Sequence
import copy
from dataclasses import replace
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states import solver
from emppi_ros.identification.states.estimation import StatesEstimate, estimate, initial_states
from emppi_ros.identification.states.residuals import rates
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.model import scene
from emppi_ros.recordings.motion import Motion, join, physical_step, resample_and_split
from emppi_ros.recordings.noise import SMOOTHING_CUTOFF_HZ, smoothing_noise
from emppi_ros.recordings.recordings import Recording

_MAX_UNEXPLAINED = 0.2  # share of the forces that accelerate a joint
_MAX_DEVIATION = 0.05  # share of the range of a motion
_SIGNIFICANT = 4.0  # standard errors
_DISAGREEMENT = 10.0  # standard deviations, which are too small by several times
_MIN_EXPLAINED = 0.5  # of the residual cost
_MIN_LAG = 0.05  # steps
_MIN_COST = 1e-30  # a mean cost of rounding
_SHORTER = 1.5  # a step that is longer than the physical one by this factor is compared with it
_BETTER = 0.5  # of the variance that the residuals cause


def check_model(plant: Plant, motion: Motion, result: StatesEstimate) -> None:
    """
    Raise IdentificationError if the model does not explain the motion.

    Degrees of freedom that depend on no parameter, such as an object in a hand, are not checked.
    """
    joints = scene.names(plant.model, 'joint')
    uncertainty, scalar = result.uncertainty, plant.model.nq == plant.model.nv
    for part, deviation, impulse in zip(
        motion.parts, uncertainty.observation_sd, uncertainty.impulse_sd, strict=True
    ):
        inertial = _inertial_forces(plant, result, part)
        lacking = impulse / plant.model.opt.timestep
        for dof in np.flatnonzero(uncertainty.affected):
            span = np.ptp(motion.qpos[part, dof]) if scalar else np.inf
            if lacking[dof] > _MAX_UNEXPLAINED * inertial[dof]:
                fault = (
                    f'it lacks {lacking[dof]:.3g} N m (or N) of the {inertial[dof]:.3g} that '
                    'accelerate it (rms)'
                )
            elif deviation[dof] > _MAX_DEVIATION * span:
                fault = (
                    f'its states deviate by {deviation[dof]:.3g} rad (or m) from a motion over '
                    f'{span:.3g} (rms)'
                )
            else:
                continue
            raise IdentificationError(
                f'joint {joints[plant.model.dof_jntid[dof]]!r}: the model does not match: '
                f'{fault}: check units, signs and commands of the recording, and missing parts '
                'of the model'
            )


def _inertial_forces(plant: Plant, result: StatesEstimate, part: slice) -> Array:
    """Return the inertial forces (nv,) along a part, RMS in N m or N."""
    model, qpos = plant.at(result.theta), result.solution.qpos[part]
    a = rates(model, qpos)[1]
    data, forces = mujoco.MjData(model), np.empty_like(a)
    for row, data.qpos[:], acceleration in zip(forces, qpos[1:-1], a, strict=True):
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_mulM(model, data, row, acceleration)
    return np.sqrt(np.mean(forces**2, axis=0))


def note_deviations(
    plant: Plant, names: Sequence[str], recordings: Sequence[Recording], motion: Motion,
    result: StatesEstimate,
) -> list[str]:  # fmt: skip
    """
    Return a note on the joints whose states deviate from the measurements by more than noise.

    Smoothing removes more than the noise, so only the sampling error of its standard deviation
    counts, which is a share of 1 / sqrt(2 n) for n samples.
    """
    deviations, joints = [], scene.names(plant.model, 'joint')
    for name, recording, rows, deviation in zip(
        names, recordings, motion.parts, result.uncertainty.observation_sd, strict=True
    ):
        where = f' of {name}' if len(recordings) > 1 else ''
        for dof, joint in enumerate(plant.model.dof_jntid):
            signal = recording.signals.get(('position', joints[joint]))
            if signal is None:
                continue
            noise = smoothing_noise(signal, SMOOTHING_CUTOFF_HZ)
            if noise is None:
                continue
            fewest = min(len(signal.values), rows.stop - rows.start)
            if deviation[dof] > noise * (1.0 + _SIGNIFICANT / np.sqrt(2.0 * fewest)):
                deviations.append(
                    f'{signal.of}{where} by {deviation[dof]:.2g}, '
                    f'with noise of at most {noise:.2g}'
                )
    if not deviations:
        return []
    return [
        f'states deviate from the measurements: {", ".join(deviations)} (rms): the model is less '
        'exact than --state-weight says, and standard deviations are too small: record faster and '
        'use a shorter --step, or a smaller --state-weight'
    ]


def note_correlation(plant: Plant, motion: Motion, result: StatesEstimate) -> list[str]:
    """
    Return a note on the joints whose residuals are correlated by more than the error of that.

    The standard error of the correlation time of n white residuals is sqrt(22 / n) samples.
    """
    times, joints = result.uncertainty.correlation, scene.names(plant.model, 'joint')
    counts = np.array([motion.observed[part].sum(axis=0) for part in motion.parts])
    high = times > 1.0 + _SIGNIFICANT * np.sqrt(22.0 / np.maximum(counts, 1))
    high &= result.uncertainty.affected
    worst = {
        joints[plant.model.dof_jntid[dof]]: np.max(times[high[:, dof], dof])
        for dof in np.flatnonzero(high.any(axis=0))
    }
    if not worst:
        return []
    each = ', '.join(f'{name} over {time:.2g} samples' for name, time in worst.items())
    return [
        f'residuals are correlated ({each}), as errors of the model are; standard deviations are '
        f'{np.sqrt(max(worst.values())):.2g} times those of as many independent residuals'
    ]


def note_disagreement(
    plant: Plant, names: Sequence[str], alone: Sequence[StatesEstimate], together: StatesEstimate
) -> list[str]:
    """
    Return a note on the parameters on which the recordings disagree.

    The variance of the difference is that of one recording, less that of all.
    """
    disagreements = []
    for i, unknown in enumerate(plant.unknowns):
        off = [fit.theta[i] - together.theta[i] for fit in alone]
        sd = [fit.uncertainty.sd[i] for fit in alone]
        if any(np.abs(off) > _DISAGREEMENT * np.array(sd)):
            each = ', '.join(
                f'{fit.theta[i]:.4g} +- {fit.uncertainty.sd[i]:.2g} in {name}'
                for fit, name in zip(alone, names, strict=True)
            )
            disagreements.append(f'{unknown.name} is {each}')
    if not disagreements:
        return []
    return [
        f'recordings do not agree: {"; ".join(disagreements)}: was it the same in all of them?'
    ]


class CommandLag(NamedTuple):
    """The delay of the commands."""

    steps: float
    step_s: float
    explained: float  # share of the residual cost that the lag explains

    @property
    def seconds(self) -> float:
        """The lag in s."""
        return self.steps * self.step_s

    @property
    def notes(self) -> list[str]:
        """A note for the user if the lag explains most of the residual cost."""
        if self.explained < _MIN_EXPLAINED or abs(self.steps) < _MIN_LAG:
            return []
        when = 'later' if self.steps > 0.0 else 'earlier'
        return [
            f'commands seem to act {1e3 * abs(self.seconds):.2g} ms {when} than recorded, which '
            f'explains {min(self.explained, 1.0):.0%} of the residuals: if that is plausible, '
            f'give --lag {self.seconds:.2g}'
        ]


def estimate_lag(
    plant: Plant, motion: Motion, config: SolverConfig, result: StatesEstimate
) -> CommandLag | None:
    """
    Return by how much commands and torques act later than recorded; None if it cannot be told.

    The lag is the minimum of a parabola through the costs with commands a step later, as
    recorded, and a step earlier. A delay that is a parameter of the plant is estimated already.
    """
    if plant.delay is not None or not (
        np.any(np.ptp(motion.ctrl, axis=0)) or np.any(np.ptp(motion.applied, axis=0))
    ):
        return None
    start = initial_states(plant, motion)
    try:
        earlier, later = (
            solver.solve(plant, _delay(motion, steps), config, start, result.theta).mean_cost
            for steps in (-1, 1)
        )
    except IdentificationError:
        return None  # the estimate is valid without it
    now = result.solution.mean_cost
    curvature = earlier - 2.0 * now + later
    if not curvature > 0.0:
        return None
    steps = 0.5 * (earlier - later) / curvature
    explained = 0.5 * curvature * steps**2 / max(now, _MIN_COST)
    return CommandLag(steps, float(plant.model.opt.timestep), explained)


def _delay(motion: Motion, steps: int) -> Motion:
    """Return a motion whose commands and forces act some steps later."""
    rows = np.concatenate(
        [np.clip(np.arange(r.start, r.stop) - steps, r.start, r.stop - 1) for r in motion.parts]
    )
    return replace(motion, ctrl=motion.ctrl[rows], applied=motion.applied[rows])


def note_timing(
    plant: Plant, recordings: Sequence[Recording], held_out: float, config: SolverConfig,
    motion: Motion, result: StatesEstimate,
) -> tuple[float | None, list[str]]:  # fmt: skip
    """
    Return the lag of the commands [s] if there is one, and notes on what biases the estimates.

    A step that is too long looks like a lag, so the lag is not mentioned beside it.
    """
    lag = estimate_lag(plant, motion, config, result)
    correlated = note_correlation(plant, motion, result)
    notes = [] if lag is None else lag.notes
    if correlated:
        shorter = _find_shorter_step(plant, recordings, held_out, config, (motion, result))
        if shorter is not None:
            notes = [
                f'the step of {plant.model.opt.timestep:.3g} s is too long for this motion, and '
                f'biases the estimates: give --step {shorter:.6g}'
            ]
    return None if lag is None else lag.seconds, [*notes, *correlated]


def _find_shorter_step(
    plant: Plant, recordings: Sequence[Recording], held_out: float, config: SolverConfig,
    used: tuple[Motion, StatesEstimate],
) -> float | None:  # fmt: skip
    """
    Return the physical step if residuals cause less than half of the variance with it.

    `used` are the motion and the estimate with the plant's own step. None if that is as good, if
    commands lag with the other step, too, or if there is no estimate with it.
    """
    step = physical_step(recordings, plant.model)
    if plant.model.opt.timestep < _SHORTER * step:
        return None
    finer = replace(plant, model=copy.copy(plant.model))
    finer.model.opt.timestep = step
    try:
        parts = resample_and_split(recordings, finer.model, finer.bodies, held_out)
        motion = join([earlier for earlier, _ in parts])
        other = estimate(finer, motion, config)
    except IdentificationError:
        return None
    if _variance(motion, other) > _BETTER * _variance(*used):
        return None
    lag = estimate_lag(finer, motion, config, other)
    return step if lag is None or not lag.notes else None


def _variance(motion: Motion, result: StatesEstimate) -> float:
    """Return the largest variance of the mean residual of a joint, in arbitrary units."""
    counts = np.array([motion.observed[part].sum(axis=0) for part in motion.parts])
    uncertainty = result.uncertainty
    each = uncertainty.observation_sd**2 * uncertainty.correlation / np.maximum(counts, 1)
    return float(np.nanmax(each[:, uncertainty.affected], initial=0.0))
