"""What steps with curvature remember: by how much each particle's is damped."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Damped:
    """Moves N particles, each damped by itself."""

    def __init__(self, particles: int) -> None:
        """Begin with a damping of one."""
        self._damping: Array = np.ones(particles)

    @property
    def memory(self) -> tuple[Array, ...]:
        """What later steps depend on."""
        return (self._damping.copy(),)

    @memory.setter
    def memory(self, parts: tuple[Array, ...]) -> None:
        (damping,) = parts
        self._damping = damping.copy()
