"""
Where Stein's particles settle: each climbs, chooses a mode, and is then drawn from the posterior.

Draws are accepted or not after Metropolis and Hastings, so that they keep the posterior, however
few particles there are; Stein's are spread too little where they are fewer than coordinates, and
how many are at each mode says from where that can be reached, not how likely it is.
Windows meet exactly, and parameters are stretched until limits are infinitely far.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.csvgd import draws, joining
from emppi_ros.identify.csvgd.damping import Damped
from emppi_ros.identify.csvgd.draws import Point
from emppi_ros.identify.csvgd.problem import LIMIT
from emppi_ros.identify.csvgd.shooting import Shooter
from emppi_ros.identify.csvgd.target import Evaluation, choose

Array = npt.NDArray[np.float64]
EDGE = 11.0  # of stretched parameters: 2e-5 of the range is left between it and the limit
LONGEST = 1.0  # step of a climb, in any stretched coordinate
CALMER, BOLDER = 4.0, 0.25  # how a climb's damping changes
LEAST, MOST = 1e-2, 1e12
JUMPS, NEAR = 3, 1e3  # to other modes; damping there: what is less follows no curved ridge
DAMPING = 1.0, 10.0, 1e2, 1e3, 1e4, 1e5  # of draws, in turns: the first suffices for a Gaussian


class Settler(Damped):
    """Climbs, then draws; its state is how much each particle's climb is damped."""

    def __init__(
        self, density: Callable[[Array], Evaluation], meet: Callable[[Array], Array],
        shooter: Shooter, seed: int,
    ) -> None:  # fmt: skip
        """Begin with the damping of one, the curvature of the prior."""
        super().__init__(shooter.particles)
        self._density, self._meet, self._shooter, self._seed = density, meet, shooter, seed
        self._unknown, self._free = shooter.unknown, joining.free(shooter)

    def begin(self, z: Array) -> tuple[Array, Evaluation]:
        """Return particles (N, D) within limits and with windows that meet, and the density."""
        return self._at(z, stretch(z[:, self._free], self._unknown))

    def climb(self, z: Array, now: Evaluation) -> tuple[Array, Evaluation]:
        """Return particles after a step of Levenberg and Marquardt each, where it leads up."""
        here = self._point(z, now)
        step = draws.newton(here, self._damping)
        step *= LONGEST / np.maximum(np.abs(step).max(axis=1), LONGEST)[:, None]
        w = here.u + step
        w[:, : self._unknown] = np.clip(w[:, : self._unknown], -EDGE, EDGE)
        moved, new = self._at(z, w)
        better = self._point(moved, new).log_p > here.log_p
        self._damping = np.clip(self._damping * np.where(better, BOLDER, CALMER), LEAST, MOST)
        return choose(better, (moved, new), (z, now))

    def jump(self, z: Array, now: Evaluation) -> tuple[Array, Evaluation]:
        """
        Return particles after some draws about any of those that are given, all alike.

        So that is a proposal that does not hang on where a particle is (an independence sampler,
        Tierney 1994), and reaches modes to which no step leads.
        """
        rng = np.random.default_rng([self._seed, 0, 1])  # no other turn's
        given = draws.some(self._point(z, now), np.flatnonzero(np.isfinite(now.log_p)))
        near = np.full(len(z), NEAR)
        for _ in range(JUMPS if len(given.u) else 0):
            about = draws.some(given, rng.integers(len(given.u), size=len(z)))
            w = draws.propose(about, near, rng.standard_normal(about.u.shape))

            def balance(here: Point, there: Point) -> Array:
                back, forth = (draws.log_mixture(given, at.u, NEAR) for at in (here, there))
                return back - forth

            z, now = self._accept(z, now, w, balance, rng)
        return z, now

    def draw(self, z: Array, now: Evaluation, turn: int) -> tuple[Array, Evaluation]:
        """Return particles after their draw number `turn`, of which some stay where they are."""
        rng = np.random.default_rng([self._seed, turn])
        damping = np.full(len(z), DAMPING[turn % len(DAMPING)])
        here = self._point(z, now)
        w = draws.propose(here, damping, rng.standard_normal(here.u.shape))

        def balance(here: Point, there: Point) -> Array:
            back = draws.log_density(there, here.u, damping)
            return back - draws.log_density(here, there.u, damping)

        return self._accept(z, now, w, balance, rng)

    def _accept(
        self, z: Array, now: Evaluation, w: Array, balance: Callable[[Point, Point], Array],
        rng: np.random.Generator,
    ) -> tuple[Array, Evaluation]:  # fmt: skip
        """Return particles at w, or where they were, after Metropolis and Hastings."""
        here = self._point(z, now)
        inside = np.all(np.abs(w[:, : self._unknown]) < EDGE, axis=1)
        moved, new = self._at(z, np.where(inside[:, None], w, here.u))
        there = self._point(moved, new)
        with np.errstate(invalid='ignore'):  # from nowhere to nowhere: it stays
            gain = there.log_p - here.log_p
        gain += balance(here, there)
        accepted = inside & (np.log(rng.uniform(size=len(z))) < gain)
        return choose(accepted, (moved, new), (z, now))

    def _point(self, z: Array, now: Evaluation) -> Point:
        w = stretch(z[:, self._free], self._unknown)
        rise = np.tanh(0.5 * w[:, : self._unknown])
        slope = np.ones_like(w)
        slope[:, : self._unknown] = 0.5 * LIMIT * (1.0 - rise**2)
        score, curvature = joining.eliminate(self._shooter, now)
        score = score * slope
        score[:, : self._unknown] -= rise
        curvature = curvature * slope[:, :, None] * slope[:, None]
        index = np.arange(self._unknown)
        curvature[:, index, index] += 0.5 * (1.0 - rise**2)
        return Point(w, now.log_p + np.log(slope).sum(axis=1), score, curvature)

    def _at(self, z: Array, w: Array) -> tuple[Array, Evaluation]:
        moved, free = z.copy(), w.copy()
        free[:, : self._unknown] = LIMIT * np.tanh(0.5 * w[:, : self._unknown])
        moved[:, self._free] = free
        moved = self._meet(moved)
        return moved, self._density(moved)


def stretch(u: Array, unknown: int) -> Array:
    """Return free coordinates (N, U), parameters such that limits are at infinity."""
    w, edge = u.copy(), np.tanh(0.5 * EDGE)
    w[:, :unknown] = 2.0 * np.arctanh(np.clip(u[:, :unknown] / LIMIT, -edge, edge))
    return w
