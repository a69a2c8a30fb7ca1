"""
Posterior of inertial parameters: mode and samples for a linear regression with a weak prior.

The prior is weight (tr(P0^-1 P) - log det P) of each pseudo-inertia P, given that of a typical
body P0 (Lee, Wensing and Park 2020), and the same in one dimension for friction and armature. It
is unbounded at the border of physical consistency, so the mode is strictly inside.

Samples are from the Laplace approximation about the mode, restricted to consistent bodies, by
elliptical slice sampling (Murray, Adams and MacKay 2010). Each step moves along a few principal
axes: along all at once, a single body close to the border would block all others.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body.arm import BODY_PARAMETERS, FRICTION, pseudo_inertia

_UNITS = np.stack([pseudo_inertia(e) for e in np.eye(10)])  # (10, 4, 4)
_MAX_STEPS = 300  # per weight
_MIN_EIGENVALUE = 1e-14  # relative to the largest: smaller ones are zero up to rounding
_CONVERGED = 1e-5  # Newton decrement, in units of the prior
_CHAINS, _AXES = 100, 7  # chains, all from the mode; axes per step
_BURN_IN, _THINNING = 600, 20  # steps before the first draws, and between draws


class InertialPrior(NamedTuple):
    """Typical body and joint friction, and the weight of this prior."""

    mass_kg: float = 2.0
    radius_m: float = 0.1
    friction: float = 0.1  # viscous, in N m s/rad
    armature: float = 0.05  # inertia of the rotor at the joint, in kg m^2
    weight: float = 0.1  # of the prior, in observations

    def parameters(self) -> Array:
        """Return the parameters (12,) of the typical body."""
        moment = 0.4 * self.mass_kg * self.radius_m**2
        inertia = [moment, 0.0, 0.0, moment, 0.0, moment]
        return np.array([self.mass_kg, 0.0, 0.0, 0.0, *inertia, self.friction, self.armature])

    def spread(self) -> Array:
        """Return the rough standard deviations (12,) of parameters."""
        first = self.mass_kg * self.radius_m
        inertial = [self.mass_kg, *3 * [first], *6 * [first * self.radius_m]]
        return np.array([*inertial, self.friction, self.armature])


PRIOR = InertialPrior()


class BodyConstraints(NamedTuple):
    """Prior knowledge of B bodies: each is the sum of `fixed` and a body with prior `like`."""

    like: Array  # (12 B,) physically consistent
    fixed: Array  # (12 B,)
    free: Bools  # (12 B,) mask of parameters to identify; others stay as in `like`


def fit_bodies(
    information: Array, score: Array, prior: InertialPrior, constraints: BodyConstraints
) -> Array:
    """
    Return the bodies b (12 B,) that minimize b' information b / 2 - score' b plus the prior.

    `information` X'X may be singular, and `score` is X'y, for a regressor X in units of noise.
    IdentificationError if values are not finite.
    """
    if not (np.isfinite(information).all() and np.isfinite(score).all()):
        raise IdentificationError('torques or motion are not finite')
    score = score - information @ constraints.fixed
    bodies = constraints.like.copy()
    block = np.ix_(constraints.free, constraints.free)
    # Newton takes many steps if the prior is weak: start with a weight for which one step almost
    # suffices, and reduce it by a factor of ten each time
    gradient = (information @ bodies - score)[constraints.free]
    curvature = log_det_derivatives(bodies)[1][block]
    weight = float(np.sqrt(gradient @ np.linalg.solve(curvature, gradient)))
    while True:
        weight = max(0.1 * weight, prior.weight)
        bodies = _damped_newton(bodies, information, score, weight, constraints)
        if weight == prior.weight:
            return constraints.fixed + bodies


def _damped_newton(
    bodies: Array, information: Array, score: Array, weight: float, constraints: BodyConstraints
) -> Array:
    linear = weight * _trace_gradient(constraints.like) - score
    free, block = constraints.free, np.ix_(constraints.free, constraints.free)
    for _ in range(_MAX_STEPS):
        first, second = log_det_derivatives(bodies)
        gradient = (information @ bodies + linear + weight * first)[free]
        curvature = (information + weight * second)[block]
        unit = 1.0 / np.sqrt(np.diag(curvature))  # parameters differ by orders of magnitude
        try:
            step = -unit * np.linalg.solve(curvature * np.outer(unit, unit), unit * gradient)
        except np.linalg.LinAlgError:
            break  # rounding, as below
        decrement = np.sqrt(max(float(-gradient @ step), 0.0) / weight)
        # stays consistent and always descends (self-concordance: Nesterov)
        candidate = bodies.copy()
        candidate[free] += step / (1.0 + decrement)
        rows = candidate.reshape(1, -1, BODY_PARAMETERS)
        if not (np.isfinite(rows).all() and _are_consistent(rows, _MIN_EIGENVALUE).all()):
            break  # rounding: the data are so inconsistent that the mode is at the border
        bodies = candidate
        if decrement < _CONVERGED:
            break
    return bodies


def _are_consistent(rows: Array, least: float) -> Bools:
    """Return which rows (n, B, 12) are consistent: eigenvalues above `least` of the largest."""
    sizes = np.linalg.eigvalsh(np.tensordot(rows[:, :, :10], _UNITS, 1))
    inertial = np.all(sizes[:, :, 0] > least * sizes[:, :, -1], axis=1)
    return inertial & np.all(rows[:, :, 10:] > 0.0, axis=(1, 2))


def _trace_gradient(like: Array) -> Array:
    """Return the gradient (12 B,) of tr(P0^-1 P) and of the terms of joints."""
    rows = like.reshape(-1, BODY_PARAMETERS)
    inverses = np.linalg.inv(np.stack([pseudo_inertia(row) for row in rows]))
    inertial = np.einsum('bij,kji->bk', inverses, _UNITS)
    return np.column_stack([inertial, 1.0 / rows[:, 10:]]).ravel()


def log_det_derivatives(b: Array) -> tuple[Array, Array]:
    """Return gradient (12 B,) and Hessian (12 B, 12 B) of - log det P of all bodies."""
    first, second = np.zeros(len(b)), np.zeros((len(b), len(b)))
    for i, row in enumerate(b.reshape(-1, BODY_PARAMETERS)):
        each = np.linalg.inv(pseudo_inertia(row)) @ _UNITS
        k = slice(BODY_PARAMETERS * i, BODY_PARAMETERS * i + 10)
        first[k] = -np.trace(each, axis1=1, axis2=2)
        second[k, k] = np.einsum('aij,bji->ab', each, each)
        joint = BODY_PARAMETERS * i + np.arange(FRICTION, BODY_PARAMETERS)
        first[joint], second[joint, joint] = -1.0 / row[10:], 1.0 / row[10:] ** 2
    return first, second


def sample_bodies(
    information: Array, score: Array, prior: InertialPrior, constraints: BodyConstraints,
    count: int, rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Return samples of bodies (count, 12 B); arguments are those of `fit_bodies`."""
    mode = fit_bodies(information, score, prior, constraints) - constraints.fixed
    second = log_det_derivatives(mode)[1]
    free = constraints.free
    curvature = (information + prior.weight * second)[np.ix_(free, free)]
    unit = 1.0 / np.sqrt(np.diag(curvature))
    sizes, axes = np.linalg.eigh(curvature * np.outer(unit, unit))
    root = unit[:, None] * axes / np.sqrt(sizes)
    white = np.zeros((min(count, _CHAINS), len(root)))
    moving = free.reshape(-1, BODY_PARAMETERS)[:, :10].any(axis=1)

    def consistent(moves: Array) -> Bools:
        candidates = np.tile(mode, (len(moves), 1))
        candidates[:, free] += moves
        rows = candidates.reshape(len(moves), -1, BODY_PARAMETERS)
        return _are_consistent(rows[:, moving], 0.0) & np.all(rows[:, :, 10:] > 0.0, axis=(1, 2))

    kept = []
    for step in range(_BURN_IN + _THINNING * (-(-count // len(white)) - 1) + 1):
        white = _slice_step(white, root, consistent, rng)
        if step >= _BURN_IN and (step - _BURN_IN) % _THINNING == 0:
            kept.append(white)
    samples = np.tile(mode, (count, 1))
    samples[:, free] += np.concatenate(kept)[:count] @ root.T
    return constraints.fixed + samples


def _slice_step(
    white: Array, root: Array, consistent: Callable[[Array], Bools], rng: np.random.Generator
) -> Array:
    """Return whitened deviations (n, k) from the mode after a step along some axes."""
    active = np.zeros(white.shape[1], dtype=bool)
    active[rng.permutation(len(active))[:_AXES]] = True
    fixed, moves = np.where(active, 0.0, white), np.where(active, white, 0.0)
    other = np.where(active, rng.standard_normal(white.shape), 0.0)
    angle = rng.uniform(0.0, 2.0 * np.pi, len(white))
    low, high = angle - 2.0 * np.pi, angle.copy()
    accepted, pending = white.copy(), np.arange(len(white))
    while len(pending):
        angles = angle[pending]
        candidates = fixed[pending] + np.cos(angles)[:, None] * moves[pending]
        candidates += np.sin(angles)[:, None] * other[pending]
        valid = consistent(candidates @ root.T)
        accepted[pending[valid]] = candidates[valid]
        pending, angles = pending[~valid], angles[~valid]
        low[pending] = np.where(angles < 0.0, angles, low[pending])
        high[pending] = np.where(angles < 0.0, high[pending], angles)
        angle[pending] = rng.uniform(low[pending], high[pending])
    return accepted
