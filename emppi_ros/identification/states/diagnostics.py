"""Diagnostics: whether the model explains the recordings, they agree, and commands lag."""

from collections.abc import Sequence
import copy
from dataclasses import replace
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.states import solver
from emppi_ros.identification.states.estimation import StatesEstimate, estimate, initial_states
from emppi_ros.identification.states.residuals import rates
from emppi_ros.model import scene
from emppi_ros.recordings.motion import Motion, join, physical_step, resample_and_split
from emppi_ros.recordings.noise import SMOOTHING_CUTOFF_HZ, smoothing_noise
from emppi_ros.recordings.recordings import Recording

_MAX_UNEXPLAINED = 0.2  # share of the forces that accelerate a joint
_MAX_DEVIATION = 0.05  # share of the range of a motion
_SLOW, _MAX_REST = 0.01, 0.05  # share of the largest velocity, and of the time below that
_SIGNIFICANT = 4.0  # standard errors
_DISAGREEMENT = 10.0  # standard deviations, which are too small by several times
_MIN_EXPLAINED = 0.5  # of the residual cost
_MIN_LAG = 0.05  # steps
_MIN_COST = 1e-30  # a mean cost of rounding
_SHORTER = 1.5  # a step that is longer than the physical one by this factor is compared with it
_BETTER = 0.5  # of the variance that the residuals cause


def check_model(fit: StatesEstimate) -> None:
    """Raise IdentificationError if the model does not explain what depends on a parameter."""
    model, uncertainty = fit.plant.model, fit.uncertainty
    joints = scene.names(model, 'joint')
    for part, deviation, impulse in zip(
        fit.motion.parts, uncertainty.observation_sd, uncertainty.impulse_sd, strict=True
    ):
        inertial = _inertial_forces(fit, part)
        lacking = impulse / model.opt.timestep
        for dof in np.flatnonzero(uncertainty.affected):
            span = np.ptp(fit.motion.qpos[part, dof]) if model.nq == model.nv else np.inf
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
                f'joint {joints[model.dof_jntid[dof]]!r}: the model does not match: '
                f'{fault}: check units, signs and commands of the recording, and missing parts '
                f'of the model{_explain_rest(fit, part, int(dof))}'
            )


def _explain_rest(fit: StatesEstimate, part: slice, dof: int) -> str:
    """Return advice for a joint that dry friction holds for a while; '' for others."""
    model = fit.plant.at(fit.theta)
    speed = np.abs(rates(model, initial_states(fit.plant, fit.motion)[part])[0][:, dof])
    rest = np.mean(speed < _SLOW * speed.max())
    if not model.dof_frictionloss[dof] or rest < _MAX_REST:
        return ''
    return (
        f'. The joint rests in {rest:.0%} of the time, where dry friction holds it: states near '
        'rest are not found; take --method shooting, or a part without rest (--from, --to)'
    )


def _inertial_forces(fit: StatesEstimate, part: slice) -> Array:
    """Return the inertial forces (nv,) along a part, RMS in N m or N."""
    model, qpos = fit.plant.at(fit.theta), fit.solution.qpos[part]
    a = rates(model, qpos)[1]
    data, forces = mujoco.MjData(model), np.empty_like(a)
    for row, data.qpos[:], acceleration in zip(forces, qpos[1:-1], a, strict=True):
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_mulM(model, data, row, acceleration)
    return np.sqrt(np.mean(forces**2, axis=0))


def note_deviations(
    fit: StatesEstimate, names: Sequence[str], recordings: Sequence[Recording]
) -> list[str]:
    """Return a note on joints whose states deviate from the measurements by more than noise."""
    deviations, joints = [], scene.names(fit.plant.model, 'joint')
    for name, recording, rows, deviation in zip(
        names, recordings, fit.motion.parts, fit.uncertainty.observation_sd, strict=True
    ):
        where = f' of {name}' if len(recordings) > 1 else ''
        for dof, joint in enumerate(fit.plant.model.dof_jntid):
            signal = recording.signals.get(('position', joints[joint]))
            if signal is None:
                continue
            noise = smoothing_noise(signal, SMOOTHING_CUTOFF_HZ)
            if noise is None:
                continue
            # smoothing removes more than noise: only the sampling error of its sd counts
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


def note_correlation(fit: StatesEstimate) -> list[str]:
    """Return a note on joints whose residuals are correlated by more than the error of that."""
    # of n white residuals, the standard error is sqrt(22 / n) samples
    times, joints = fit.uncertainty.correlation, scene.names(fit.plant.model, 'joint')
    high = times > 1.0 + _SIGNIFICANT * np.sqrt(22.0 / _counts(fit.motion))
    high &= fit.uncertainty.affected
    worst = {
        joints[fit.plant.model.dof_jntid[dof]]: np.max(times[high[:, dof], dof])
        for dof in np.flatnonzero(high.any(axis=0))
    }
    if not worst:
        return []
    each = ', '.join(f'{name} over {time:.2g} samples' for name, time in worst.items())
    return [
        f'residuals are correlated ({each}), as errors of the model are; standard deviations are '
        f'{np.sqrt(max(worst.values())):.2g} times those of as many independent residuals'
    ]


def _counts(motion: Motion) -> Array:
    """Return the numbers (R, nv) of observations in each part, at least 1."""
    return np.maximum([motion.observed[part].sum(axis=0) for part in motion.parts], 1)


def note_disagreement(
    names: Sequence[str], alone: Sequence[StatesEstimate], together: StatesEstimate
) -> list[str]:
    """Return a note on the parameters on which the recordings disagree."""
    thetas = np.array([fit.theta for fit in alone])
    sds = np.array([fit.uncertainty.sd for fit in alone])
    disagreements = []
    off = np.abs(thetas - together.theta) > _DISAGREEMENT * sds
    for i in np.flatnonzero(off.any(axis=0)):
        rows = zip(thetas[:, i], sds[:, i], names, strict=True)
        each = ', '.join(f'{theta:.4g} +- {sd:.2g} in {name}' for theta, sd, name in rows)
        disagreements.append(f'{together.plant.unknowns[i].name} is {each}')
    if not disagreements:
        return []
    return [
        f'recordings do not agree: {"; ".join(disagreements)}: was it the same in all of them?'
    ]


class CommandLag(NamedTuple):
    """The delay of the commands."""

    steps: float
    seconds: float
    explained: float  # share of the residual cost that the lag explains

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


def estimate_lag(fit: StatesEstimate) -> CommandLag | None:
    """
    Return by how much commands and torques act later than recorded; None if it cannot be told.

    The lag is the minimum of a parabola through the costs with commands a step later, as
    recorded, and a step earlier. A delay that is a parameter of the plant is estimated already.
    """
    plant, motion = fit.plant, fit.motion
    if plant.delay is not None or not (
        np.any(np.ptp(motion.ctrl, axis=0)) or np.any(np.ptp(motion.applied, axis=0))
    ):
        return None
    start = initial_states(plant, motion)
    try:
        earlier, later = (
            solver.solve(plant, _delay(motion, steps), fit.config, start, fit.theta).mean_cost
            for steps in (-1, 1)
        )
    except IdentificationError:
        return None  # the estimate is valid without it
    now = fit.solution.mean_cost
    curvature = earlier - 2.0 * now + later
    if not curvature > 0.0:
        return None
    steps = 0.5 * (earlier - later) / curvature
    explained = 0.5 * curvature * steps**2 / max(now, _MIN_COST)
    return CommandLag(steps, steps * float(plant.model.opt.timestep), explained)


def _delay(motion: Motion, steps: int) -> Motion:
    """Return a motion whose commands and forces act some steps later."""
    rows = np.concatenate(
        [np.clip(np.arange(r.start, r.stop) - steps, r.start, r.stop - 1) for r in motion.parts]
    )
    return replace(motion, ctrl=motion.ctrl[rows], applied=motion.applied[rows])


def note_timing(
    fit: StatesEstimate, recordings: Sequence[Recording], held_out: float
) -> tuple[float | None, list[str]]:
    """Return the lag of the commands [s], if any, and notes on what biases the estimates."""
    lag, correlated = estimate_lag(fit), note_correlation(fit)
    notes = [] if lag is None else lag.notes
    # a step that is too long looks like a lag, which is not mentioned beside it
    if correlated:
        shorter = _find_shorter_step(fit, recordings, held_out)
        if shorter is not None:
            notes = [
                f'the step of {fit.plant.model.opt.timestep:.3g} s is too long for this motion, '
                f'and biases the estimates: give --step {shorter:.6g}'
            ]
    return None if lag is None else lag.seconds, [*notes, *correlated]


def _find_shorter_step(
    fit: StatesEstimate, recordings: Sequence[Recording], held_out: float
) -> float | None:
    """Return the physical step if residuals cause less than half of the variance with it."""
    step = physical_step(recordings, fit.plant.model)
    if fit.plant.model.opt.timestep < _SHORTER * step:
        return None
    finer = replace(fit.plant, model=copy.copy(fit.plant.model))
    finer.model.opt.timestep = step
    try:
        parts = resample_and_split(recordings, finer.model, finer.bodies, held_out)
        other = estimate(finer, join([earlier for earlier, _ in parts]), fit.config)
    except IdentificationError:
        return None
    if _variance(other) > _BETTER * _variance(fit):
        return None
    lag = estimate_lag(other)
    return step if lag is None or not lag.notes else None


def _variance(fit: StatesEstimate) -> float:
    """Return the largest variance of the mean residual of a joint, in arbitrary units."""
    uncertainty = fit.uncertainty
    each = uncertainty.observation_sd**2 * uncertainty.correlation / _counts(fit.motion)
    return float(np.nanmax(each[:, uncertainty.affected], initial=0.0))
