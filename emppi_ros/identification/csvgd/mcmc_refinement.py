"""
MCMC refinement: each particle ascends, jumps between modes, and samples the posterior.

With fewer particles than coordinates SVGD underestimates the spread, and the share of particles at
a mode depends on the initial particles. Metropolis-Hastings draws leave the posterior invariant.

Proposals are stochastic Newton draws (Martin, Wilcox, Burstedde and Ghattas, SIAM J. Sci. Comput.
2012) with damping d: u + G^-1 s + G^-1 R n, where s is the score, H the curvature, G = H + d, R R'
= H + 2 d, and n is standard normal. For a Gaussian they are reversible, so all are accepted. Large
damping follows curved ridges in short steps; stiff directions are resampled by every draw.

Trajectories are continuous here, so only the parameters and the initial states of recordings are
free. The starts of other windows follow by simulation, derivatives from those of the constraints.
Parameters are mapped by a logit so that their limits are at infinity.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.identification.multiple_shooting.particles import (
    Evaluation,
    MultipleShooting,
    select_particles,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT

MAX_LOGIT = 11.0  # of unbounded parameters: leaves 2e-5 of the range to the limit
MAX_ASCENT_STEP = 1.0  # in any unbounded coordinate
MORE_DAMPING, LESS_DAMPING = 4.0, 0.25  # factors after a rejected or accepted ascent
MIN_DAMPING, MAX_DAMPING = 1e-2, 1e12
# attempts to change modes; less damping would not follow curved ridges
JUMPS, JUMP_DAMPING = 3, 1e3
_ROUNDING = 1e-14  # of the trace of a curvature
DRAW_DAMPING = 1.0, 10.0, 1e2, 1e3, 1e4, 1e5  # cycled; the first suffices for a Gaussian


def free_coordinates(shooter: MultipleShooting) -> Bools:
    """Return the mask (D,) of coordinates that stay free under the continuity constraints."""
    free = np.ones(shooter.size, dtype=bool)
    for window in shooter.joined:
        free[shooter.start_slice(window)] = False
    return free


def eliminate_constraints(shooter: MultipleShooting, now: Evaluation) -> tuple[Array, Array]:
    """Return score (N, U) and curvature (N, U, U) by the free coordinates."""
    normals, chosen = now.normals[:, shooter.unknown :], free_coordinates(shooter)
    tangent = np.zeros((*now.score.shape, int(chosen.sum())))
    tangent[:, chosen] = np.eye(tangent.shape[2])
    if normals.size:
        there = np.isfinite(now.log_p)[:, None, None]  # diverged particles have no derivatives
        by_joined = np.where(there, normals[:, :, ~chosen], np.eye(normals.shape[1]))
        tangent[:, ~chosen] = -np.linalg.solve(by_joined, normals[:, :, chosen])
    across = tangent.swapaxes(1, 2)
    return (across @ now.score[..., None])[..., 0], across @ now.curvature @ tangent


class DensityPoint(NamedTuple):
    """Positions in U coordinates, with the log density and its derivatives."""

    u: Array  # (N, U)
    log_p: Array  # (N,)
    score: Array  # (N, U)
    curvature: Array  # (N, U, U): approximates minus the Hessian; positive semidefinite


def newton_step(here: DensityPoint, damping: Array) -> Array:
    """Return the Newton step (N, U) with damping (N,) added to all curvatures."""
    step = np.linalg.solve(_damped(here, damping), here.score[..., None])
    return np.asarray(step[..., 0], np.float64)


def propose(here: DensityPoint, damping: Array, normal: Array) -> Array:
    """Return proposals (N, U) about the Newton step, from standard normal numbers (N, U)."""
    noise = _noise_root(here, damping) @ normal[..., None]
    draw = np.linalg.solve(_damped(here, damping), noise)[..., 0]
    return here.u + newton_step(here, damping) + draw


def proposal_log_density(here: DensityPoint, u: Array, damping: Array) -> Array:
    """Return the log density (N,), up to a constant, of proposing u (N, U) from here."""
    whole, root = _damped(here, damping), _noise_root(here, damping)
    deviation = whole @ (u - here.u - newton_step(here, damping))[..., None]
    normal = np.asarray(np.linalg.solve(root, deviation), np.float64)[..., 0]
    volume = np.log(np.einsum('...uu->...u', root)).sum(axis=-1)
    return np.linalg.slogdet(whole)[1] - volume - 0.5 * np.sum(normal**2, axis=-1)


def mixture_log_density(points: DensityPoint, u: Array, damping: float) -> Array:
    """Return the log density (M,), up to a constant, of proposing u (M, U) from any of K."""
    each = DensityPoint(*(part[:, None] for part in points))
    return logsumexp(proposal_log_density(each, u, np.full((len(points.u), 1), damping)), axis=0)


def _damped(here: DensityPoint, damping: Array) -> Array:
    return here.curvature + damping[..., None, None] * np.eye(here.u.shape[-1])


def _noise_root(here: DensityPoint, damping: Array) -> Array:
    # rounding may make a curvature negative along a direction without information
    rounding = _ROUNDING * np.trace(here.curvature, axis1=-2, axis2=-1)
    whole = _damped(here, np.maximum(2.0 * damping, rounding))
    return np.asarray(np.linalg.cholesky(whole), np.float64)


class McmcRefinement:
    """Ascent, jumps between modes and posterior draws of all particles."""

    def __init__(
        self, density: Callable[[Array], Evaluation], make_continuous: Callable[[Array], Array],
        shooter: MultipleShooting, seed: int,
    ) -> None:  # fmt: skip
        """Set up for the windows of a shooter; draws depend on the seed."""
        self._density, self._make_continuous = density, make_continuous
        self._shooter, self._seed = shooter, seed
        self._unknown, self._free = shooter.unknown, free_coordinates(shooter)

    def start(self, z: Array) -> tuple[Array, Evaluation]:
        """Return particles (N, D) within limits and with continuous windows; evaluate them."""
        return self._at(z, to_unbounded(z[:, self._free], self._unknown))

    def ascend(self, z: Array, now: Evaluation, damping: Array) -> tuple[Array, Evaluation, Array]:
        """Return particles after one Levenberg-Marquardt step if it ascends, and the damping."""
        here = self._point(z, now)
        step = newton_step(here, damping)
        step *= MAX_ASCENT_STEP / np.maximum(np.abs(step).max(axis=1), MAX_ASCENT_STEP)[:, None]
        w = here.u + step
        w[:, : self._unknown] = np.clip(w[:, : self._unknown], -MAX_LOGIT, MAX_LOGIT)
        moved, new = self._at(z, w)
        better = self._point(moved, new).log_p > here.log_p
        factor = np.where(better, LESS_DAMPING, MORE_DAMPING)
        damping = np.clip(damping * factor, MIN_DAMPING, MAX_DAMPING)
        return *select_particles(better, (moved, new), (z, now)), damping

    def jump(self, z: Array, now: Evaluation) -> tuple[Array, Evaluation]:
        """Return particles after independence-sampler steps to other modes (Tierney 1994)."""
        rng = np.random.default_rng([self._seed, 0, 1])  # a stream that no draw uses
        finite = np.isfinite(now.log_p)
        given = DensityPoint(*(part[finite] for part in self._point(z, now)))
        near = np.full(len(z), JUMP_DAMPING)
        # draws about any of the given particles reach modes that local steps do not
        for _ in range(JUMPS if len(given.u) else 0):
            chosen = rng.integers(len(given.u), size=len(z))
            about = DensityPoint(*(part[chosen] for part in given))
            w = propose(about, near, rng.standard_normal(about.u.shape))
            z, now = self._accept(
                z, now, w, lambda _, u: mixture_log_density(given, u, JUMP_DAMPING), rng
            )
        return z, now

    def draw(self, z: Array, now: Evaluation, turn: int) -> tuple[Array, Evaluation]:
        """Return particles after Metropolis-Hastings draw number `turn`."""
        rng = np.random.default_rng([self._seed, turn])
        damping = np.full(len(z), DRAW_DAMPING[turn % len(DRAW_DAMPING)])
        here = self._point(z, now)
        w = propose(here, damping, rng.standard_normal(here.u.shape))
        return self._accept(
            z, now, w, lambda start, u: proposal_log_density(start, u, damping), rng
        )

    def _accept(
        self,
        z: Array,
        now: Evaluation,
        w: Array,
        log_q: Callable[[DensityPoint, Array], Array],
        rng: np.random.Generator,
    ) -> tuple[Array, Evaluation]:
        """Return particles moved to w, of proposal log density q, where it is accepted."""
        here = self._point(z, now)
        inside = np.all(np.abs(w[:, : self._unknown]) < MAX_LOGIT, axis=1)
        moved, new = self._at(z, np.where(inside[:, None], w, here.u))
        there = self._point(moved, new)
        with np.errstate(invalid='ignore'):  # -inf minus -inf: not accepted
            gain = there.log_p - here.log_p
        gain += log_q(there, here.u) - log_q(here, there.u)
        accepted = inside & (np.log(rng.uniform(size=len(z))) < gain)
        return select_particles(accepted, (moved, new), (z, now))

    def _point(self, z: Array, now: Evaluation) -> DensityPoint:
        """Return the unbounded coordinates and the density with respect to them."""
        w = to_unbounded(z[:, self._free], self._unknown)
        rise = np.tanh(0.5 * w[:, : self._unknown])
        slope = np.ones_like(w)
        slope[:, : self._unknown] = 0.5 * LIMIT * (1.0 - rise**2)
        score, curvature = eliminate_constraints(self._shooter, now)
        score = score * slope
        score[:, : self._unknown] -= rise
        curvature = curvature * slope[:, :, None] * slope[:, None]
        index = np.arange(self._unknown)
        curvature[:, index, index] += 0.5 * (1.0 - rise**2)
        return DensityPoint(w, now.log_p + np.log(slope).sum(axis=1), score, curvature)

    def _at(self, z: Array, w: Array) -> tuple[Array, Evaluation]:
        """Return particles at unbounded coordinates w (N, U), with their density."""
        moved, free = z.copy(), w.copy()
        free[:, : self._unknown] = LIMIT * np.tanh(0.5 * w[:, : self._unknown])
        moved[:, self._free] = free
        moved = self._make_continuous(moved)
        return moved, self._density(moved)


def to_unbounded(u: Array, unknown: int) -> Array:
    """Return free coordinates (N, U) with parameters mapped from their limits to infinity."""
    w, edge = u.copy(), np.tanh(0.5 * MAX_LOGIT)
    w[:, :unknown] = 2.0 * np.arctanh(np.clip(u[:, :unknown] / LIMIT, -edge, edge))
    return w
