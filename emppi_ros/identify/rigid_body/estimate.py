"""
Bodies of an arm from noisy motion: maximum likelihood with the motion itself unknown.

The regressor's columns differ in noise, and all of it comes from positions, velocities and
accelerations. So these are the unknowns, with the bodies' parameters b: what was measured of the
motion s and the torques counts in units of its noise (orthogonal distance regression). With the
torques linear about the present guess, X(s) b + J ds, the motion can be eliminated: it gives
torques the covariance J V J' besides their own (V of the measured motion). What is left is a
linear regression for b, by turns with the motion.
"""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import arm, bodies
from emppi_ros.identify.rigid_body.others import Others, eliminate
from emppi_ros.identify.rigid_body.recording import Noise, Recording, noise_of
from emppi_ros.identify.rigid_body.regressor import regressor

Array = npt.NDArray[np.float64]
_TURNS = 12  # at most
_TINY = 1e-30  # of a variance: what has no noise does not move
_STILL = 1e-2  # rms change of the motion at which to end, in standard deviations of its noise


class Normal(NamedTuple):
    """Normal equations of bodies, and what else torques have, given these."""

    information: Array  # (11 B, 11 B) X' S^-1 X
    score: Array  # (11 B,) X' S^-1 y
    others: Others


class Estimate(NamedTuple):
    """What was found."""

    parameters: Array  # (11 B,) as in `regressor`
    states: Array  # (3, n, nv) the motion without noise
    normal: Normal  # equations of the parameters
    others: Array  # (nv, e) what else torques have
    left: Array  # (n, nv) of torques, along the motion as it was measured
    covariance: Array  # (n, nv, nv) of these, if the noise is what it was said to be
    predicted: Array  # (n, nv) torques
    turns: int


def normal_equations(
    model: mujoco.MjModel, states: Array, target: Array, covariance: Array, extra: Array | None
) -> Normal:
    """Return them for torques (n, nv) with covariances (n, nv, nv); `extra` as in `fit`."""
    n, nv = target.shape
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    x = (white @ regressor(model, *states).reshape(n, nv, -1)).reshape(n * nv, -1)
    y = (white @ target[:, :, None]).ravel()
    others = eliminate(white, target, extra, x, y)
    return Normal(
        x.T @ x - others.mixed @ others.gain, x.T @ y - others.mixed @ others.alone, others
    )


def fit(
    model: mujoco.MjModel,
    recording: Recording,
    noise: Noise | None = None,
    everyday: bodies.Everyday | None = None,
    known: bodies.Known | None = None,
    extra: Array | None = None,
) -> Estimate:
    """
    Return the bodies that explain a recording, or several that were joined.

    Parameters
    ----------
    model : MjModel
        A fixed-base arm, as for `regressor`; its masses play no part.
    recording : Recording
        Noisy.
    noise : Noise
        If it is known; else what the recording shows.
    everyday : Everyday
        What bodies are like.
    known : Known
        More of that, and what of the bodies is known.
    extra : (n, nv, e) array
        What else each joint's torque may have, such as 1 for an offset, times unknown numbers.

    Raises
    ------
    IdentificationError
        If shapes do not match, or a torque has no noise, or never changes.

    """
    noise = noise or noise_of(recording)
    if recording.torque.shape != recording.states.shape[1:]:
        raise IdentificationError(
            f'states {recording.states.shape} and torques {recording.torque.shape} do not match'
        )
    if not np.all(noise.torque > 0.0):
        raise IdentificationError('torques without noise: expected some, for it weighs them')
    noise = noise.of_each(len(recording.torque))
    own = noise.torque[:, :, None] ** 2 * np.eye(model.nv)
    variance = _flat(noise.states) ** 2
    normal = normal_equations(model, recording.states, recording.torque, own, extra)
    found = bodies.fit(normal.information, normal.score, everyday, known)
    seen, states = _flat(recording.states), recording.states
    turns, change = 0, np.inf
    while turns < _TURNS and change > _STILL:
        turns += 1
        slopes = arm.slopes(arm.with_parameters(model, found), states)
        gain = variance[:, :, None] * np.swapaxes(slopes, 1, 2)
        covariance = slopes @ gain + own
        target = recording.torque - _times(slopes, seen - _flat(states))
        normal = normal_equations(model, states, target, covariance, extra)
        found = bodies.fit(normal.information, normal.score, everyday, known)
        left = target - arm.torques(arm.with_parameters(model, found), states)
        others = normal.others.given(found)
        left -= 0.0 if extra is None else np.sum(extra * others, axis=2)
        moved = seen + _times(gain, np.linalg.solve(covariance, left[:, :, None])[:, :, 0])
        steps = (moved - _flat(states)) / np.sqrt(np.maximum(variance, _TINY))
        change = float(np.sqrt(np.mean(steps**2)))
        states = np.stack(np.split(moved, 3, axis=1))
    return Estimate(
        found, states, normal, others, left, covariance, recording.torque - left, turns
    )


def _flat(states: Array) -> Array:
    """Return states (3, n, nv) as (n, 3 nv)."""
    return np.concatenate(states, axis=1)


def _times(matrices: Array, vectors: Array) -> Array:
    return (matrices @ vectors[:, :, None])[:, :, 0]
