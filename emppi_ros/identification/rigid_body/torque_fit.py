"""
Maximum-likelihood fit of bodies to noisy torques and noisy motion.

The columns of the regressor have different noise, all of which stems from positions, velocities
and accelerations. So the motion s is estimated along with the parameters b: deviations of the
measured motion and torques count in units of their noise (orthogonal distance regression). With
torques linearized about the current estimate, X(s) b + J ds, the motion is eliminated: it adds J V
J' to the covariance of torques, V being that of the measured motion. The remaining linear
regression for b alternates with updates of the motion.

Torques that are linear in other unknowns, such as dry friction and sensor offsets, are eliminated
from the normal equations of the bodies.
"""

from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import arm, body_posterior
from emppi_ros.identification.rigid_body.motion_samples import (
    MotionNoise,
    MotionSamples,
    estimate_noise,
)
from emppi_ros.identification.rigid_body.regressor import regressor

_PRIOR_SCALE = 10.0  # prior sd of non-inertial torques, in units of the rms torque
_UNUSED = 1e-6  # likewise, where the shape is zero: the coefficient is, too
_MAX_ITERATIONS = 12
_MIN_VARIANCE = 1e-30  # variances below are zero: no update
_CONVERGED_CHANGE = 1e-2  # rms change of the motion, in standard deviations of its noise
_RANK = 1e-8  # relative to the largest: smaller ones are unexcited


class NonInertialTorques(NamedTuple):
    """Coefficients (nv, e) of non-inertial torques given bodies b: `constant` - `gain` b."""

    constant: Array  # (nv e,)
    gain: Array  # (nv e, 12 B)
    cross: Array  # (12 B, nv e) block of the normal equations
    information: Array  # (nv e, nv e) block of the normal equations
    joints: int

    def given(self, bodies: Array) -> Array:
        """Return the most likely coefficients (nv, e) given bodies (12 B,)."""
        return (self.constant - self.gain @ bodies).reshape(self.joints, -1)

    def draw(self, bodies: Array, spread: float, rng: np.random.Generator) -> Array:
        """Return samples (n, nv, e) given bodies (n, 12 B), with `spread` times the sd."""
        root = np.linalg.cholesky(self.information)
        normal = rng.standard_normal((len(root), len(bodies)))
        drawn = self.constant - bodies @ self.gain.T + spread * np.linalg.solve(root.T, normal).T
        return drawn.reshape(len(bodies), self.joints, -1)


def eliminate_non_inertial(
    white: Array, torque: Array, shapes: Array | None, x: Array, y: Array
) -> NonInertialTorques:
    """
    Return the elimination of non-inertial torques from the normal equations of bodies.

    `white` (n, nv, nv) whitens torques (n, nv); x (n nv, 12 B) and y (n nv,) are whitened. The
    non-inertial torque of a joint is `shapes` (n, nv, e) times its coefficients.
    """
    n, nv = torque.shape
    shapes = np.zeros((n, nv, 0)) if shapes is None else shapes
    by_joint = np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]
    z = (white @ by_joint.reshape(n, nv, -1)).reshape(n * nv, -1)
    scale = np.where(shapes.any(axis=0), _PRIOR_SCALE, _UNUSED)
    before = (scale * np.sqrt(np.mean(torque**2, axis=0))[:, None]).ravel()
    information = z.T @ z + np.diag(before**-2.0)
    cross = x.T @ z
    constant = np.asarray(np.linalg.solve(information, z.T @ y), np.float64)
    gain = np.asarray(np.linalg.solve(information, cross.T), np.float64)
    return NonInertialTorques(constant, gain, cross, information, nv)


class NormalEquations(NamedTuple):
    """Normal equations of bodies after elimination of non-inertial torques."""

    information: Array  # (12 B, 12 B) X' S^-1 X
    score: Array  # (12 B,) X' S^-1 y
    non_inertial: NonInertialTorques


class TorqueFit(NamedTuple):
    """Result of `fit_torques`."""

    parameters: Array  # (12 B,) as in `regressor`
    states: Array  # (3, n, nv) estimated motion
    normal: NormalEquations  # of the parameters
    coefficients: Array  # (nv, e) of non-inertial torques
    residuals: Array  # (n, nv) of torques, along the measured motion
    covariance: Array  # (n, nv, nv) expected of residuals
    predicted: Array  # (n, nv) torques
    iterations: int


def normal_equations(
    model: mujoco.MjModel, states: Array, target: Array, covariance: Array, extra: Array | None
) -> NormalEquations:
    """Return those of torques (n, nv) with covariances (n, nv, nv); see `fit_torques`."""
    n, nv = target.shape
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    x = (white @ regressor(model, *states).reshape(n, nv, -1)).reshape(n * nv, -1)
    y = (white @ target[:, :, None]).ravel()
    non_inertial = eliminate_non_inertial(white, target, extra, x, y)
    information = x.T @ x - non_inertial.cross @ non_inertial.gain
    score = x.T @ y - non_inertial.cross @ non_inertial.constant
    return NormalEquations(information, score, non_inertial)


def fit_torques(
    model: mujoco.MjModel,
    samples: MotionSamples,
    noise: MotionNoise | None = None,
    prior: body_posterior.InertialPrior | None = None,
    constraints: body_posterior.BodyConstraints | None = None,
    extra: Array | None = None,
) -> TorqueFit:
    """
    Return the bodies that explain samples of one recording, or of several concatenated.

    The model is as for `regressor`; its masses have no effect. The noise is estimated by default.
    `extra` (n, nv, e) are shapes of non-inertial torques, such as 1 for an offset, with unknown
    coefficients. IdentificationError if shapes do not match, or a torque has no noise or never
    changes.
    """
    noise = noise or estimate_noise(samples)
    if samples.torque.shape != samples.states.shape[1:]:
        raise IdentificationError(
            f'states {samples.states.shape} and torques {samples.torque.shape} do not match'
        )
    if not np.all(noise.torque > 0.0):
        raise IdentificationError('torques have no noise: it must be positive to weigh them')
    noise = noise.of_each(len(samples.torque))
    torque_covariance = noise.torque[:, :, None] ** 2 * np.eye(model.nv)
    variance = _flatten(noise.states) ** 2
    normal = normal_equations(model, samples.states, samples.torque, torque_covariance, extra)
    bodies = body_posterior.fit_bodies(normal.information, normal.score, prior, constraints)
    measured, states = _flatten(samples.states), samples.states
    iterations, change = 0, np.inf
    while iterations < _MAX_ITERATIONS and change > _CONVERGED_CHANGE:
        iterations += 1
        slopes = arm.torque_jacobian(arm.with_parameters(model, bodies), states)
        gain = variance[:, :, None] * np.swapaxes(slopes, 1, 2)
        covariance = slopes @ gain + torque_covariance
        target = samples.torque - _matvec(slopes, measured - _flatten(states))
        normal = normal_equations(model, states, target, covariance, extra)
        bodies = body_posterior.fit_bodies(normal.information, normal.score, prior, constraints)
        residuals = target - arm.motion_torques(arm.with_parameters(model, bodies), states)
        non_inertial = normal.non_inertial.given(bodies)
        residuals -= 0.0 if extra is None else np.sum(extra * non_inertial, axis=2)
        white = np.asarray(np.linalg.solve(covariance, residuals[:, :, None]), np.float64)
        moved = measured + _matvec(gain, white[:, :, 0])
        steps = (moved - _flatten(states)) / np.sqrt(np.maximum(variance, _MIN_VARIANCE))
        change = float(np.sqrt(np.mean(steps**2)))
        states = np.stack(np.split(moved, 3, axis=1))
    modelled = samples.torque - residuals
    return TorqueFit(
        bodies, states, normal, non_inertial, residuals, covariance, modelled, iterations
    )


def _flatten(states: Array) -> Array:
    """Return states (3, n, nv) as (n, 3 nv)."""
    return np.concatenate(states, axis=1)


def _matvec(matrices: Array, vectors: Array) -> Array:
    return (matrices @ vectors[:, :, None])[:, :, 0]


def linear_columns(model: mujoco.MjModel, states: Array, shapes: Array, free: Bools) -> Array:
    """
    Return the regressor (n nv, p) of the free parameters of bodies and of non-inertial torques.

    `shapes` (n, nv, e) are those of the latter; joints follow one another.
    """
    n, nv, count = shapes.shape
    by_joint = (np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]).reshape(n * nv, nv * count)
    return np.column_stack([regressor(model, *states)[:, free], by_joint])


def estimate_lag(
    model: mujoco.MjModel, states: Array, shapes: Array, free: Bools,
    fit: TorqueFit, step: float,
) -> tuple[float, float]:  # fmt: skip
    """
    Return the lag of torques, in s, and the share of the excess residual that it explains.

    A lagging torque deviates by minus the lag times its rate. The residuals of a fit are regressed
    on that rate, together with the free columns of bodies and the `shapes` (n, nv, e) of
    non-inertial torques. Samples of states (3, n, nv) are `step` apart.
    """
    weight = 1.0 / np.sqrt(np.diagonal(fit.covariance, axis1=1, axis2=2)).ravel()
    rate = np.gradient(fit.predicted, step, axis=0).ravel()
    rows = np.column_stack([linear_columns(model, states, shapes, free), -rate])
    rows *= weight[:, None]
    units = np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    rows, residuals = rows / units, fit.residuals.ravel() * weight
    best = np.linalg.lstsq(rows, residuals, rcond=_RANK)[0]
    without = rows[:, :-1] @ np.linalg.lstsq(rows[:, :-1], residuals, rcond=_RANK)[0]
    before, after = (float(np.sum((residuals - x) ** 2)) for x in (without, rows @ best))
    return float(best[-1] / units[-1]), (before - after) / max(before - len(residuals), 1.0)
