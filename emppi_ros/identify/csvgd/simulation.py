"""
What is simulated of particles: their density, and windows that meet; here, or elsewhere.

Each particle is simulated by itself, so that many can be in blocks on the workers of a cluster.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.csvgd.joining import Joiner
from emppi_ros.identify.csvgd.problem import Problem
from emppi_ros.identify.csvgd.shooting import Shooter
from emppi_ros.identify.csvgd.target import Evaluation, Likelihood, evaluate
from emppi_ros.parallel.workers import Share

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recipe:
    """What is simulated of any particle."""

    problem: Problem
    windows: int
    likelihood: Likelihood

    def make(self, particles: int, threads: int) -> 'Simulation':
        """Return the simulation of so many."""
        return Simulation(self, particles, threads)


class Simulation:
    """Simulates N particles, or has them simulated."""

    def __init__(
        self, recipe: Recipe, particles: int, threads: int = 0, share: Share | None = None
    ) -> None:
        """Plan it: models are made where they are simulated."""
        self._likelihood, self._share = recipe.likelihood, share
        self.shooter = Shooter(recipe.problem, particles, recipe.windows, threads)
        self._joiner = Joiner(self.shooter, threads)

    def density(self, z: Array) -> Evaluation:
        """Return the density at particles (N, D); IdentificationError if all diverge."""
        if self._share is None:
            now = self.evaluate(z)
        else:
            parts = zip(*self._share('evaluate', z), strict=True)
            now = Evaluation(*(np.concatenate(part) for part in parts))
            self.shooter.steps += self.shooter.cost
        if not np.isfinite(now.log_p).any():
            raise IdentificationError('all particles diverge: limits or time step are too large')
        return now

    def meet(self, z: Array) -> Array:
        """Return particles (N, D) whose windows begin where those before them end."""
        if self._share is None:
            return self.join(z)
        self.shooter.steps += self._joiner.cost
        return np.concatenate(self._share('join', z))

    def evaluate(self, z: Array) -> Evaluation:
        """Simulate a block here."""
        return evaluate(self.shooter, z, self._likelihood)

    def join(self, z: Array) -> Array:
        """Let the windows of a block meet, here."""
        return self._joiner.join(z)
