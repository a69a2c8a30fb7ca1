"""
The density that samplers sample, in one window or several (Heiden et al. 2022, Sec. 2.3).

Continuity between windows is a normal likelihood of the defects (eq. 5), as samplers take no
constraints.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.particles import (
    Evaluation,
    MultipleShooting,
    evaluate,
    initial_particles,
    log_density,
    window_defects,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem

DEFECT_VARIANCE = 1e-2  # of eq. 5, in squared units of the states' spread: the order in the paper
_DIVERGED = -1e12  # in place of -inf, which no slope leads out of


class SamplerTarget:
    """Log density and its slopes at any number of points; it counts physics steps."""

    def __init__(self, problem: ShootingProblem, size: int, windows: int) -> None:
        """Simulate `size` points at once."""
        self.problem, self._size = problem, size
        self._plain = MultipleShooting(problem, size, windows, threads=1, slopes=False)
        self._sloped = MultipleShooting(problem, size, windows, threads=1)
        self.unknown, self.dimension = self._plain.unknown, self._plain.size

    @property
    def steps(self) -> int:
        """Physics steps so far."""
        return self._plain.steps + self._sloped.steps

    @property
    def slope_cost(self) -> int:
        """The number of simulations that give a density and its slopes."""
        return self._sloped.variants

    def start(self, points: int) -> Array:
        """Return points (N, D): Sobol parameters, and windows that start as measured."""
        shooter = MultipleShooting(self.problem, points, self._plain.windows, slopes=False)
        return initial_particles(shooter)

    def middle(self) -> Array:
        """Return the point (D,) with parameters in the middle of their limits."""
        return np.append(np.zeros(self.unknown), self.start(1)[0, self.unknown :])

    def log_p(self, points: Array) -> Array:
        """Return log densities (N,); -inf outside of the limits and where simulations diverge."""
        values = np.full(len(points), -np.inf)
        for first in range(0, len(points), self._size):
            part = points[first : first + self._size]
            rows = np.repeat(part[:1], self._size, axis=0)
            rows[: len(part)] = part
            rows[:, : self.unknown] = np.clip(rows[:, : self.unknown], -LIMIT, LIMIT)
            simulated = self._plain.simulate(rows)
            log_p = log_density(self._plain, rows, simulated)
            defects = window_defects(self._plain, rows, simulated)
            log_p -= 0.5 * np.sum(defects**2, axis=1) / DEFECT_VARIANCE
            inside = np.all(np.abs(part[:, : self.unknown]) <= LIMIT, axis=1)
            values[first : first + self._size] = np.where(inside, log_p[: len(part)], -np.inf)
        return values

    def slopes(self, points: Array) -> tuple[Array, Array]:
        """Return log densities (N,) and slopes (N, D) of `size` points within the limits."""
        now: Evaluation = evaluate(self._sloped, points)
        defects, normals = now.defects[:, self.unknown :], now.normals[:, self.unknown :]
        log_p = now.log_p - 0.5 * np.sum(defects**2, axis=1) / DEFECT_VARIANCE
        pull = np.einsum('nc,ncd->nd', defects, normals) / DEFECT_VARIANCE
        return np.maximum(log_p, _DIVERGED), now.score - pull
