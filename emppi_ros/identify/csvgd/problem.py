"""What is to be identified: a model, parameters within limits, and trajectories that were seen."""

from dataclasses import dataclass
import math

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
LIMIT = math.sqrt(3.0)  # where limits are in coordinates: a uniform variable of variance one
DECADE = 10.0


@dataclass(frozen=True)
class ShootingProblem:
    """
    Trajectories of one system: from one state under the same controls, or one after another.

    Attributes
    ----------
    model : mujoco.MjModel
        Of slides and hinges only: a window's start is a plain vector.
    parameters : tuple of Parameter
        What is unknown, each with finite limits.
    start : (nq + nv,) array
        Position and velocity in which all trajectories begin; or (G, nq + nv), with `begins`.
    controls : (T, nu) array
        One control for each physics step.
    references : (R, T, nq + nv) array
        What was measured after each step.
    noise : (nq + nv,) array
        Standard deviation of each measured quantity, in its own unit; infinite if not measured.
    begins : tuple of G int
        Steps at which recordings begin that follow one another. Where each starts is learned, for
        it is measured, and not known. None: it is `start`.

    """

    model: mujoco.MjModel
    parameters: tuple[Parameter, ...]
    start: Array
    controls: Array
    references: Array
    noise: Array
    begins: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check that all fits together."""
        size = self.model.nq + self.model.nv
        if self.model.nq != self.model.nv:
            raise IdentificationError('the model has free or ball joints: only slides and hinges')
        if not self.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET.value:
            raise IdentificationError(
                'the model resets itself where it diverges, which hides that it did: '
                'expected <flag autoreset="disable"/>, as model.scene.load has it'
            )
        for p in self.parameters:
            if not (math.isfinite(p.lower) and math.isfinite(p.upper)):
                raise IdentificationError(
                    f'{p.name}: found limits [{p.lower:g}, {p.upper:g}]; both must be finite, '
                    f'for they say in which unit to search'
                )
        steps = len(self.controls)
        if self.references.ndim != 3 or self.references.shape[1:] != (steps, size):
            raise IdentificationError(
                f'references of shape {self.references.shape}; expected (trajectories, '
                f'{steps} steps, {size} positions and velocities)'
            )
        if not np.all(np.isfinite(self.references)):
            raise IdentificationError('references hold numbers that are not finite')
        many = (len(self.begins), size) if self.begins else (size,)
        if self.start.shape != many or self.noise.shape != (size,) or np.any(self.noise <= 0):
            raise IdentificationError(
                f'start and noise need {size} numbers each, and noise only positive ones'
            )

    @property
    def limits(self) -> Array:
        """Lower and upper limits (2, P)."""
        return np.array([[p.lower for p in self.parameters], [p.upper for p in self.parameters]])

    @property
    def scale(self) -> Array:
        """The unit (nq + nv,) of each state: its standard deviation over all trajectories."""
        spread = self.references.reshape(-1, self.references.shape[-1]).std(axis=0)
        return np.where(spread > 0.0, spread, 1.0)

    @property
    def logarithmic(self) -> npt.NDArray[np.bool_]:
        """Which parameters (P,) are searched in their logarithm: limits over a decade apart."""
        lower, upper = self.limits
        return (lower > 0.0) & (upper > DECADE * lower)

    def coordinates(self, theta: Array) -> Array:
        """Return parameters (..., P) in units of the uniform prior's standard deviation."""
        lower, upper = self._bent(self.limits)
        return LIMIT * (2.0 * self._bent(theta) - upper - lower) / (upper - lower)

    def theta(self, coordinates: Array) -> Array:
        """Return the parameters (..., P) at coordinates, clipped to the limits."""
        lower, upper = self._bent(self.limits)
        bent = 0.5 * (lower + upper) + 0.5 * (upper - lower) * coordinates / LIMIT
        bent = np.clip(bent, lower, upper)
        return np.clip(np.where(self.logarithmic, np.exp(bent), bent), *self.limits)

    def _bent(self, theta: Array) -> Array:
        return np.where(self.logarithmic, np.log(np.where(self.logarithmic, theta, 1.0)), theta)
