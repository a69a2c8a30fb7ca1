"""Whether bodies that can be explain a recording; errors say what may be wrong with it."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import named_errors
from emppi_ros.identify.rigid_body import arm, composite_bodies, torque_fit
from emppi_ros.identify.rigid_body.body_posterior import BodyConstraints, InertialPrior
from emppi_ros.identify.rigid_body.composite_bodies import ParameterMap
from emppi_ros.identify.rigid_body.motion_samples import (
    DifferentiatedMotion,
    MotionSamples,
    concatenate,
)
from emppi_ros.identify.rigid_body.physical_consistency import BODY_PARAMETERS
from emppi_ros.identify.rigid_body.recordings import RecordedArm
from emppi_ros.identify.rigid_body.torque_fit import TorqueFit, estimate_lag
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_MAX_UNEXPLAINED = 0.2  # of what a torque varies by
_STANDARD_ERRORS = 4.0  # standard errors of a mean square: more is no accident
_SIMILARITY, _MAX_RATIO = 0.8, 5.0  # torques that are alike, but for a factor as large
_MAX_LAG_S, _LAG_SHARE = 0.01, 0.5  # as of velocities; else it is something else that torques lack
_RANK = 1e-8  # of the largest: what no motion shows
_SIGNIFICANT = 10.0  # standard deviations from any body that can be, or from what others say
_RECORDING_ADVICE = (
    'that torques are those at the links, with gravity in them, their signs and clock, that '
    'nothing was touched, and what is welded to the links'
)
_PAYLOAD_ADVICE = (
    'that the same was held as in the other recordings, each of which is explained alone'
)


def check_units(model: mujoco.MjModel, recording: MotionSamples) -> None:
    """Raise if torques are those of the scene times a large or a negative number."""
    states, torque = recording
    needed = arm.motion_torques(model, states)
    for j, name in enumerate(scene.names(model, 'joint')):
        product = float(torque[:, j] @ needed[:, j])
        size = float(needed[:, j] @ needed[:, j])
        alike = product / np.sqrt(size * float(torque[:, j] @ torque[:, j]))
        ratio = product / size
        if abs(alike) > _SIMILARITY and not 1.0 / _MAX_RATIO < ratio < _MAX_RATIO:
            raise IdentificationError(
                f'joint {name!r}: torques are {ratio:.3g} times what the model needs: check '
                + ('their sign' if ratio < 0.0 else 'units, or the gear')
            )


def check_lag(lag_s: float, share: float) -> None:
    """Raise if a lag of torques explains most of what is left of them."""
    if abs(lag_s) > _MAX_LAG_S and share > _LAG_SHARE:
        raise IdentificationError(
            f'unsynchronised: torques come {lag_s:.3g} s behind the motion that they make: record '
            f'both on one clock, and without filters that lag, or give --lag {-lag_s:.2g}'
        )


def check_residuals(
    model: mujoco.MjModel, torque: Array, found: Array, covariance: Array, why: str
) -> None:
    """Raise if bodies leave more (n, nv) of a joint's torque than noise (n, nv, nv) does."""
    square, variance = mean_squares(found, covariance)
    slack = 1.0 + _STANDARD_ERRORS * np.sqrt(2.0 / len(torque))
    for j, name in enumerate(scene.names(model, 'joint')):
        lacking = np.sqrt(max(square[j] - slack * variance[j], 0.0))
        if lacking > _MAX_UNEXPLAINED * torque[:, j].std():
            raise IdentificationError(
                f'joint {name!r}: the model does not match: bodies that can be leave '
                f'{lacking:.3g} N m (or N) of torques that vary by {torque[:, j].std():.3g} '
                f'(rms): check {why}'
            )


def mean_squares(found: Array, covariance: Array) -> tuple[Array, Array]:
    """Return each joint's (nv,) mean square of what is left, and of noise."""
    variance = np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0)
    return np.mean(found**2, axis=0), variance


def disagreement(alone: Sequence[TorqueFit], together: TorqueFit, numbers: int) -> str:
    """
    Return in words that recordings do not agree, if they do not.

    Each was explained alone, by `numbers` that are now the same for all: if they agree, squares
    rise by no more than so many for each but one, give or take.
    """
    before, after = sum(_chi_squared(one) for one in alone), _chi_squared(together)
    size = together.left.size
    gain = after - before - (len(alone) - 1) * numbers
    if gain < max(_SIGNIFICANT**2, 0.5 * (after - size)):
        return ''
    return (
        f'recordings do not agree: together they leave {np.sqrt(after / size):.3g} times what '
        f'noise does, and each alone {np.sqrt(before / size):.3g} times: was the same held in '
        'all of them, and did the arm warm up in between?'
    )


def _chi_squared(found: TorqueFit) -> float:
    """Return the squares of what is left, in units of its noise."""
    white = np.linalg.solve(found.covariance, found.left[:, :, None])
    return float(np.sum(found.left[:, :, None] * white))


def check_consistency(of: ParameterMap, known: BodyConstraints, found: TorqueFit) -> None:
    """Raise if it is the bodies' being possible that keeps torques from being explained."""
    free, block = known.free, np.ix_(known.free, known.free)
    matrix = found.normal.information[block]
    unit = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    pull = (found.normal.score - found.normal.information @ found.parameters)[free]
    move = unit * np.linalg.lstsq(matrix * np.outer(unit, unit), unit * pull, rcond=_RANK)[0]
    gain = float(pull @ move)  # by which squares fall where anything is allowed
    before = _chi_squared(found)
    if gain < max(_SIGNIFICANT**2, 0.5 * (before - found.left.size)):
        return
    best = found.parameters - known.fixed
    best[free] += move
    for whole, part in of.bodies.items():
        mass = best[whole * BODY_PARAMETERS]
        others = of.others[whole]
        if mass < 0.0 and others:
            raise IdentificationError(
                f'body {part.name!r}: nothing is left for it: best were {mass:.3g} kg, with '
                f'{sum(p.own[0] for p in others):.4g} kg of what it is welded to, as the scene '
                f'has it: {", ".join(p.name for p in others)}: check these'
            )
    raise IdentificationError(
        'no bodies that can be explain these torques: bodies that cannot be explain '
        f'{100.0 * gain / before:.0f} % of what is left: check {_welded_names(of)} in the '
        'scene, and units, signs and clocks of the recording'
    )


def _welded_names(of: ParameterMap) -> str:
    parts = [part.name for others in of.others.values() for part in others]
    return ', '.join(parts) or 'the links'


class RigidBodyEstimate(NamedTuple):
    """Bodies, and what is known of them."""

    named: ParameterMap
    known: BodyConstraints
    estimate: TorqueFit  # of all recordings, one after the other
    factors: Array  # (R, nv) by which torques of each are off more than by their noise
    lags_s: tuple[float, ...]  # of each, of torques behind the motion
    everyday: InertialPrior
    note: str  # where recordings do not agree


def identify_bodies(plant: Plant, recorded: RecordedArm, links: bool) -> RigidBodyEstimate:
    """
    Return the bodies that explain all recordings; IdentificationError if none do.

    Each must be explained alone first, so that an error has its name.
    """
    of = composite_bodies.map_parameters(plant.parameters, recorded.model, recorded.parts, links)
    known, everyday = composite_bodies.constraints_from_scene(recorded.model, of), InertialPrior()
    model, motions, parts = recorded.model, recorded.motions, [m.known for m in recorded.motions]
    alone, lags = [], []
    for motion in motions:
        with named_errors(motion.name):
            check_units(model, motion.known.recording)
            one = _fit(model, [motion.known], everyday, known)
            check_consistency(of, known, one)
            lags.append(_checked_lag(model, motion.known, known, one))
            check_residuals(
                model, motion.known.recording.torque, one.left, one.covariance, _RECORDING_ADVICE
            )
            alone.append(one)
    first, note = alone[0], ''
    if len(motions) > 1:
        first = _fit(model, parts, everyday, known)
        note = disagreement(alone, first, np.count_nonzero(known.free) + model.nv)
        if not note:
            check_consistency(of, known, first)
    factors = []
    for motion, (left, covariance) in zip(motions, _split_residuals(first, parts), strict=True):
        with named_errors(motion.name):
            check_residuals(
                model, motion.known.recording.torque, left, covariance, _PAYLOAD_ADVICE
            )
        square, variance = mean_squares(left, covariance)
        factors.append(np.sqrt(np.maximum(square / variance, 1.0)))
    more = [
        part._replace(noise=part.noise._replace(torque=part.noise.torque * factor))
        for part, factor in zip(parts, factors, strict=True)
    ]
    last = _fit(model, more, everyday, known)
    return RigidBodyEstimate(of, known, last, np.array(factors), tuple(lags), everyday, note)


def _split_residuals(
    found: TorqueFit, parts: Sequence[DifferentiatedMotion]
) -> list[tuple[Array, Array]]:
    """Return what is left of the torques of each recording, and its covariances."""
    ends = np.cumsum([len(part.recording.torque) for part in parts])[:-1]
    return list(zip(np.split(found.left, ends), np.split(found.covariance, ends), strict=True))


def _fit(
    model: mujoco.MjModel,
    parts: Sequence[DifferentiatedMotion],
    everyday: InertialPrior,
    known: BodyConstraints,
) -> TorqueFit:
    motion, noise, extra = concatenate(parts)
    return torque_fit.fit_torques(model, motion, noise, everyday, known, extra)


def _checked_lag(
    model: mujoco.MjModel, part: DifferentiatedMotion, known: BodyConstraints, found: TorqueFit
) -> float:
    """Return by how much torques are late, in s; IdentificationError if that is too much."""
    motion, _, extra = concatenate([part])
    late, share = estimate_lag(model, motion.states, extra, known.free, found, part.step_s)
    check_lag(late, share)
    return late
