"""What a joint's torque has besides bodies, in known shapes: dry friction, a sensor's offset."""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import arm, body_posterior
from emppi_ros.identify.rigid_body.motion_samples import MotionNoise, MotionSamples, estimate_noise
from emppi_ros.identify.rigid_body.regressor import regressor

Array = npt.NDArray[np.float64]
_PRIOR_SCALE = 10.0  # of a joint's torque, rms: by as much they may be off, before
_MAX_ITERATIONS = 12  # at most
_MIN_VARIANCE = 1e-30  # of a variance: what has no noise does not move
_CONVERGED_CHANGE = (
    1e-2  # rms change of the motion at which to end, in standard deviations of its noise
)
_RANK = 1e-8  # of the largest: what no motion shows


class NonInertialTorques(NamedTuple):
    """Numbers (nv, e) that are most likely, given bodies b (11 B,): `alone` - `gain` b."""

    alone: Array  # (nv e,)
    gain: Array  # (nv e, 11 B)
    mixed: Array  # (11 B, nv e) of the normal equations
    inner: Array  # (nv e, nv e) likewise
    joints: int

    def given(self, bodies: Array) -> Array:
        """Return them (nv, e)."""
        return (self.alone - self.gain @ bodies).reshape(self.joints, -1)

    def draw(self, bodies: Array, spread: float, rng: np.random.Generator) -> Array:
        """Return draws (n, nv, e) of them given bodies (n, 11 B), with `spread` times the sd."""
        root = np.linalg.cholesky(self.inner)
        normal = rng.standard_normal((len(root), len(bodies)))
        found = self.alone - bodies @ self.gain.T + spread * np.linalg.solve(root.T, normal).T
        return found.reshape(len(bodies), self.joints, -1)


def eliminate_non_inertial(
    white: Array, torque: Array, shapes: Array | None, x: Array, y: Array
) -> NonInertialTorques:
    """
    Return what takes these numbers out of the normal equations of bodies.

    `white` (n, nv, nv) takes torques (n, nv) to units of their noise, in which x (n nv, 11 B)
    and y (n nv,) are; a joint's torque has `shapes` (n, nv, e) times its numbers.
    """
    n, nv = torque.shape
    shapes = np.zeros((n, nv, 0)) if shapes is None else shapes
    own = np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]
    z = (white @ own.reshape(n, nv, -1)).reshape(n * nv, -1)
    before = np.repeat(_PRIOR_SCALE * np.sqrt(np.mean(torque**2, axis=0)), shapes.shape[2])
    inner = z.T @ z + np.diag(before**-2.0)
    mixed = x.T @ z
    alone, gain = np.linalg.solve(inner, z.T @ y), np.linalg.solve(inner, mixed.T)
    return NonInertialTorques(alone, gain, mixed, inner, nv)


class NormalEquations(NamedTuple):
    """Normal equations of bodies, and what else torques have, given these."""

    information: Array  # (11 B, 11 B) X' S^-1 X
    score: Array  # (11 B,) X' S^-1 y
    others: NonInertialTorques


class TorqueFit(NamedTuple):
    """What was found."""

    parameters: Array  # (11 B,) as in `regressor`
    states: Array  # (3, n, nv) the motion without noise
    normal: NormalEquations  # equations of the parameters
    others: Array  # (nv, e) what else torques have
    left: Array  # (n, nv) of torques, along the motion as it was measured
    covariance: Array  # (n, nv, nv) of these, if the noise is what it was said to be
    predicted: Array  # (n, nv) torques
    turns: int


def normal_equations(
    model: mujoco.MjModel, states: Array, target: Array, covariance: Array, extra: Array | None
) -> NormalEquations:
    """Return them for torques (n, nv) with covariances (n, nv, nv); `extra` as in `fit`."""
    n, nv = target.shape
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    x = (white @ regressor(model, *states).reshape(n, nv, -1)).reshape(n * nv, -1)
    y = (white @ target[:, :, None]).ravel()
    others = eliminate_non_inertial(white, target, extra, x, y)
    return NormalEquations(
        x.T @ x - others.mixed @ others.gain, x.T @ y - others.mixed @ others.alone, others
    )


def fit_torques(
    model: mujoco.MjModel,
    recording: MotionSamples,
    noise: MotionNoise | None = None,
    everyday: body_posterior.InertialPrior | None = None,
    known: body_posterior.BodyConstraints | None = None,
    extra: Array | None = None,
) -> TorqueFit:
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
    noise = noise or estimate_noise(recording)
    if recording.torque.shape != recording.states.shape[1:]:
        raise IdentificationError(
            f'states {recording.states.shape} and torques {recording.torque.shape} do not match'
        )
    if not np.all(noise.torque > 0.0):
        raise IdentificationError('torques without noise: expected some, for it weighs them')
    noise = noise.of_each(len(recording.torque))
    own = noise.torque[:, :, None] ** 2 * np.eye(model.nv)
    variance = _flatten(noise.states) ** 2
    normal = normal_equations(model, recording.states, recording.torque, own, extra)
    found = body_posterior.fit_bodies(normal.information, normal.score, everyday, known)
    seen, states = _flatten(recording.states), recording.states
    turns, change = 0, np.inf
    while turns < _MAX_ITERATIONS and change > _CONVERGED_CHANGE:
        turns += 1
        slopes = arm.torque_jacobian(arm.with_parameters(model, found), states)
        gain = variance[:, :, None] * np.swapaxes(slopes, 1, 2)
        covariance = slopes @ gain + own
        target = recording.torque - _matvec(slopes, seen - _flatten(states))
        normal = normal_equations(model, states, target, covariance, extra)
        found = body_posterior.fit_bodies(normal.information, normal.score, everyday, known)
        left = target - arm.motion_torques(arm.with_parameters(model, found), states)
        others = normal.others.given(found)
        left -= 0.0 if extra is None else np.sum(extra * others, axis=2)
        moved = seen + _matvec(gain, np.linalg.solve(covariance, left[:, :, None])[:, :, 0])
        steps = (moved - _flatten(states)) / np.sqrt(np.maximum(variance, _MIN_VARIANCE))
        change = float(np.sqrt(np.mean(steps**2)))
        states = np.stack(np.split(moved, 3, axis=1))
    return TorqueFit(
        found, states, normal, others, left, covariance, recording.torque - left, turns
    )


def _flatten(states: Array) -> Array:
    """Return states (3, n, nv) as (n, 3 nv)."""
    return np.concatenate(states, axis=1)


def _matvec(matrices: Array, vectors: Array) -> Array:
    return (matrices @ vectors[:, :, None])[:, :, 0]


def estimate_lag(
    model: mujoco.MjModel, states: Array, shapes: Array, free: npt.NDArray[np.bool_],
    found: TorqueFit, step: float,
) -> tuple[float, float]:  # fmt: skip
    """
    Return by how much torques are late, in s, and how much of what is left beside noise that is.

    A late torque lacks its own rate times the lag. What is left of torques after a fit is
    regressed on that, and on what bodies (`free` of them) and others, in their `shapes`
    (n, nv, e), have taken of it; samples of states (3, n, nv) are `step` apart.
    """
    n, nv, count = shapes.shape
    weight = 1.0 / np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)).ravel()
    rate = np.gradient(found.predicted, step, axis=0).ravel()
    others = (np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]).reshape(n * nv, nv * count)
    rows = np.column_stack([regressor(model, *states)[:, free], others, -rate])
    rows *= weight[:, None]
    units = np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    rows, left = rows / units, found.left.ravel() * weight
    best = np.linalg.lstsq(rows, left, rcond=_RANK)[0]
    without = rows[:, :-1] @ np.linalg.lstsq(rows[:, :-1], left, rcond=_RANK)[0]
    before, after = (float(np.sum((left - x) ** 2)) for x in (without, rows @ best))
    return float(best[-1] / units[-1]), (before - after) / max(before - len(left), 1.0)
