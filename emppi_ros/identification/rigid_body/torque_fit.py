"""
Maximum-likelihood fit of bodies to noisy torques and noisy motion.

The motion s is estimated along with the parameters b: deviations of the measured motion and
torques count in units of their noise (orthogonal distance regression). With torques linearized
about the current estimate, X(s) b + J ds, the motion is eliminated: it adds J V J' to the
covariance of torques, V being that of the measured motion. The linear regression for b alternates
with updates of the motion. Torques that are linear in other unknowns, such as dry friction and
sensor offsets, are eliminated from the normal equations of the bodies.

Dry friction is s(v) (c + d exp(-(v / u)^2)), for the sign s of the velocity v: Coulomb friction c
and Stribeck friction d (Armstrong-Helouvry, Dupont and Canudas de Wit 1994), which is negative in
harmonic drives. For the Stribeck velocity u, values are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.config import key
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification import methods
from emppi_ros.identification.rigid_body import arm
from emppi_ros.identification.rigid_body.arm import regressor
from emppi_ros.identification.rigid_body.body_posterior import (
    BodyConstraints,
    InertialPrior,
    fit_bodies,
)
from emppi_ros.identification.rigid_body.motion_samples import DifferentiatedMotion, MotionSamples
from emppi_ros.recordings.noise import correlation_time

DRY, STRIBECK, OFFSETS = 0, 1, 2  # columns of shapes and coefficients; one offset per recording
_SPEEDS = (0.02, 0.04, 0.08, 0.15, 0.3)  # Stribeck velocities, relative to the largest speed
_MIN_GAIN = 10.0  # of chi-squared per new parameter, in units of the residual
_PRIOR_SCALE = 10.0  # prior sd of non-inertial torques, in units of the rms torque
_UNUSED = 1e-6  # likewise, where the shape is zero: the coefficient is, too
_MAX_ITERATIONS = 12
_MIN_VARIANCE = 1e-30  # variances below are zero: no update
_CONVERGED_CHANGE = 1e-2  # rms change of the motion, in standard deviations of its noise
_RANK = 1e-8  # relative to the largest: smaller ones are unexcited


@dataclass(frozen=True)
class RigidBodyOptions:
    """Options of the method `rigid-body`."""

    links: Literal['known', 'unknown'] = key(
        'known', doc='whether bodies without a parameter are as in the scene, or unknown as well'
    )
    friction: Literal['stribeck', 'coulomb', 'viscous', 'none'] = key(
        'stribeck',
        doc='unknown friction of each joint: Stribeck friction (where the data show it) with all '
        'of coulomb, dry friction with viscous, viscous friction, or none',
    )
    armature: Literal['unknown', 'known'] = key(
        'unknown',
        doc='whether the inertia of rotors is unknown; known: efforts do not contain its torque, '
        "and commands that of the scene's",
    )
    offset: Literal['unknown', 'none'] = key(
        'unknown', doc='whether the torque of each joint has an unknown offset in each recording'
    )
    spread: float = methods.spread()

    @property
    def dry(self) -> bool:
        """Whether dry friction is unknown."""
        return self.friction in ('stribeck', 'coulomb')


class NormalEquations(NamedTuple):
    """Normal equations of bodies after elimination of non-inertial torques."""

    information: Array  # (12 B, 12 B) X' S^-1 X
    score: Array  # (12 B,) X' S^-1 y
    constant: Array  # (nv e,); coefficients given bodies b are `constant` - `gain` b
    gain: Array  # (nv e, 12 B)
    of_coefficients: Array  # (nv e, nv e) information about coefficients given bodies
    joints: int

    def coefficients(self, bodies: Array) -> Array:
        """Return the most likely coefficients (nv, e) given bodies (12 B,)."""
        return (self.constant - self.gain @ bodies).reshape(self.joints, -1)

    def draw(self, bodies: Array, spread: float, rng: np.random.Generator) -> Array:
        """Return samples (n, nv, e) given bodies (n, 12 B), with `spread` times the sd."""
        root = np.linalg.cholesky(self.of_coefficients)
        normal = rng.standard_normal((len(root), len(bodies)))
        drawn = self.constant - bodies @ self.gain.T + spread * np.linalg.solve(root.T, normal).T
        return drawn.reshape(len(bodies), self.joints, -1)


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


def shapes(
    parts: Sequence[DifferentiatedMotion], options: RigidBodyOptions, stribeck: Array
) -> Array:
    """Return shapes (n, nv, 2 + R) of non-inertial torques; `stribeck` (nv,) may have zeros."""
    count = len(parts)
    rows = [shapes_of(part, options, stribeck, i, count) for i, part in enumerate(parts)]
    return np.concatenate(rows)


def shapes_of(
    part: DifferentiatedMotion, options: RigidBodyOptions, stribeck: Array, index: int, count: int
) -> Array:
    """Return the shapes (n, nv, 2 + count) of a part of the recording at an index."""
    shapes = np.zeros((*part.signs.shape, 2 + count))
    shapes[:, :, DRY] = part.signs * options.dry
    near_rest = np.exp(-((part.samples.states[1] / np.where(stribeck, stribeck, 1.0)) ** 2))
    shapes[:, :, STRIBECK] = shapes[:, :, DRY] * near_rest * (stribeck > 0.0)
    shapes[:, :, OFFSETS + index] = options.offset == 'unknown'
    return shapes


def normal_equations(
    model: mujoco.MjModel, states: Array, target: Array, covariance: Array, shapes: Array
) -> NormalEquations:
    """Return those of torques (n, nv) with covariances (n, nv, nv); see `fit_torques`."""
    n, nv = target.shape
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    x = (white @ regressor(model, *states).reshape(n, nv, -1)).reshape(n * nv, -1)
    y = (white @ target[:, :, None]).ravel()
    z = (white @ _by_joint(shapes)).reshape(n * nv, -1)
    scale = np.where(shapes.any(axis=0), _PRIOR_SCALE, _UNUSED)
    before = (scale * np.sqrt(np.mean(target**2, axis=0))[:, None]).ravel()
    of_coefficients = z.T @ z + np.diag(before**-2.0)
    cross = x.T @ z
    constant = np.asarray(np.linalg.solve(of_coefficients, z.T @ y), np.float64)
    gain = np.asarray(np.linalg.solve(of_coefficients, cross.T), np.float64)
    information, score = x.T @ x - cross @ gain, x.T @ y - cross @ constant
    return NormalEquations(information, score, constant, gain, of_coefficients, nv)


def _by_joint(shapes: Array) -> Array:
    """Return the columns (n, nv, nv e) of shapes (n, nv, e): each joint has its own."""
    n, nv, count = shapes.shape
    return (np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]).reshape(n, nv, nv * count)


def fit_torques(
    model: mujoco.MjModel,
    samples: MotionSamples,
    noise: MotionSamples,
    prior: InertialPrior,
    constraints: BodyConstraints,
    shapes: Array,
) -> TorqueFit:
    """
    Return the bodies that explain samples of one recording, or of several concatenated.

    The model is as for `regressor`; its masses have no effect. `shapes` (n, nv, e) are those of
    non-inertial torques, such as 1 for an offset, with unknown coefficients. IdentificationError
    if a torque has no noise.
    """
    if not np.all(noise.torque > 0.0):
        raise IdentificationError('torques have no noise: it must be positive to weigh them')
    noise = noise.of_each(len(samples.torque))
    torque_covariance = noise.torque[:, :, None] ** 2 * np.eye(model.nv)
    variance = _flatten(noise.states) ** 2
    normal = normal_equations(model, samples.states, samples.torque, torque_covariance, shapes)
    bodies = fit_bodies(normal.information, normal.score, prior, constraints)
    measured, states = _flatten(samples.states), samples.states
    iterations, change = 0, np.inf
    while iterations < _MAX_ITERATIONS and change > _CONVERGED_CHANGE:
        iterations += 1
        slopes = arm.torque_jacobian(arm.with_parameters(model, bodies), states)
        gain = variance[:, :, None] * np.swapaxes(slopes, 1, 2)
        covariance = slopes @ gain + torque_covariance
        target = samples.torque - _matvec(slopes, measured - _flatten(states))
        normal = normal_equations(model, states, target, covariance, shapes)
        bodies = fit_bodies(normal.information, normal.score, prior, constraints)
        residuals = target - arm.motion_torques(arm.with_parameters(model, bodies), states)
        coefficients = normal.coefficients(bodies)
        residuals -= np.sum(shapes * coefficients, axis=2)
        white = np.asarray(np.linalg.solve(covariance, residuals[:, :, None]), np.float64)
        moved = measured + _matvec(gain, white[:, :, 0])
        steps = (moved - _flatten(states)) / np.sqrt(np.maximum(variance, _MIN_VARIANCE))
        change = float(np.sqrt(np.mean(steps**2)))
        states = np.stack(np.split(moved, 3, axis=1))
    modelled = samples.torque - residuals
    return TorqueFit(
        bodies, states, normal, coefficients, residuals, covariance, modelled, iterations
    )


def _flatten(states: Array) -> Array:
    """Return states (3, n, nv) as (n, 3 nv)."""
    return np.concatenate(states, axis=1)


def _matvec(matrices: Array, vectors: Array) -> Array:
    return (matrices @ vectors[:, :, None])[:, :, 0]


def linear_columns(model: mujoco.MjModel, states: Array, shapes: Array, free: Bools) -> Array:
    """Return the regressor (n nv, p) of free parameters of bodies, and of shapes (n, nv, e)."""
    rows = regressor(model, *states)
    return np.column_stack([rows[:, free], _by_joint(shapes).reshape(len(rows), -1)])


def estimate_lag(
    model: mujoco.MjModel, states: Array, shapes: Array, free: Bools,
    fit: TorqueFit, step: float,
) -> tuple[float, float]:  # fmt: skip
    """
    Return the lag of torques, in s, and the share of the excess residual that it explains.

    The residuals of a fit are regressed on the rate of torques, together with the free columns of
    bodies and `shapes` (n, nv, e). Samples of states (3, n, nv) are `step` apart.
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


def choose_stribeck(
    model: mujoco.MjModel,
    parts: Sequence[DifferentiatedMotion],
    options: RigidBodyOptions,
    free: Bools,
    fit: TorqueFit,
) -> Array:
    """
    Return the Stribeck velocity (nv,) of each joint, 0 where the residuals of a fit show none.

    A column of Stribeck friction is added to the linearized fit of one joint at a time. It is
    kept if chi-squared decreases by more than two parameters would by chance, counted in units of
    the residual and of its correlation time, so that other errors of the model do not pass for it.
    """
    nv = model.nv
    chosen = np.zeros(nv)
    if options.friction != 'stribeck':
        return chosen
    rows = linear_columns(model, fit.states, shapes(parts, options, chosen), free)
    weight = 1.0 / np.sqrt(np.diagonal(fit.covariance, axis1=1, axis2=2))
    rows *= weight.ravel()[:, None]
    rows /= np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    basis, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    basis = basis[:, sizes > _RANK * sizes[0]]
    white = weight * fit.residuals
    rest = white.ravel() - basis @ (basis.T @ white.ravel())
    by_joint = rest.reshape(-1, nv)
    fastest = np.max(np.abs(fit.states[1]), axis=0)
    for joint in range(nv):
        unit = float(np.mean(by_joint[:, joint] ** 2)) * correlation_time(by_joint[:, joint])
        best = 2.0 * _MIN_GAIN * unit
        for share in _SPEEDS:
            speed = np.zeros(nv)
            speed[joint] = share * fastest[joint]
            column = np.zeros_like(white)
            column[:, joint] = shapes(parts, options, speed)[:, joint, STRIBECK]
            new = (weight * column).ravel()
            new -= basis @ (basis.T @ new)
            gain = float(new @ rest) ** 2 / max(float(new @ new), np.finfo(float).tiny)
            if gain > best:
                best, chosen[joint] = gain, speed[joint]
    return chosen
