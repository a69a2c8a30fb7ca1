"""Identify bodies from recordings, and check that they explain them."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import named_errors
from emppi_ros.identify.rigid_body import arm, composite_bodies, motion_samples, torque_fit
from emppi_ros.identify.rigid_body.body_posterior import BodyConstraints, InertialPrior
from emppi_ros.identify.rigid_body.composite_bodies import ParameterMap
from emppi_ros.identify.rigid_body.physical_consistency import BODY_PARAMETERS
from emppi_ros.identify.rigid_body.recordings import RecordedArm
from emppi_ros.identify.rigid_body.torque_fit import TorqueFit, estimate_lag
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_MAX_UNEXPLAINED = 0.2  # of a torque's standard deviation
_STANDARD_ERRORS = 4.0  # of a mean square: more is significant
_SIMILARITY, _MAX_RATIO = 0.8, 5.0  # correlation and ratio that indicate wrong units
_MAX_LAG_S, _LAG_SHARE = 0.01, 0.5  # larger lags that explain more of the excess are errors
_RANK = 1e-8  # relative to the largest: smaller ones are unexcited
_SIGNIFICANT = 10.0  # standard deviations: inconsistent bodies or recordings
_RECORDING_ADVICE = (
    'that torques are those at the links, with gravity in them, their signs and clock, that '
    'nothing was touched, and what is welded to the links'
)
_PAYLOAD_ADVICE = (
    'that the same was held as in the other recordings, each of which is explained alone'
)


def check_units(model: mujoco.MjModel, samples: motion_samples.MotionSamples) -> None:
    """Raise if torques are those of the scene times a large or a negative factor."""
    states, torque = samples
    needed = arm.motion_torques(model, states)
    for j, name in enumerate(scene.names(model, 'joint')):
        product = float(torque[:, j] @ needed[:, j])
        size = float(needed[:, j] @ needed[:, j])
        alike = product / np.sqrt(size * float(torque[:, j] @ torque[:, j]))
        ratio = product / size
        if abs(alike) > _SIMILARITY and not 1.0 / _MAX_RATIO < ratio < _MAX_RATIO:
            raise IdentificationError(
                f'joint {name!r}: torques are {ratio:.3g} times those of the model: check '
                + ('their sign' if ratio < 0.0 else 'units, or the gear')
            )


def check_lag(lag_s: float, share: float) -> None:
    """Raise if a lag of torques explains most of the excess residual."""
    if abs(lag_s) > _MAX_LAG_S and share > _LAG_SHARE:
        raise IdentificationError(
            f'unsynchronised: torques lag the motion by {lag_s:.3g} s: record both on one '
            f'clock without lagging filters, or use --lag {-lag_s:.2g}'
        )


def check_residuals(
    model: mujoco.MjModel, torque: Array, square: Array, variance: Array, why: str
) -> None:
    """Raise if the mean square (nv,) of residual torques exceeds that of the noise by much."""
    slack = 1.0 + _STANDARD_ERRORS * np.sqrt(2.0 / len(torque))
    for j, name in enumerate(scene.names(model, 'joint')):
        lacking = np.sqrt(max(square[j] - slack * variance[j], 0.0))
        if lacking > _MAX_UNEXPLAINED * torque[:, j].std():
            raise IdentificationError(
                f'joint {name!r}: the model does not match: residuals of {lacking:.3g} N m (or N) '
                f'remain of torques that vary by {torque[:, j].std():.3g} (rms): check {why}'
            )


def mean_squares(found: Array, covariance: Array) -> tuple[Array, Array]:
    """Return the mean square (nv,) of residuals, and of the expected noise."""
    variance = np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0)
    return np.mean(found**2, axis=0), variance


def disagreement(alone: Sequence[TorqueFit], together: TorqueFit, numbers: int) -> str:
    """
    Return a message if recordings do not agree, else an empty string.

    If recordings that each were fitted alone agree on `numbers` common parameters, chi-squared
    rises in a joint fit by about that many for each recording but one.
    """
    before, after = sum(_chi_squared(one) for one in alone), _chi_squared(together)
    size = together.residuals.size
    gain = after - before - (len(alone) - 1) * numbers
    if gain < max(_SIGNIFICANT**2, 0.5 * (after - size)):
        return ''
    return (
        f'recordings do not agree: together they leave {np.sqrt(after / size):.3g} times what '
        f'noise does, and each alone {np.sqrt(before / size):.3g} times: was the same held in '
        'all of them, and did the arm warm up in between?'
    )


def _chi_squared(found: TorqueFit) -> float:
    """Return the sum of squared residuals in units of their noise."""
    white = np.linalg.solve(found.covariance, found.residuals[:, :, None])
    return float(np.sum(found.residuals[:, :, None] * white))


def check_consistency(
    parameter_map: ParameterMap, constraints: BodyConstraints, found: TorqueFit
) -> None:
    """Raise if physical consistency keeps the bodies from explaining the torques."""
    free, block = constraints.free, np.ix_(constraints.free, constraints.free)
    matrix = found.normal.information[block]
    unit = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    pull = (found.normal.score - found.normal.information @ found.parameters)[free]
    move = unit * np.linalg.lstsq(matrix * np.outer(unit, unit), unit * pull, rcond=_RANK)[0]
    gain = float(pull @ move)  # decrease of chi-squared without the constraint
    before = _chi_squared(found)
    if gain < max(_SIGNIFICANT**2, 0.5 * (before - found.residuals.size)):
        return
    best = found.parameters - constraints.fixed
    best[free] += move
    for index, part in parameter_map.parts.items():
        mass = best[index * BODY_PARAMETERS]
        others = parameter_map.fixed_parts[index]
        if mass < 0.0 and others:
            raise IdentificationError(
                f'body {part.name!r}: no mass is left for it: the best fit is {mass:.3g} kg, with '
                f'{sum(p.parameters[0] for p in others):.4g} kg in the scene for the bodies it is '
                f'welded to: check {", ".join(p.name for p in others)}'
            )
    raise IdentificationError(
        'no physically consistent bodies explain these torques: inconsistent ones explain '
        f'{100.0 * gain / before:.0f} % of the residuals: check {_welded_names(parameter_map)} '
        'in the scene, and units, signs and clocks of the recording'
    )


def _welded_names(parameter_map: ParameterMap) -> str:
    parts = [part.name for others in parameter_map.fixed_parts.values() for part in others]
    return ', '.join(parts) or 'the links'


class RigidBodyEstimate(NamedTuple):
    """Identified bodies, and diagnostics of each recording."""

    parameter_map: ParameterMap
    constraints: BodyConstraints
    fit: TorqueFit  # of all recordings together
    noise_factors: Array  # (R, nv) ratios of residuals to noise, at least 1
    lags_s: tuple[float, ...]  # lag of torques behind the motion in each recording
    prior: InertialPrior
    note: str  # warning if recordings do not agree


def identify_bodies(plant: Plant, arm: RecordedArm, links: bool) -> RigidBodyEstimate:
    """
    Return the bodies that explain all recordings; IdentificationError if none do.

    Each recording is fitted alone first, so that errors name the recording.
    """
    parameter_map = composite_bodies.map_parameters(plant.parameters, arm.model, arm.parts, links)
    constraints = composite_bodies.constraints_from_scene(arm.model, parameter_map)
    prior = InertialPrior()
    model, recordings = arm.model, arm.recordings
    parts = [recording.training for recording in recordings]
    alone, lags = [], []
    for recording in recordings:
        with named_errors(recording.name):
            check_units(model, recording.training.samples)
            one = _fit(model, [recording.training], prior, constraints)
            check_consistency(parameter_map, constraints, one)
            lags.append(_checked_lag(model, recording.training, constraints, one))
            squares = mean_squares(one.residuals, one.covariance)
            check_residuals(model, recording.training.samples.torque, *squares, _RECORDING_ADVICE)
            alone.append(one)
    first, note = alone[0], ''
    if len(recordings) > 1:
        first = _fit(model, parts, prior, constraints)
        note = disagreement(alone, first, np.count_nonzero(constraints.free) + model.nv)
        if not note:
            check_consistency(parameter_map, constraints, first)
    factors = []
    ends = np.cumsum([len(part.samples.torque) for part in parts])[:-1]
    residuals, covariances = np.split(first.residuals, ends), np.split(first.covariance, ends)
    for recording, *found in zip(recordings, residuals, covariances, strict=True):
        square, variance = mean_squares(*found)
        with named_errors(recording.name):
            torque = recording.training.samples.torque
            check_residuals(model, torque, square, variance, _PAYLOAD_ADVICE)
        factors.append(np.sqrt(np.maximum(square / variance, 1.0)))
    more = [
        part._replace(noise=part.noise._replace(torque=part.noise.torque * factor))
        for part, factor in zip(parts, factors, strict=True)
    ]
    last = _fit(model, more, prior, constraints)
    return RigidBodyEstimate(
        parameter_map, constraints, last, np.array(factors), tuple(lags), prior, note
    )


def _fit(
    model: mujoco.MjModel,
    parts: Sequence[motion_samples.DifferentiatedMotion],
    prior: InertialPrior,
    constraints: BodyConstraints,
) -> TorqueFit:
    samples, noise, extra = motion_samples.concatenate(parts)
    return torque_fit.fit_torques(model, samples, noise, prior, constraints, extra)


def _checked_lag(
    model: mujoco.MjModel,
    part: motion_samples.DifferentiatedMotion,
    constraints: BodyConstraints,
    found: TorqueFit,
) -> float:
    """Return the lag of torques in s; IdentificationError if it is too large."""
    samples, _, extra = motion_samples.concatenate([part])
    late, share = estimate_lag(model, samples.states, extra, constraints.free, found, part.step_s)
    check_lag(late, share)
    return late
