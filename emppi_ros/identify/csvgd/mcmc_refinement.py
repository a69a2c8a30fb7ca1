"""
Draws about Newton's step, with its curvature H, damped by d: u + G^-1 s + G^-1 R n, G = H + d.

With R R' = H + 2 d and n of standard normal numbers, as stochastic Newton has them for d = 0
(Martin, Wilcox, Burstedde and Ghattas, SIAM J. Sci. Comput. 2012). Of a Gaussian they are
reversible with any damping, so that Metropolis and Hastings accept all; a curved ridge is followed
by short steps, and what is stiff is drawn anew by each.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from emppi_ros.identify.csvgd.problem import LIMIT
from emppi_ros.identify.csvgd.shooting import MultipleShooting, start_slice
from emppi_ros.identify.csvgd.svgd import DampedStepper
from emppi_ros.identify.csvgd.target_density import Evaluation, select_particles

Array = npt.NDArray[np.float64]
MAX_LOGIT = 11.0  # of stretched parameters: 2e-5 of the range is left between it and the limit
MAX_ASCENT_STEP = 1.0  # step of a climb, in any stretched coordinate
MORE_DAMPING, LESS_DAMPING = 4.0, 0.25  # how a climb's damping changes
MIN_DAMPING, MAX_DAMPING = 1e-2, 1e12
JUMPS, JUMP_DAMPING = 3, 1e3  # to other modes; damping there: what is less follows no curved ridge
DRAW_DAMPING = 1.0, 10.0, 1e2, 1e3, 1e4, 1e5  # cycled; the first suffices for a Gaussian


def free_coordinates(shooter: MultipleShooting) -> npt.NDArray[np.bool_]:
    """Return which coordinates (D,) of a particle are left to choose where windows meet."""
    found = np.ones(shooter.size, dtype=bool)
    for window in shooter.joined:
        found[start_slice(shooter, window)] = False
    return found


def eliminate_constraints(shooter: MultipleShooting, now: Evaluation) -> tuple[Array, Array]:
    """Return score (N, U) and curvature (N, U, U) by what is free, of windows that meet."""
    normals, chosen = now.normals[:, shooter.unknown :], free_coordinates(shooter)
    tangent = np.zeros((*now.score.shape, int(chosen.sum())))
    tangent[:, chosen] = np.eye(tangent.shape[2])
    if normals.size:
        there = np.isfinite(now.log_p)[:, None, None]  # others have no derivatives
        own = np.where(there, normals[:, :, ~chosen], np.eye(normals.shape[1]))
        tangent[:, ~chosen] = -np.linalg.solve(own, normals[:, :, chosen])
    across = tangent.swapaxes(1, 2)
    return (across @ now.score[..., None])[..., 0], across @ now.curvature @ tangent


class DensityPoint(NamedTuple):
    """Where particles are in U coordinates, and a log density there."""

    u: Array  # (N, U)
    log_p: Array  # (N,)
    score: Array  # (N, U)
    curvature: Array  # (N, U, U): minus its second derivative, at least nearly; not negative


def newton_step(here: DensityPoint, damping: Array) -> Array:
    """Return Newton's step (N, U), with a damping (N,) added to all curvatures."""
    return np.linalg.solve(_damped(here, damping), here.score[..., None])[..., 0]


def propose(here: DensityPoint, damping: Array, normal: Array) -> Array:
    """Return coordinates (N, U) drawn about Newton's step, from standard normal numbers (N, U)."""
    noise = _noise_root(here, damping) @ normal[..., None]
    return (
        here.u
        + newton_step(here, damping)
        + np.linalg.solve(_damped(here, damping), noise)[..., 0]
    )


def proposal_log_density(here: DensityPoint, u: Array, damping: Array) -> Array:
    """Return the log density (N,), but for a constant, of drawing coordinates (N, U) from here."""
    whole, root = _damped(here, damping), _noise_root(here, damping)
    away = whole @ (u - here.u - newton_step(here, damping))[..., None]
    normal = np.linalg.solve(root, away)[..., 0]
    volume = np.log(np.einsum('...uu->...u', root)).sum(axis=-1)
    return np.linalg.slogdet(whole)[1] - volume - 0.5 * np.sum(normal**2, axis=-1)


def select_points(points: DensityPoint, index: npt.NDArray[np.int_]) -> DensityPoint:
    """Return some of the points, each as often as it is named."""
    return DensityPoint(*(part[index] for part in points))


def mixture_log_density(points: DensityPoint, u: Array, damping: float) -> Array:
    """Return the log density (M,), but for a constant, of drawing u (M, U) from any point of K."""
    each = DensityPoint(*(part[:, None] for part in points))
    return logsumexp(proposal_log_density(each, u, np.full((len(points.u), 1), damping)), axis=0)


def _damped(here: DensityPoint, damping: Array) -> Array:
    return here.curvature + damping[..., None, None] * np.eye(here.u.shape[-1])


def _noise_root(here: DensityPoint, damping: Array) -> Array:
    return np.linalg.cholesky(_damped(here, 2.0 * damping))


class McmcRefinement(DampedStepper):
    """Climbs, then draws; its state is how much each particle's climb is damped."""

    def __init__(
        self, density: Callable[[Array], Evaluation], meet: Callable[[Array], Array],
        shooter: MultipleShooting, seed: int,
    ) -> None:  # fmt: skip
        """Begin with the damping of one, the curvature of the prior."""
        super().__init__(shooter.particles)
        self._density, self._meet, self._shooter, self._seed = density, meet, shooter, seed
        self._unknown, self._free = shooter.unknown, free_coordinates(shooter)

    def begin(self, z: Array) -> tuple[Array, Evaluation]:
        """Return particles (N, D) within limits and with windows that meet, and the density."""
        return self._at(z, to_unbounded(z[:, self._free], self._unknown))

    def climb(self, z: Array, now: Evaluation) -> tuple[Array, Evaluation]:
        """Return particles after a step of Levenberg and Marquardt each, where it leads up."""
        here = self._point(z, now)
        step = newton_step(here, self._damping)
        step *= MAX_ASCENT_STEP / np.maximum(np.abs(step).max(axis=1), MAX_ASCENT_STEP)[:, None]
        w = here.u + step
        w[:, : self._unknown] = np.clip(w[:, : self._unknown], -MAX_LOGIT, MAX_LOGIT)
        moved, new = self._at(z, w)
        better = self._point(moved, new).log_p > here.log_p
        self._damping = np.clip(
            self._damping * np.where(better, LESS_DAMPING, MORE_DAMPING), MIN_DAMPING, MAX_DAMPING
        )
        return select_particles(better, (moved, new), (z, now))

    def jump(self, z: Array, now: Evaluation) -> tuple[Array, Evaluation]:
        """
        Return particles after some draws about any of those that are given, all alike.

        So that is a proposal that does not hang on where a particle is (an independence sampler,
        Tierney 1994), and reaches modes to which no step leads.
        """
        rng = np.random.default_rng([self._seed, 0, 1])  # no other turn's
        given = select_points(self._point(z, now), np.flatnonzero(np.isfinite(now.log_p)))
        near = np.full(len(z), JUMP_DAMPING)
        for _ in range(JUMPS if len(given.u) else 0):
            about = select_points(given, rng.integers(len(given.u), size=len(z)))
            w = propose(about, near, rng.standard_normal(about.u.shape))

            def balance(here: DensityPoint, there: DensityPoint) -> Array:
                back, forth = (
                    mixture_log_density(given, at.u, JUMP_DAMPING) for at in (here, there)
                )
                return back - forth

            z, now = self._accept(z, now, w, balance, rng)
        return z, now

    def draw(self, z: Array, now: Evaluation, turn: int) -> tuple[Array, Evaluation]:
        """Return particles after their draw number `turn`, of which some stay where they are."""
        rng = np.random.default_rng([self._seed, turn])
        damping = np.full(len(z), DRAW_DAMPING[turn % len(DRAW_DAMPING)])
        here = self._point(z, now)
        w = propose(here, damping, rng.standard_normal(here.u.shape))

        def balance(here: DensityPoint, there: DensityPoint) -> Array:
            back = proposal_log_density(there, here.u, damping)
            return back - proposal_log_density(here, there.u, damping)

        return self._accept(z, now, w, balance, rng)

    def _accept(
        self,
        z: Array,
        now: Evaluation,
        w: Array,
        balance: Callable[[DensityPoint, DensityPoint], Array],
        rng: np.random.Generator,
    ) -> tuple[Array, Evaluation]:
        """Return particles at w, or where they were, after Metropolis and Hastings."""
        here = self._point(z, now)
        inside = np.all(np.abs(w[:, : self._unknown]) < MAX_LOGIT, axis=1)
        moved, new = self._at(z, np.where(inside[:, None], w, here.u))
        there = self._point(moved, new)
        with np.errstate(invalid='ignore'):  # from nowhere to nowhere: it stays
            gain = there.log_p - here.log_p
        gain += balance(here, there)
        accepted = inside & (np.log(rng.uniform(size=len(z))) < gain)
        return select_particles(accepted, (moved, new), (z, now))

    def _point(self, z: Array, now: Evaluation) -> DensityPoint:
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
        moved, free = z.copy(), w.copy()
        free[:, : self._unknown] = LIMIT * np.tanh(0.5 * w[:, : self._unknown])
        moved[:, self._free] = free
        moved = self._meet(moved)
        return moved, self._density(moved)


def to_unbounded(u: Array, unknown: int) -> Array:
    """Return free coordinates (N, U), parameters such that limits are at infinity."""
    w, edge = u.copy(), np.tanh(0.5 * MAX_LOGIT)
    w[:, :unknown] = 2.0 * np.arctanh(np.clip(u[:, :unknown] / LIMIT, -edge, edge))
    return w
