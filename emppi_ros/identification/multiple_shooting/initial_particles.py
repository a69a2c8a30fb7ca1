"""Initial particles: all over the limits of parameters, or near an estimate."""

from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.particles import MultipleShooting
from emppi_ros.identification.multiple_shooting.problem import LIMIT, ShootingProblem


def sobol_parameters(problem: ShootingProblem, particles: int) -> Array:
    """Return parameter coordinates (N, P) of the Sobol sequence without its first point."""
    powers = int(np.ceil(np.log2(particles + 1)))
    sequence = qmc.Sobol(len(problem.parameters), scramble=False)
    points = sequence.random_base2(powers)[1 : particles + 1]
    return LIMIT * (2.0 * points - 1.0)


def initial_particles(shooter: MultipleShooting) -> Array:
    """Return initial particles (N, D): Sobol parameters, and windows starting as measured."""
    starts = np.tile(shooter.measured_starts().ravel(), (shooter.particles, 1))
    return np.concatenate([sobol_parameters(shooter.problem, shooter.particles), starts], axis=1)


class ParticleStart(NamedTuple):
    """Normal distribution of initial particles: the linearized posterior about an estimate."""

    mean: Array  # (D,)
    covariance: Array  # (D, D)

    def draw(self, particles: int, unknown: int, seed: int) -> Array:
        """Return particles (N, D); parameters beyond a limit are reflected at it."""
        rng = np.random.default_rng([seed, 0, 2])  # a stream that no draw of the refinement uses
        root = np.linalg.cholesky(self.covariance)
        z = self.mean + rng.standard_normal((particles, len(self.mean))) @ root.T
        inside = LIMIT - np.abs(LIMIT - z[:, :unknown])
        z[:, :unknown] = np.clip(np.abs(inside + LIMIT) - LIMIT, -LIMIT, LIMIT)
        return z
