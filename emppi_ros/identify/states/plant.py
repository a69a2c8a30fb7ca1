"""What is identified: a MuJoCo model, the unknowns in it, and how they are written."""

from collections.abc import Callable, Mapping
import copy
from dataclasses import dataclass, field
import math

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.core.paths import SceneFile
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
Write = Callable[[mujoco.MjModel, Array], None]
Friction = Callable[[Array, Array], tuple[Array, Array]]
_STEP = 1e-6  # of an unknown's scale, for derivatives: the root of rounding, and of curvature


@dataclass(frozen=True)
class Unknown:
    """A parameter to find: where the search starts, and the box in which it stays."""

    name: str
    unit: str
    initial: float
    lower: float = -math.inf
    upper: float = math.inf
    size: float | None = None  # a change of it that matters; if not given, that of `initial`

    def __post_init__(self) -> None:
        """Check that the search can start."""
        if not self.lower <= self.initial <= self.upper:
            raise ConfigError(
                f'{self.name}: initial: found {self.initial:g}, expected a number from '
                f'{self.lower:g} to {self.upper:g} {self.unit}'.rstrip()
            )
        if not 0.0 < self.scale < math.inf:
            raise ConfigError(f'{self.name}: size: {self.scale:g} is no scale to measure it by')

    @property
    def scale(self) -> float:
        """The change that counts as one in the solver, in the unknown's unit."""
        return abs(self.initial) if self.size is None else self.size


@dataclass(frozen=True)
class Plant:
    """
    A model with P unknowns.

    `write` puts values (P,) into a copy of the model. `friction`, if given, returns what dry
    friction is at velocities (n, nv), as it depends on them (Stribeck): the values and their
    derivatives (n, nv), in N m or N. `parameters` says where unknowns are in the registry, and
    `scene` from which file the model is, where that is so. `bodies` are those of tracked
    objects, by their names. `task` is the task that it is of, if any.
    """

    model: mujoco.MjModel
    unknowns: tuple[Unknown, ...]
    write: Write
    friction: Friction | None = None
    parameters: tuple[Parameter, ...] = ()
    scene: SceneFile | None = None
    bodies: Mapping[str, str] = field(default_factory=dict)
    task: Task | None = None

    def __post_init__(self) -> None:
        """Check that MuJoCo's inverse dynamics invert the steps of this model."""
        if self.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value:
            raise IdentificationError(
                "integrator: found RK4, whose steps have no inverse: use 'implicitfast' or 'Euler'"
            )
        if self.model.na:
            raise IdentificationError(
                'actuators: some have a state of their own (dyntype), which is not estimated: '
                'use motor, position or velocity actuators without one'
            )

    @property
    def scales(self) -> Array:
        """What counts as one of each unknown (P,)."""
        return np.array([unknown.scale for unknown in self.unknowns])

    @property
    def initial(self) -> Array:
        """Where the search starts (P,)."""
        return np.array([unknown.initial for unknown in self.unknowns])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The box (P,), (P,) in which the search stays."""
        return (
            np.array([unknown.lower for unknown in self.unknowns]),
            np.array([unknown.upper for unknown in self.unknowns]),
        )

    def at(self, theta: Array) -> mujoco.MjModel:
        """Return a copy of the model with theta (P,), whose inverse is that of its steps."""
        changed = copy.copy(self.model)
        self.write(changed, theta)
        mujoco.mj_setConst(changed, mujoco.MjData(changed))
        changed.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_INVDISCRETE.value
        changed.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value
        return changed

    def moved(self, theta: Array, index: int) -> tuple[Array, float]:
        """Return theta with one unknown changed a little, within its bounds, and the change."""
        step = _STEP * self.unknowns[index].scale
        if theta[index] + step > self.unknowns[index].upper:
            step = -step
        other = theta.copy()
        other[index] += step
        return other, float(other[index] - theta[index])

    def with_fixed(self, theta: Array) -> 'Plant':
        """Return the plant whose parameters are known: only states are left to estimate."""
        known = theta.copy()
        friction = self.friction

        def write(model: mujoco.MjModel, _: Array) -> None:
            self.write(model, known)

        fixed = None if friction is None else lambda _, v: friction(known, v)
        return Plant(self.model, (), write, fixed)
