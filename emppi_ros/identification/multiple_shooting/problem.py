"""The estimation problem: a model, parameters with limits, and measured trajectories."""

from dataclasses import dataclass
import math

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.multiple_shooting.windows import Inputs
from emppi_ros.model.parameters import Parameter

LIMIT = math.sqrt(3.0)  # limits in coordinates: those of a uniform distribution of variance one
DECADE = 10.0  # ratio of limits from which on a parameter is on a log scale


@dataclass(frozen=True)
class ShootingProblem:
    """
    Measured trajectories of one system: one, or several recordings in sequence.

    The model has only slide and hinge joints, so that a state is a plain vector, S = nq + nv. A
    single trajectory has the known `start` (S,). With `first_steps`, `start` (G, S) is measured
    instead, and the initial states are estimated.
    """

    model: mujoco.MjModel
    parameters: tuple[Parameter, ...]
    start: Array
    controls: Array  # (T, nu) of each physics step
    references: Array  # (T, S) states measured after each step
    noise: Array  # (S,) their standard deviations, infinite if not measured
    first_steps: tuple[int, ...] = ()  # of each of G consecutive recordings
    observed: Bools | bool = True  # (T, S) false where a reference is interpolated
    continuous: bool = True  # from window to window, unless the model does not explain that

    def __post_init__(self) -> None:
        """Raise IdentificationError if the model, limits or noise do not fit."""
        if not self.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET.value:
            raise IdentificationError(
                'the model resets itself when it diverges, which hides the divergence: '
                'expected <flag autoreset="disable"/>, as set by model.scene.load'
            )
        for p in self.parameters:
            if not (math.isfinite(p.lower) and math.isfinite(p.upper)):
                raise IdentificationError(
                    f'{p.name}: found limits [{p.lower:g}, {p.upper:g}]; both must be finite: '
                    f'they set the scale of the search'
                )
        if np.any(self.noise <= 0.0):
            raise IdentificationError('the noise of measurements must be positive')

    @property
    def inputs(self) -> Inputs:
        """What acts at each step."""
        return Inputs(self.controls, self.first_steps or (0,))

    @property
    def limits(self) -> Array:
        """Lower and upper limits (2, P)."""
        return np.array([[p.lower for p in self.parameters], [p.upper for p in self.parameters]])

    @property
    def scale(self) -> Array:
        """Unit (nq + nv,) of each state: its standard deviation over all trajectories."""
        spread = self.references.std(axis=0)
        return np.where(spread > 0.0, spread, 1.0)

    @property
    def logarithmic(self) -> Bools:
        """Mask (P,) of parameters on a log scale: limits more than a decade apart."""
        lower, upper = self.limits
        return (lower > 0.0) & (upper > DECADE * lower)

    def coordinates(self, theta: Array) -> Array:
        """Return parameters (..., P) in standard deviations of the uniform prior, centered."""
        lower, upper = self._bent(self.limits)
        return LIMIT * (2.0 * self._bent(theta) - upper - lower) / (upper - lower)

    def theta(self, coordinates: Array) -> Array:
        """Return the parameters (..., P) at coordinates, clipped to the limits."""
        lower, upper = self._bent(self.limits)
        bent = 0.5 * (lower + upper) + 0.5 * (upper - lower) * coordinates / LIMIT
        bent = np.clip(bent, lower, upper)
        return np.clip(np.where(self.logarithmic, np.exp(bent), bent), *self.limits)

    def _bent(self, theta: Array) -> Array:
        """Return parameters (..., P), with the logarithm taken where `logarithmic`."""
        return np.where(self.logarithmic, np.log(np.where(self.logarithmic, theta, 1.0)), theta)
