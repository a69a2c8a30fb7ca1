"""
The registry of physical parameters: what may vary, and where it lives in a MuJoCo model.

A writer sets one field for all simulations of a batch at once. The same writers serve
the planner's ensemble, the belief's particles and the simulator's hidden truth, so that
a parameter means one thing everywhere. Writing keeps a model consistent: a mass scales
its inertia, an axis stays a unit vector, and `mj_setConst` re-derives what follows.
"""

from collections.abc import Sequence
import copy
from dataclasses import dataclass
import math

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, ParameterError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.model.fields import FIELDS, Expand

Array = npt.NDArray[np.float64]
_SHORTEST = 1e-6  # of an axis: a direction cannot be read from less
_HINGE, _SLIDE = mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value


@dataclass(frozen=True)
class Parameter:
    """One uncertain scalar: a name, and its place in the model."""

    name: str
    field: str
    of: str
    element: int = 0
    lower: float = -math.inf
    upper: float = math.inf
    unit: str = ''
    choices: tuple[tuple[float, ...], ...] = ()  # of axes: a value in [i, i + 1) means axis i

    def __post_init__(self) -> None:
        """Check the place against the registry."""
        if self.field not in FIELDS:
            raise ConfigError(f'field: {unknown("field", self.field, FIELDS)}')
        field = FIELDS[self.field]
        if not 0 <= self.element < field.size:
            raise ConfigError(
                f'element: found {self.element}; {self.field} has elements 0 to {field.size - 1}'
            )
        if not self.lower < self.upper:
            raise ConfigError(f'lower: found {self.lower}, which is not below upper {self.upper}')
        if self.lower < field.floor:
            raise ConfigError(
                f'lower: {self.field} is physical only above {max(field.floor, 0.0):g}; '
                f'found {self.lower:g} (give `lower`)'
            )
        if self.choices:
            self._check_choices()

    def _check_choices(self) -> None:
        if self.field != 'jnt_axis':
            raise ConfigError(f'choices: {self.field} has none; jnt_axis has')
        for axis in self.choices:
            if len(axis) != 3 or math.hypot(*axis) < _SHORTEST:
                raise ConfigError(f'choices: {list(axis)} is no direction: expected three numbers')
        if (self.lower, self.upper) != (0.0, float(len(self.choices))):
            raise ConfigError(
                f'lower, upper: found {self.lower:g}, {self.upper:g}; {len(self.choices)} choices '
                f'need 0, {len(self.choices)}'
            )


def check(parameters: Sequence[Parameter], model: mujoco.MjModel) -> None:
    """Raise if a parameter names nothing in the model, or if two write the same place."""
    places: dict[tuple[str, str, int], str] = {}
    for parameter in parameters:
        try:
            scene.find(model, FIELDS[parameter.field].kind, parameter.of)
        except SceneError as error:
            raise SceneError(f'parameters: {parameter.name}: of: {error}') from None
        # an axis is one place, however it is said
        field = 'jnt_axis' if parameter.field == 'jnt_articulation' else parameter.field
        for element in range(3) if parameter.choices else [parameter.element]:
            place = (field, parameter.of, element)
            if place in places:
                raise ConfigError(
                    f'parameters {places[place]!r} and {parameter.name!r} both write '
                    f'{field} of {parameter.of!r}, element {element}'
                )
            places[place] = parameter.name


def write(
    expand: Expand, nominal: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> None:
    """
    Write theta (n, P) into the fields that `expand` returns, one row a simulation.

    Constants are not re-derived here: call `mj_setConst` (or `Batch.set_const`) after it.
    """
    for column, parameter in enumerate(parameters):
        outside = (theta[:, column] < parameter.lower) | (theta[:, column] > parameter.upper)
        if np.any(outside) or not np.all(np.isfinite(theta[:, column])):
            worst = theta[outside, column][:1] if np.any(outside) else np.array([np.nan])
            raise ParameterError(
                f'{parameter.name}: {worst[0]:g} is not within '
                f'[{parameter.lower:g}, {parameter.upper:g}] {parameter.unit}'.rstrip()
            )
    axes = _unit_axes(nominal, parameters, theta)  # before anything is written
    order = list(FIELDS)
    columns = sorted(range(len(parameters)), key=lambda i: order.index(parameters[i].field))
    for column in columns:
        parameter = parameters[column]
        field = FIELDS[parameter.field]
        index = scene.find(nominal, field.kind, parameter.of)
        field.write(expand, nominal, index, parameter.element, theta[:, column])
    articulated = {p.of for p in parameters if p.field == 'jnt_articulation'}
    for index, axis in axes.items():
        expand('jnt_axis')[:, index] = axis
        if scene.names(nominal, 'joint')[index] in articulated:
            slides = np.argmax(np.abs(axis), axis=1) == 0
            expand('jnt_type')[:, index] = np.where(slides, _SLIDE, _HINGE)


def _unit_axes(
    nominal: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> dict[int, Array]:
    """Return the axes (n, 3) of joints with such parameters; other elements are nominal."""
    axes: dict[int, Array] = {}
    for column, parameter in enumerate(parameters):
        if parameter.field not in ('jnt_axis', 'jnt_articulation'):
            continue
        index = scene.find(nominal, 'joint', parameter.of)
        if parameter.choices:
            axes[index] = np.array(parameter.choices)[chosen(parameter, theta[:, column])]
            continue
        rows = np.tile(nominal.jnt_axis[index], (len(theta), 1))
        axes.setdefault(index, rows)[:, parameter.element] = theta[:, column]
    for index, axis in axes.items():
        length = np.linalg.norm(axis, axis=-1, keepdims=True)
        if np.any(length < _SHORTEST):
            name = scene.names(nominal, 'joint')[index]
            raise ParameterError(f'joint {name!r}: an axis of length zero has no direction')
        axes[index] = axis / length
    return axes


def chosen(parameter: Parameter, values: Array) -> npt.NDArray[np.intp]:
    """Return which of a parameter's choices its values mean."""
    return np.minimum(values.astype(np.intp), len(parameter.choices) - 1)


def nominal_values(parameters: Sequence[Parameter], model: mujoco.MjModel) -> Array:
    """Return the values (P,) that a compiled model has itself."""
    values = []
    for parameter in parameters:
        index = scene.find(model, FIELDS[parameter.field].kind, parameter.of)
        if parameter.choices:
            nearest = np.array(parameter.choices) @ model.jnt_axis[index]
            values.append(np.argmax(nearest) + 0.5)
        elif parameter.field == 'jnt_articulation':
            values.append(model.jnt_axis[index][parameter.element])
        elif parameter.field == 'body_inertia':
            values.append(model.body_inertia[index].max())
        elif parameter.field == 'actuator_gain':
            values.append(model.actuator_gainprm[index, 0])
        elif parameter.field == 'jnt_type':
            values.append(float(model.jnt_type[index] == mujoco.mjtJoint.mjJNT_HINGE.value))
        elif parameter.field.startswith('dof_'):
            values.append(np.ravel(getattr(model, parameter.field)[model.dof_jntid == index])[0])
        else:
            values.append(np.ravel(getattr(model, parameter.field)[index])[parameter.element])
    return np.array(values, dtype=np.float64)


def with_parameters(
    model: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> mujoco.MjModel:
    """Return a copy of the model with theta (P,) written and its constants re-derived."""
    changed = copy.copy(model)
    write(lambda name: getattr(changed, name)[None], model, parameters, theta[None])
    mujoco.mj_setConst(changed, mujoco.MjData(changed))
    return changed
