"""Identify bodies from recordings, and check that they explain them."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.rigid_body import arm, composite_bodies, motion_samples, torque_fit
from emppi_ros.identification.rigid_body.arm import BODY_PARAMETERS
from emppi_ros.identification.rigid_body.body_posterior import PRIOR, BodyConstraints
from emppi_ros.identification.rigid_body.composite_bodies import ParameterMap
from emppi_ros.identification.rigid_body.motion_samples import DifferentiatedMotion
from emppi_ros.identification.rigid_body.recordings import ArmRecording, RecordedArm
from emppi_ros.identification.rigid_body.torque_fit import RigidBodyOptions, TorqueFit
from emppi_ros.model import scene
from emppi_ros.recordings.noise import correlation_time
from emppi_ros.recordings.recordings import named_errors

_MAX_UNEXPLAINED = 0.2  # of a torque's standard deviation: more is a mistake rather than friction
_NOTHING = 0.7  # likewise: half of the variance, of every joint
_MISFIT = 1.5  # ratio of residuals to noise that is reported
_MOST_MOTION = 2.0  # factor on the noise of the motion
_STANDARD_ERRORS = 4.0  # of a correlation time: more is significant
_SIMILARITY, _MAX_RATIO = 0.8, 5.0  # correlation and ratio that indicate wrong units
_MAX_LAG_S, _LAG_SHARE = 0.01, 0.5  # larger lags that explain more of the excess are errors
_LAG_OF_BAND = 0.1  # periods: what a low-pass filter leaves of friction looks like a small lag
_RANK = 1e-8  # relative to the largest: smaller ones are unexcited
_SIGNIFICANT = 10.0  # standard deviations: inconsistent bodies or recordings
_RECORDING_ADVICE = (
    'that torques are those at the links, with gravity in them, their signs and clock, that '
    'nothing was touched, and what is welded to the links'
)
_PAYLOAD_ADVICE = (
    'that the same was held as in the other recordings, each of which is explained alone'
)


def check_units(
    model: mujoco.MjModel, samples: motion_samples.MotionSamples, links_known: bool
) -> None:
    """
    Raise if torques are those of the scene times a large or a negative factor.

    Other links than those of the scene have such torques, too: if they are not known, only most
    joints together tell.
    """
    states, torque = samples
    needed, wrong = arm.motion_torques(model, states), list[str]()
    for j, name in enumerate(scene.names(model, 'joint')):
        product = float(torque[:, j] @ needed[:, j])
        size = float(needed[:, j] @ needed[:, j])
        alike = product / np.sqrt(size * float(torque[:, j] @ torque[:, j]))
        ratio = product / size
        if abs(alike) > _SIMILARITY and not 1.0 / _MAX_RATIO < ratio < _MAX_RATIO:
            wrong.append(
                f'joint {name!r}: torques are {ratio:.3g} times those of the model: check '
                + ('their sign' if ratio < 0.0 else 'units, or the gear')
            )
    if wrong and (links_known or 2 * len(wrong) > model.nv):
        raise IdentificationError(wrong[0])


class Misfit(NamedTuple):
    """Residual torques of a recording, which noise does not explain."""

    rms: Array  # (nv,) of residuals
    share: Array  # (nv,) of the standard deviation of the torque
    factors: Array  # (nv,) ratios of rms residuals to noise, at least 1
    correlation: Array  # (nv,) time in samples, at least 1
    torque: Array  # (nv,) noise of torques, without that of the motion

    @property
    def widening(self) -> Array:
        """The factors (nv,) by which standard deviations exceed those of white noise."""
        return self.factors * np.sqrt(self.correlation)

    def widen(
        self, noise: motion_samples.MotionSamples, factors: Array
    ) -> motion_samples.MotionSamples:
        """
        Return larger noise, so that the expected residual is `factors` (nv,) times as large.

        Up to a factor of 2 the noise of the motion is larger, too, as its estimate may be too
        small; the rest is of torques.
        """
        expected = self.rms / self.factors
        motion = np.minimum(factors, _MOST_MOTION)
        rest = (factors**2 - motion**2) * np.maximum(expected**2 - self.torque**2, 0.0)
        torque = np.sqrt(factors**2 + rest / self.torque**2)
        return motion_samples.MotionSamples(motion * noise.states, torque * noise.torque)


def measure_misfit(part: DifferentiatedMotion, residuals: Array, covariance: Array) -> Misfit:
    """Return the misfit of residuals (n, nv) of torques, given the expected covariance."""
    torque = part.samples.torque
    square = np.mean(residuals**2, axis=0)
    variance = np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0)
    times = np.array([correlation_time(column) for column in residuals.T])
    # of white noise, the standard error is sqrt(22 / n)
    times[times < 1.0 + _STANDARD_ERRORS * np.sqrt(22.0 / len(residuals))] = 1.0
    rms = np.sqrt(square)
    return Misfit(
        rms,
        rms / torque.std(axis=0),
        np.sqrt(np.maximum(square / variance, 1.0)),
        times,
        part.noise.torque,
    )


def check_learned(misfit: Misfit, torque: Array, why: str) -> None:
    """Raise if the bodies explain next to nothing of any torque."""
    if np.all(misfit.share > _NOTHING) and np.all(misfit.factors > _MISFIT):
        raise IdentificationError(
            f'the model does not match: it explains no torque: residuals of '
            f'{", ".join(f"{x:.3g}" for x in misfit.rms)} N m (or N) remain of torques that vary '
            f'by {", ".join(f"{x:.3g}" for x in torque.std(axis=0))} (rms): check {why}'
        )


def note_misfit(model: mujoco.MjModel, misfit: Misfit, why: str) -> str:
    """Return a warning with the size of the misfit, or an empty string."""
    rows = [
        f'{name} {rms:.2g} N m (or N), {100.0 * share:.2g} % of its torque, intervals '
        f'{wider:.2g} times wider'
        for name, rms, share, factor, wider in zip(
            scene.names(model, 'joint'), *misfit[:3], misfit.widening, strict=True
        )
        if factor > _MISFIT or wider > _MISFIT
    ]
    if not rows:
        return ''
    advice = f': check {why}' if np.any(misfit.share > _MAX_UNEXPLAINED) else ''
    return f'the model leaves more than noise: {"; ".join(rows)}{advice}'


def disagreement(alone: Sequence[TorqueFit], together: TorqueFit, numbers: int) -> str:
    """Return a message if recordings do not agree, else an empty string."""
    before, after = sum(_chi_squared(fit) for fit in alone), _chi_squared(together)
    size = together.residuals.size
    # recordings that agree on `numbers` parameters raise chi-squared by about these, but for one
    gain = after - before - (len(alone) - 1) * numbers
    if gain < max(_SIGNIFICANT**2, 0.5 * (after - size)):
        return ''
    return (
        f'recordings do not agree: together they leave {np.sqrt(after / size):.3g} times what '
        f'noise does, and each alone {np.sqrt(before / size):.3g} times: was the same held in '
        'all of them, and did the arm warm up in between?'
    )


def _chi_squared(fit: TorqueFit) -> float:
    """Return the sum of squared residuals in units of their noise."""
    white = np.linalg.solve(fit.covariance, fit.residuals[:, :, None])
    return float(np.sum(fit.residuals[:, :, None] * white))


def note_inconsistency(
    parameter_map: ParameterMap, constraints: BodyConstraints, fit: TorqueFit
) -> str:
    """
    Return a warning if physical consistency keeps the bodies from explaining the torques, or ''.

    IdentificationError if no mass is left for a body.
    """
    free, block = constraints.free, np.ix_(constraints.free, constraints.free)
    matrix = fit.normal.information[block]
    unit = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    pull = (fit.normal.score - fit.normal.information @ fit.parameters)[free]
    move = unit * np.linalg.lstsq(matrix * np.outer(unit, unit), unit * pull, rcond=_RANK)[0]
    gain = float(pull @ move)  # decrease of chi-squared without the constraint
    before, size = _chi_squared(fit), fit.residuals.size
    if gain < max(_SIGNIFICANT**2 * max((before - gain) / size, 1.0), 0.5 * (before - size)):
        return ''
    best = fit.parameters - constraints.fixed
    best[free] += move
    for index, part in parameter_map.parts.items():
        mass = best[index * BODY_PARAMETERS]
        fixed = parameter_map.fixed_parts[index]
        if mass < 0.0 and fixed:
            raise IdentificationError(
                f'body {part.name!r}: no mass is left for it: the best fit is {mass:.3g} kg, with '
                f'{sum(p.parameters[0] for p in fixed):.4g} kg in the scene for the bodies it is '
                f'welded to: check {", ".join(p.name for p in fixed)}'
            )
    welded = [part.name for parts in parameter_map.fixed_parts.values() for part in parts]
    return (
        'no physically consistent bodies explain these torques: inconsistent ones explain '
        f'{100.0 * gain / before:.0f} % of the residuals: check '
        f'{", ".join(welded) or "the links"} in the scene, and units, signs and clocks of the '
        'recording'
    )


class RigidBodyEstimate(NamedTuple):
    """Identified bodies, and diagnostics of each recording."""

    arm: RecordedArm  # with the windows of the estimate
    parameter_map: ParameterMap
    constraints: BodyConstraints
    options: RigidBodyOptions
    stribeck: Array  # (nv,) Stribeck velocities, 0 for joints without
    fit: TorqueFit  # of all recordings together
    misfits: tuple[Misfit, ...]  # of each recording
    lags_s: tuple[float, ...]  # lag of torques behind the motion in each recording
    notes: tuple[str, ...]  # warnings


class _Fitter(NamedTuple):
    """What the fits of one or several recordings share."""

    model: mujoco.MjModel
    constraints: BodyConstraints
    options: RigidBodyOptions

    def fit(self, parts: Sequence[DifferentiatedMotion], stribeck: Array) -> TorqueFit:
        samples, noise = motion_samples.concatenate(parts)
        shapes = torque_fit.shapes(parts, self.options, stribeck)
        return torque_fit.fit_torques(self.model, samples, noise, PRIOR, self.constraints, shapes)

    def fit_alone(self, recording: ArmRecording) -> tuple[TorqueFit, float, Misfit]:
        """Return a fit, its lag of torques [s] and its misfit; IdentificationError if unusable."""
        part, none = recording.training, np.zeros(self.model.nv)
        fit = self.fit([part], none)
        shapes = torque_fit.shapes([part], self.options, none)
        lag_s, share = torque_fit.estimate_lag(
            self.model, part.samples.states, shapes, self.constraints.free, fit, part.step_s
        )
        most = max(_MAX_LAG_S, _LAG_OF_BAND / recording.band_hz)
        if abs(lag_s) > most and share > _LAG_SHARE:
            raise IdentificationError(
                f'unsynchronised: torques lag the motion by {lag_s:.3g} s: record both on one '
                f'clock without lagging filters, or use --lag {-lag_s:.2g}'
            )
        return fit, lag_s, measure_misfit(part, fit.residuals, fit.covariance)


def identify_bodies(
    plant: Plant, arm: RecordedArm, options: RigidBodyOptions
) -> RigidBodyEstimate:
    """Return the bodies that explain all recordings; IdentificationError if none do."""
    parameter_map = composite_bodies.map_parameters(
        plant.parameters, arm.model, arm.parts, options.links == 'known'
    )
    _check_unknown(plant, options)
    constraints = composite_bodies.constraints_from_scene(
        arm.model,
        parameter_map,
        arm.rotors if options.armature == 'unknown' else None,
        options.friction != 'none',
    )
    fitter = _Fitter(arm.model, constraints, options)
    recordings, fits, lags_s, notes = [], [], [], list[str]()
    # each recording is fitted alone first, so that errors name it
    for given in arm.recordings:
        recording = given
        with named_errors(recording.name):
            check_units(arm.model, recording.training.samples, options.links == 'known')
            fit, lag_s, misfit = fitter.fit_alone(recording)
            if np.max(misfit.factors) > _MISFIT:
                # a bias of accelerations has to be smaller than the errors of the model only
                recording = recording.resample(misfit.factors)
                fit, lag_s, misfit = fitter.fit_alone(recording)
            note = note_inconsistency(parameter_map, constraints, fit)
            check_learned(misfit, recording.training.samples.torque, _RECORDING_ADVICE)
        notes += [f'{recording.name}: {each}' for each in (recording.note, note) if each]
        recordings.append(recording)
        fits.append(fit)
        lags_s.append(lag_s)
    parts = [recording.training for recording in recordings]
    first = fits[0]
    if len(recordings) > 1:
        first = fitter.fit(parts, np.zeros(arm.model.nv))
        count = np.count_nonzero(constraints.free) + arm.model.nv
        notes += filter(None, [disagreement(fits, first, count)])
    stribeck = torque_fit.choose_stribeck(arm.model, parts, options, constraints.free, first)
    if stribeck.any():
        first = fitter.fit(parts, stribeck)
    ends = np.cumsum([len(part.samples.torque) for part in parts])[:-1]
    residuals, covariances = np.split(first.residuals, ends), np.split(first.covariance, ends)
    why = _RECORDING_ADVICE if len(recordings) == 1 else _PAYLOAD_ADVICE
    misfits, wider = [], []
    for recording, part, *excess in zip(recordings, parts, residuals, covariances, strict=True):
        misfit = measure_misfit(part, *excess)
        note = note_misfit(arm.model, misfit, why)
        notes += [f'{recording.name}: {note}'] if note else []
        misfits.append(misfit)
        wider.append(part._replace(noise=misfit.widen(part.noise, misfit.widening)))
    return RigidBodyEstimate(
        arm._replace(recordings=tuple(recordings)), parameter_map, constraints, options,
        stribeck, fitter.fit(wider, stribeck), tuple(misfits), tuple(lags_s),
        tuple(notes),
    )  # fmt: skip


def _check_unknown(plant: Plant, options: RigidBodyOptions) -> None:
    """Raise if a parameter is of friction or of rotors, and these are not unknown."""
    switches = {
        'dof_armature': ('--armature', options.armature == 'unknown'),
        'dof_damping': ('--friction', options.friction != 'none'),
        'dof_frictionloss': ('--friction', options.dry),
    }
    for parameter in plant.parameters:
        option, unknown = switches.get(parameter.field, ('', True))
        if not unknown:
            raise IdentificationError(
                f'parameters: {parameter.name}: {parameter.field} is switched off: leave out '
                f'{option}'
            )
