"""The plant to identify: a MuJoCo model and its unknown parameters, from a task or a file."""

from collections.abc import Callable, Mapping
import copy
from dataclasses import dataclass, field
import math
import operator
from pathlib import Path
from typing import Self

import mujoco
import numpy as np

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError, EmppiError, IdentificationError, prefix_errors
from emppi_ros.core.paths import SceneFile
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import Task

WriteParameters = Callable[[mujoco.MjModel, Array], None]
_STEP = 1e-6  # of an unknown's scale, for derivatives: balances rounding and curvature
_DISCRETE = ('jnt_type', 'jnt_axis', 'jnt_articulation')  # torques jump, or have kinks, in these


@dataclass(frozen=True)
class UnknownParameter:
    """A parameter to estimate: where the search starts, and its bounds."""

    name: str
    unit: str
    initial: float
    lower: float = -math.inf
    upper: float = math.inf
    size: float | None = None  # a change that matters; default: `initial`

    def __post_init__(self) -> None:
        """Check that the search can start."""
        if not self.lower <= self.initial <= self.upper:
            raise ConfigError(
                f'{self.name}: initial: found {self.initial:g}, expected a number from '
                f'{self.lower:g} to {self.upper:g} {self.unit}'.rstrip()
            )
        if not 0.0 < self.scale < math.inf:
            raise ConfigError(
                f'{self.name}: size: found {self.scale:g}, expected a number above 0'
            )

    @property
    def scale(self) -> float:
        """The change that counts as one in the solver, in the unit of the parameter."""
        return abs(self.initial) if self.size is None else self.size


@dataclass(frozen=True)
class ParameterEntry:
    """A parameter in a model file: its place in the scene, and where the search starts."""

    field: str = key(doc='MuJoCo field, as in a task')
    unit: str = key(doc='unit, as in the task that will use the estimate')
    of: str = key('', doc='name of its body, geom, joint or actuator; not for `command_delay`')
    element: int = key(0, doc='index in a field of several elements, such as x, y, z: 0, 1, 2')
    lower: float | None = key(None, doc='lower bound')
    upper: float | None = key(None, doc='upper bound')
    initial: float | None = key(None, doc='start of the search; default: the value of the scene')
    size: float | None = key(None, doc='a change that is significant; default: `initial`')


@dataclass(frozen=True)
class ModelFile:
    """The keys of a model file (YAML): a scene, and its unknown parameters."""

    scene: str = key(doc='MJCF file: beside this file, or among the assets of the package')
    parameters: Mapping[str, ParameterEntry] = key(
        check=lambda entries: len(entries) > 0,
        allowed='at least one parameter',
        doc='name -> parameter',
    )


@dataclass(frozen=True)
class Plant:
    """
    A MuJoCo model with P unknown parameters.

    `write` sets values (P,) in a copy of the model. `parameters` are the unknowns in the registry
    of MuJoCo fields, `scene` is the file of the model, `bodies` maps names of tracked objects to
    bodies, and `task` is the task, each if known.
    """

    model: mujoco.MjModel
    unknowns: tuple[UnknownParameter, ...]
    write: WriteParameters
    parameters: tuple[Parameter, ...] = ()
    scene: SceneFile | None = None
    bodies: Mapping[str, str] = field(default_factory=dict)
    task: Task | None = None

    def __post_init__(self) -> None:
        """Raise IdentificationError if actuators have internal state."""
        if self.model.na:
            raise IdentificationError(
                'actuators: some have internal state (dyntype), which is not estimated: use '
                'motor, position or velocity actuators without it'
            )

    def require_inverse(self) -> None:
        """Raise IdentificationError if inverse dynamics do not invert the steps of this model."""
        if self.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value:
            raise IdentificationError(
                'integrator: found RK4, whose steps have no inverse, which this method needs: use '
                "'implicitfast' or 'Euler'"
            )

    @classmethod
    def from_task(cls, task: Task) -> Self:
        """Return the plant of a task: a copy of its model; the search starts at prior means."""
        for parameter in task.parameters:
            if parameter.field in _DISCRETE:
                raise ConfigError(
                    f'{task.where}: parameters: {parameter.name}: {parameter.field} cannot be '
                    'estimated by least squares: use another method'
                )
        low, high = task.prior.range
        unknowns = tuple(
            UnknownParameter(p.name, p.unit, float(mean), p.lower, p.upper, float(width) / 4.0)
            for p, mean, width in zip(task.parameters, task.prior.mean(), high - low, strict=True)
        )
        return cls(
            copy.copy(task.model),
            unknowns,
            _registry_writer(task.model, task.parameters),
            parameters=task.parameters,
            scene=task.scene_file,
            bodies={name: settings.body for name, settings in task.tracked.items()},
            task=task,
        )

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Return the plant that a model file describes; errors name the file and key."""
        path = paths.find_model(path)
        data = config.load(path)
        file = config.build(ModelFile, data, str(path))
        try:
            source = paths.find_scene(file.scene, path.parent)
            parameters = tuple(_parameter(name, entry) for name, entry in file.parameters.items())
            places = registry.not_simple((p.field, p.of) for p in parameters)
            model = scene.load_scene(source.path, root=source.root, not_simple=places)
            registry.check(parameters, model, simulated=False)
            nominal = registry.nominal_values(parameters, model)
            entries = zip(parameters, file.parameters.values(), nominal, strict=True)
            unknowns = tuple(_unknown(*entry) for entry in entries)
        except EmppiError as error:
            raise config.located(error, str(path), data) from None
        write = _registry_writer(model, parameters)
        return cls(model, unknowns, write, parameters=parameters, scene=source)

    @property
    def delay(self) -> Callable[[Array], float] | None:
        """Function from parameters (P,) to the delay of commands [s]; None without a delay."""
        column = registry.delay_column(self.parameters)
        return None if column is None else lambda theta: float(theta[column])

    @property
    def scales(self) -> Array:
        """The scale of each parameter (P,)."""
        return np.array([unknown.scale for unknown in self.unknowns])

    @property
    def initial(self) -> Array:
        """Where the search starts (P,)."""
        return np.array([unknown.initial for unknown in self.unknowns])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The lower and upper bounds (P,), (P,)."""
        return (
            np.array([unknown.lower for unknown in self.unknowns]),
            np.array([unknown.upper for unknown in self.unknowns]),
        )

    def at_bound(self, theta: Array) -> list[bool]:
        """Return which parameters (P,) are at a bound."""
        return [value in ends for value, *ends in zip(theta, *self.bounds, strict=True)]

    def at(self, theta: Array) -> mujoco.MjModel:
        """Return a copy of the model with parameters (P,), for discrete inverse dynamics."""
        changed = copy.copy(self.model)
        self.write(changed, theta)
        mujoco.mj_setConst(changed, mujoco.MjData(changed))
        changed.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_INVDISCRETE.value
        changed.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value
        return changed

    def perturbed(self, theta: Array, index: int) -> tuple[Array, float]:
        """Return parameters with a small change of one of them, within bounds, and the change."""
        step = _STEP * self.unknowns[index].scale
        if theta[index] + step > self.unknowns[index].upper:
            step = -step
        other = theta.copy()
        other[index] += step
        return other, float(other[index] - theta[index])


def _parameter(name: str, entry: ParameterEntry) -> Parameter:
    lower = -np.inf if entry.lower is None else entry.lower
    upper = np.inf if entry.upper is None else entry.upper
    arguments = name, entry.field, entry.of, entry.element, lower, upper, entry.unit
    return prefix_errors(f'parameters: {name}', Parameter, *arguments)


def _unknown(p: Parameter, entry: ParameterEntry, nominal: float) -> UnknownParameter:
    initial = float(nominal) if entry.initial is None else entry.initial
    arguments = p.name, p.unit, initial, p.lower, p.upper, entry.size
    return prefix_errors('parameters', UnknownParameter, *arguments)


def _registry_writer(model: mujoco.MjModel, parameters: tuple[Parameter, ...]) -> WriteParameters:
    """Return a function that sets parameters through the registry, as planner and belief do."""

    def write(changed: mujoco.MjModel, theta: Array) -> None:
        def expand(name: str) -> Array:
            values: Array = operator.attrgetter(name)(changed)  # also 'opt.gravity'
            return values[None]

        registry.write(expand, model, parameters, theta[None])

    return write
