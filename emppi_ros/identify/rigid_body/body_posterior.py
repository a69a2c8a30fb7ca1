"""
Bodies that explain a linear regression best, with a little knowledge of what bodies are like.

The knowledge is a prior of pseudo-inertias P (`consistency`) about that of an everyday body P0:
weight (tr(P0^-1 P) - log det P), an entropic divergence that is least at P0 and without bound
where a body stops being one (Lee, Wensing and Park 2020). Friction has the same in one dimension.
All is convex, and what is found lies strictly inside of what is possible.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import positive
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body.physical_consistency import BODY_PARAMETERS, pseudo_inertia

Array = npt.NDArray[np.float64]
_UNITS = np.stack([pseudo_inertia(e) for e in np.eye(10)])  # (10, 4, 4)
_MAX_STEPS = 300  # at most, of one weight
_MIN_EIGENVALUE = 1e-14  # of a body's largest: rounding does not tell less from none
_CONVERGED = 1e-5  # of the decrement: how far it is, in units of the prior's own scale
Bools = npt.NDArray[np.bool_]
_CHAINS, _AXES = 100, 7  # chains, all from the mode; axes of a turn
_BURN_IN, _THINNING = 600, 20  # turns before the first draws of all chains, and between these


@dataclass(frozen=True)
class InertialPrior:
    """What bodies are like: a ball, a joint, and how much that counts."""

    mass_kg: float = positive(2.0)
    radius_m: float = positive(0.1)
    friction: float = positive(0.1, doc='viscous, in N m s/rad')
    weight: float = positive(0.1, doc='of the prior, in observations')

    def parameters(self) -> Array:
        """Return the parameters (11,) of that body."""
        moment = 0.4 * self.mass_kg * self.radius_m**2
        inertia = [moment, 0.0, 0.0, moment, 0.0, moment]
        return np.array([self.mass_kg, 0.0, 0.0, 0.0, *inertia, self.friction])

    def spread(self) -> Array:
        """Return by how much (11,) parameters may be off, roughly."""
        first = self.mass_kg * self.radius_m
        return np.array([self.mass_kg, *3 * [first], *6 * [first * self.radius_m], self.friction])


class BodyConstraints(NamedTuple):
    """What is known of B bodies: each is `fixed`, plus one that is like `like`."""

    like: Array  # (11 B,) of bodies that can be, with friction
    fixed: Array  # (11 B,)
    free: npt.NDArray[np.bool_]  # (11 B,) what is to be found; the rest is as in `like`


def unconstrained(everyday: InertialPrior, bodies: int) -> BodyConstraints:
    """Return that bodies are like everyday ones, and no more."""
    like = np.tile(everyday.parameters(), bodies)
    return BodyConstraints(like, np.zeros(len(like)), np.ones(len(like), np.bool_))


def fit_bodies(
    information: Array,
    score: Array,
    everyday: InertialPrior | None = None,
    known: BodyConstraints | None = None,
) -> Array:
    """
    Return the bodies b (11 B,) of least b' information b / 2 - score' b, plus the prior.

    Parameters
    ----------
    information : (11 B, 11 B) array
        X'X of a regressor in units of its rows' noise; it may be singular.
    score : (11 B,) array
        X'y, likewise.
    everyday : Everyday
        The prior.
    known : Known
        Bodies that the prior is about in place of that one, and parts that are known.

    Raises
    ------
    IdentificationError
        If the sizes do not match, or something is not finite.

    """
    everyday = everyday or InertialPrior()
    size = len(score)
    if size % BODY_PARAMETERS or information.shape != (size, size):
        raise IdentificationError(
            f'{size} parameters and information {information.shape}: '
            'expected 11 for each body, squared'
        )
    if not (np.isfinite(information).all() and np.isfinite(score).all()):
        raise IdentificationError('information or score are not finite')
    known = known or unconstrained(everyday, size // BODY_PARAMETERS)
    score = score - information @ known.fixed
    found = known.like.copy()
    block = np.ix_(known.free, known.free)
    # the path of Newton's steps is long where the prior is weak: from a weight at which the first
    # step is almost the last, ten times less each
    pull = (information @ found - score)[known.free]
    weight = float(np.sqrt(pull @ np.linalg.solve(log_det_derivatives(found)[1][block], pull)))
    while True:
        weight = max(0.1 * weight, everyday.weight)
        found = _damped_newton(found, information, score, weight, known)
        if weight == everyday.weight:
            return known.fixed + found


def _damped_newton(
    found: Array, information: Array, score: Array, weight: float, known: BodyConstraints
) -> Array:
    linear = weight * _trace_gradient(known.like) - score
    free, block = known.free, np.ix_(known.free, known.free)
    for _ in range(_MAX_STEPS):
        first, second = log_det_derivatives(found)
        gradient = (information @ found + linear + weight * first)[free]
        curvature = (information + weight * second)[block]
        unit = 1.0 / np.sqrt(np.diag(curvature))  # parameters differ by many orders
        step = -unit * np.linalg.solve(curvature * np.outer(unit, unit), unit * gradient)
        decrement = np.sqrt(max(float(-gradient @ step), 0.0) / weight)
        # never leaves what is possible, and always descends (self-concordance: Nesterov)
        moved = found.copy()
        moved[free] += step / (1.0 + decrement)
        if not (np.isfinite(moved).all() and _is_consistent(moved)):
            break  # but for rounding, where data are so unlike any body that it lies on the border
        found = moved
        if decrement < _CONVERGED:
            break
    return found


def _is_consistent(b: Array) -> bool:
    rows = b.reshape(-1, BODY_PARAMETERS)
    sizes = np.linalg.eigvalsh(np.tensordot(rows[:, :10], _UNITS, 1))
    return bool(np.all(sizes[:, 0] > _MIN_EIGENVALUE * sizes[:, -1]) and np.all(rows[:, 10] > 0.0))


def _trace_gradient(like: Array) -> Array:
    """Return the derivative (11 B,) of tr(P0^-1 P) and the like."""
    rows = like.reshape(-1, BODY_PARAMETERS)
    inverses = np.linalg.inv(np.stack([pseudo_inertia(row) for row in rows]))
    inertial = np.einsum('bij,kji->bk', inverses, _UNITS)
    return np.column_stack([inertial, 1.0 / rows[:, 10]]).ravel()


def log_det_derivatives(b: Array) -> tuple[Array, Array]:
    """Return the first (11 B,) and second (11 B, 11 B) derivative of - log det P of all."""
    first, second = np.zeros(len(b)), np.zeros((len(b), len(b)))
    for i, row in enumerate(b.reshape(-1, BODY_PARAMETERS)):
        each = np.linalg.inv(pseudo_inertia(row)) @ _UNITS
        k = slice(BODY_PARAMETERS * i, BODY_PARAMETERS * i + 10)
        first[k] = -np.trace(each, axis1=1, axis2=2)
        second[k, k] = np.einsum('aij,bji->ab', each, each)
        last = BODY_PARAMETERS * i + 10
        first[last], second[last, last] = -1.0 / row[10], 1.0 / row[10] ** 2
    return first, second


def sample_bodies(
    information: Array, score: Array, everyday: InertialPrior, known: BodyConstraints, count: int,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Return bodies (count, 11 B); arguments are those of `bodies.fit`."""
    mode = fit_bodies(information, score, everyday, known) - known.fixed
    second = log_det_derivatives(mode)[1]
    curvature = (information + everyday.weight * second)[np.ix_(known.free, known.free)]
    unit = 1.0 / np.sqrt(np.diag(curvature))
    sizes, axes = np.linalg.eigh(curvature * np.outer(unit, unit))
    root = unit[:, None] * axes / np.sqrt(sizes)
    white = np.zeros((min(count, _CHAINS), len(root)))
    taken = []
    for turn in range(_BURN_IN + _THINNING * (-(-count // len(white)) - 1) + 1):
        white = _slice_step(white, mode, root, known.free, rng)
        if turn >= _BURN_IN and (turn - _BURN_IN) % _THINNING == 0:
            taken.append(white)
    found = np.tile(mode, (count, 1))
    found[:, known.free] += np.concatenate(taken)[:count] @ root.T
    return known.fixed + found


def _slice_step(
    white: Array, mode: Array, root: Array, free: Bools, rng: np.random.Generator
) -> Array:
    """Return white moves (n, k) from the mode, as far as these along all axes but some."""
    turned = np.zeros(white.shape[1], dtype=bool)
    turned[rng.permutation(len(turned))[:_AXES]] = True
    still, moves = np.where(turned, 0.0, white), np.where(turned, white, 0.0)
    other = np.where(turned, rng.standard_normal(white.shape), 0.0)
    angle = rng.uniform(0.0, 2.0 * np.pi, len(white))
    low, high = angle - 2.0 * np.pi, angle.copy()
    found, left = white.copy(), np.arange(len(white))
    while len(left):
        tried = still[left] + np.cos(angle[left])[:, None] * moves[left]
        tried += np.sin(angle[left])[:, None] * other[left]
        taken = _are_consistent(mode, free, tried @ root.T)
        found[left[taken]] = tried[taken]
        left = left[~taken]
        low[left] = np.where(angle[left] < 0.0, angle[left], low[left])
        high[left] = np.where(angle[left] < 0.0, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])
    return found


def _are_consistent(mode: Array, free: Bools, moves: Array) -> Bools:
    """Return which moves (n, k) from the mode all bodies can make."""
    whole = np.tile(mode, (len(moves), 1))
    whole[:, free] += moves
    rows, moved = whole.reshape(len(moves), -1, BODY_PARAMETERS), free.reshape(-1, BODY_PARAMETERS)
    inertial = rows[:, moved[:, :10].any(axis=1), :10]
    least = np.linalg.eigvalsh(np.tensordot(inertial, _UNITS, 1))[..., 0]
    return np.all(least > 0.0, axis=1) & np.all(rows[:, moved[:, 10], 10] > 0.0, axis=1)
