"""Steps of first order: Stein's direction and the constraints' pull, scaled by Adam."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.csvgd import kernel
from emppi_ros.identify.csvgd.target import Evaluation

Array = npt.NDArray[np.float64]
FADES = 0.9, 0.99  # of the slope's mean, and of its square's
_TINY = 1e-12


class Adam:
    """Adam (Kingma and Ba 2015); its state is its moments."""

    def __init__(self, density: Callable[[Array], Evaluation], rates: Array) -> None:
        """Begin at rest; `rates` are the lengths of steps to come, in coordinates."""
        self._density, self._rates = density, rates
        self._mean: Array = np.zeros(())
        self._square: Array = np.zeros(())
        self._count = 0

    @property
    def memory(self) -> tuple[Array, ...]:
        """What later steps depend on."""
        return self._mean, self._square, np.array(self._count)

    @memory.setter
    def memory(self, parts: tuple[Array, ...]) -> None:
        self._mean, self._square, count = parts
        self._count = int(count)

    def step(
        self, z: Array, now: Evaluation, multipliers: Array, stiffness: float
    ) -> tuple[Array, Evaluation]:
        """
        Return particles (N, D) after a step, and the density there.

        `multipliers` (N, C) and `stiffness`, the second derivative of the constraints'
        penalty, are in nats; Stein's direction is an average over particles, and they are not.
        """
        pull = np.einsum('nc,ncd->nd', multipliers + stiffness * now.defects, now.normals)
        slope = kernel.direction(z, now.score) - pull / len(z)
        moved = z + self.follow(slope)
        return moved, self._density(moved)

    def follow(self, slope: Array) -> Array:
        """Return the step that follows a slope, each entry at most about a rate long."""
        a, b = FADES
        rate = self._rates[min(self._count, len(self._rates) - 1)]
        self._count += 1
        self._mean = a * self._mean + (1.0 - a) * slope
        self._square = b * self._square + (1.0 - b) * slope**2
        size = np.sqrt(self._square / (1.0 - b**self._count)) + _TINY
        return rate * self._mean / (1.0 - a**self._count) / size
