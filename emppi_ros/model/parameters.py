"""
Uncertain physical parameters: named scalars that are written into MuJoCo models.

Planner, belief and simulator write them with the same functions, for all simulations of a batch at
once. Axes stay unit vectors, and `mj_setConst` updates derived constants.
"""

from collections.abc import Iterable, Sequence
import copy
from dataclasses import dataclass
import math
import operator

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, ParameterError, SceneError, prefix_errors, unknown
from emppi_ros.model import scene
from emppi_ros.model.fields import DELAY, FIELDS, STRIBECK, Expand, access, size_elements

AXES = 'jnt_axis', 'jnt_articulation'  # fields that write the axis of a joint
_SCALING = 'body_mass', 'body_inertia', 'actuator_gain'  # other numbers scale with these
_MATRIX = 6  # elements of a symmetric matrix
_MIN_LENGTH = 1e-6  # of an axis; shorter vectors have no direction


@dataclass(frozen=True)
class Parameter:
    """An uncertain scalar: its name, and the field of the model that it is."""

    name: str
    field: str
    of: str
    element: int = 0
    lower: float = -math.inf
    upper: float = math.inf
    unit: str = ''
    choices: tuple[tuple[float, ...], ...] = ()  # axes: values in [i, i + 1) select i

    def __post_init__(self) -> None:
        """Check field, element and bounds."""
        if self.field not in FIELDS:
            raise ConfigError(f'field: {unknown("field", self.field, FIELDS)}')
        field = FIELDS[self.field]
        if field.kind and not self.of:
            raise ConfigError(f'of: missing; {self.field} needs the name of a {field.kind}')
        if self.of and not field.kind:
            raise ConfigError(
                f'of: found {self.of!r}; {self.field} belongs to no object: leave `of` out'
            )
        if not 0 <= self.element < field.size:
            raise ConfigError(
                f'element: found {self.element}; {self.field} has elements 0 to {field.size - 1}'
            )
        if not self.lower < self.upper:
            raise ConfigError(f'lower: found {self.lower}, which is not below upper {self.upper}')
        if self.lower < field.floor:
            raise ConfigError(
                f'lower: {self.field} is physical only above {round(field.floor, 9) + 0.0:g}; '
                f'found {self.lower:g} (give `lower`)'
            )
        if self.upper > field.ceiling:
            raise ConfigError(
                f'upper: {self.field} is at most {field.ceiling:g} {field.unit}; '
                f'found {self.upper:g} (give `upper`)'
            )
        if self.choices and self.field != 'jnt_axis':
            raise ConfigError(f'choices: only jnt_axis has choices, not {self.field}')
        for axis in self.choices:
            if len(axis) != 3 or math.hypot(*axis) < _MIN_LENGTH:
                raise ConfigError(f'choices: found {list(axis)}, expected a nonzero vector (3)')
        if self.choices and (self.lower, self.upper) != (0.0, float(len(self.choices))):
            raise ConfigError(
                f'lower, upper: found {self.lower:g}, {self.upper:g}; expected 0, '
                f'{len(self.choices)} for {len(self.choices)} choices'
            )


def check(parameters: Sequence[Parameter], model: mujoco.MjModel, simulated: bool = True) -> None:
    """
    Raise if an object is missing or simple, or if two parameters write the same element.

    Also raise for Stribeck friction if the model is to be `simulated`.
    """
    elements: dict[tuple[str, str, int], str] = {}
    _check_together(parameters, simulated)
    for parameter in parameters:
        where = f'parameters: {parameter.name}: of'
        index = prefix_errors(where, _index, model, parameter)
        if parameter.field in ('jnt_type', *AXES):
            prefix_errors(where, scene.find_scalar, model, parameter.of)
        if parameter.field in _SCALING and not access(parameter.field).read(model, index, 0):
            raise SceneError(
                f'{where}: {parameter.field} of {parameter.of!r} is 0 in the scene, and what '
                'scales with it is unknown: give it a value there'
            )
        if parameter.field == 'geom_size' and parameter.element >= (
            sizes := size_elements(model, index)
        ):
            raise SceneError(
                f'{where}: geom {parameter.of!r} has {sizes} sizes that can change: no element '
                f'{parameter.element}'
            )
        if parameter.field == 'body_fullinertia':
            _check_full_inertia(parameters, parameter.of)
        if parameter.field == 'tilt' and not model.opt.gravity[2] < 0.0:
            raise SceneError(
                f'parameters: {parameter.name}: tilt turns gravity that points along -z; the '
                f'scene has {model.opt.gravity.tolist()}: take the field gravity'
            )
        if parameter.field == 'jnt_springref' or parameter.field in STRIBECK:
            prefix_errors(where, scene.find_scalar, model, parameter.of)
        if FIELDS[parameter.field].bends:
            prefix_errors(where, _check_not_simple, model, parameter, index)
        field = AXES[0] if parameter.field in AXES else parameter.field
        for i in range(3) if parameter.choices else [parameter.element]:
            element = (field, parameter.of, i)
            if element in elements:
                place = f' of {parameter.of!r}, element {i}' if parameter.of else ''
                raise ConfigError(
                    f'parameters {elements[element]!r} and {parameter.name!r} both write '
                    f'{field}{place}'
                )
            elements[element] = parameter.name


def _check_together(parameters: Sequence[Parameter], simulated: bool) -> None:
    """Raise for fields that exclude or need one another, or that no simulation has."""
    fields = {parameter.field: parameter.name for parameter in parameters}
    if 'tilt' in fields and 'gravity' in fields:
        raise ConfigError(
            f'parameters {fields["tilt"]!r} (tilt) and {fields["gravity"]!r} (gravity) both turn '
            'gravity: leave one of the fields out'
        )
    stribeck = [parameter for parameter in parameters if parameter.field in STRIBECK]
    places = [(parameter.field, parameter.of) for parameter in stribeck]
    for name, field, of in ((p.name, p.field, p.of) for p in stribeck):
        if simulated:
            raise ConfigError(
                f'parameters: {name}: {field}: MuJoCo does not simulate it, and only `emppi '
                'identify --method states --model FILE` estimates it: leave it out, and take '
                'dof_frictionloss'
            )
        for other in STRIBECK:
            if (other, of) not in places:
                raise ConfigError(
                    f'parameters: {name}: {field} of {of!r} needs {other} of {of!r}, too: add it'
                )


def not_simple(places: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of the objects in (field, name) to compile as not simple (`scene`)."""
    return tuple((FIELDS[f].kind, name) for f, name in places if f in FIELDS and FIELDS[f].bends)


def _check_full_inertia(parameters: Sequence[Parameter], body: str) -> None:
    """Raise if another parameter writes a part of the inertia matrix that this one needs."""
    elements = [p.of for p in parameters if p.field == 'body_fullinertia'].count(body)
    others = {p.field: p.name for p in parameters if p.of == body}
    if 'body_inertia' in others or ('body_mass' in others and elements < _MATRIX):
        raise ConfigError(
            f'parameters {others.get("body_inertia", others.get("body_mass"))!r} and '
            f'{others["body_fullinertia"]!r} both write the inertia of {body!r}: leave '
            f'body_inertia out, and beside body_mass give all {_MATRIX} elements of '
            'body_fullinertia'
        )


def _check_not_simple(model: mujoco.MjModel, parameter: Parameter, index: int) -> None:
    """Raise if the body is compiled for fixed axes of inertia or of several slides."""
    joint = FIELDS[parameter.field].kind == 'joint'
    body = model.jnt_bodyid[index] if joint else index
    # with one joint, its mass matrix is one number for all axes
    if model.body_simple[body] and model.body_dofnum[body] > (1 if joint else 0):
        name = scene.names(model, 'body')[body]
        raise SceneError(
            f'body {name!r} is compiled as simple, which excludes {parameter.field}: '
            'set simple="false" on the body in the MJCF file'
        )


def _index(model: mujoco.MjModel, parameter: Parameter) -> int:
    """Return the id of the parameter's object; -1 for a field without one."""
    kind = FIELDS[parameter.field].kind
    return scene.find(model, kind, parameter.of) if kind else -1


def delay_column(parameters: Sequence[Parameter]) -> int | None:
    """Return the column of theta (M, P) that is the delay of commands [s]; None without one."""
    return next((i for i, p in enumerate(parameters) if p.field == DELAY), None)


def write(
    expand: Expand, nominal: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> None:
    """
    Write theta (n, P) into the fields returned by `expand`, one row per simulation.

    Call `mj_setConst` (or `Batch.set_const`) afterwards to update derived constants.
    ParameterError if a value is not finite or out of bounds; nothing is written then.
    """
    for parameter, values in zip(parameters, theta.T, strict=True):
        check_values(parameter, values)
    axes = _unit_axes(nominal, parameters, theta)  # raises before anything is written
    order = list(FIELDS)
    pairs = sorted(
        zip(parameters, theta.T, strict=True),
        key=lambda pair: (order.index(pair[0].field), pair[0].element),
    )
    for parameter, values in pairs:
        index = _index(nominal, parameter)
        access(parameter.field).write(expand, nominal, index, parameter.element, values)
    for index in {_index(nominal, p) for p in parameters if p.field == 'body_fullinertia'}:
        if not np.all((least := expand('body_inertia')[:, index].min(axis=1)) > 0.0):
            raise ParameterError(
                f'inertia of {scene.names(nominal, "body")[index]}: found a principal moment of '
                f'{least.min():g} kg m^2, expected more than 0: narrow the limits of its elements'
            )
    articulated = {p.of for p in parameters if p.field == 'jnt_articulation'}
    for index, axis in axes.items():
        expand('jnt_axis')[:, index] = axis
        if scene.names(nominal, 'joint')[index] in articulated:
            slides = np.argmax(np.abs(axis), axis=1) == 0
            expand('jnt_type')[:, index] = np.where(slides, scene.SLIDE, scene.HINGE)


def check_values(parameter: Parameter, values: Array) -> None:
    """Raise ParameterError unless the values (n,) are finite and within the bounds."""
    outside = (values < parameter.lower) | (values > parameter.upper)
    if np.any(outside) or not np.all(np.isfinite(values)):
        worst = values[outside][:1] if np.any(outside) else np.array([np.nan])
        raise ParameterError(
            f'{parameter.name}: {worst[0]:g} is not within '
            f'[{parameter.lower:g}, {parameter.upper:g}] {parameter.unit}'.rstrip()
        )


def _unit_axes(
    nominal: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> dict[int, Array]:
    """Return the unit axes (n, 3) of joints with uncertain axes, by joint id."""
    axes: dict[int, Array] = {}
    for parameter, values in zip(parameters, theta.T, strict=True):
        if parameter.field not in AXES:
            continue
        index = scene.find(nominal, 'joint', parameter.of)
        if parameter.choices:
            axes[index] = np.array(parameter.choices)[choice_index(parameter, values)]
            continue
        rows = np.tile(nominal.jnt_axis[index], (len(theta), 1))
        axes.setdefault(index, rows)[:, parameter.element] = values
    for index, axis in axes.items():
        length = np.linalg.norm(axis, axis=-1, keepdims=True)
        if np.any(length < _MIN_LENGTH):
            name = scene.names(nominal, 'joint')[index]
            raise ParameterError(f'joint {name!r}: the axis has length zero')
        axes[index] = axis / length
    return axes


def choice_index(parameter: Parameter, values: Array) -> npt.NDArray[np.intp]:
    """Return the index of the choice (n,) that each value (n,) selects."""
    return np.minimum(values.astype(np.intp), len(parameter.choices) - 1)


def nominal_values(parameters: Sequence[Parameter], model: mujoco.MjModel) -> Array:
    """Return the parameters (P,) of a compiled model."""
    values = np.empty(len(parameters))
    for i, parameter in enumerate(parameters):
        index = _index(model, parameter)
        values[i] = access(parameter.field).read(model, index, parameter.element)
        if parameter.choices:
            values[i] = np.argmax(np.array(parameter.choices) @ model.jnt_axis[index]) + 0.5
    return values


def with_parameters(
    model: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> mujoco.MjModel:
    """Return a copy of the model with parameters theta (P,) and updated constants."""
    changed = copy.copy(model)
    set_parameters(changed, model, parameters, theta)
    return changed


def set_parameters(
    model: mujoco.MjModel, nominal: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array
) -> None:
    """Write theta (P,) into a copy of the nominal model; ParameterError if it is rejected."""
    write(lambda name: operator.attrgetter(name)(model)[None], nominal, parameters, theta[None])
    try:
        mujoco.mj_setConst(model, mujoco.MjData(model))
    except scene.MUJOCO_ERRORS as error:
        raise rejected(parameters, theta, error) from None


def rejected(parameters: Sequence[Parameter], theta: Array, error: Exception) -> ParameterError:
    """Return the error that MuJoCo rejects parameters theta (P,)."""
    values = ', '.join(f'{p.name} {v:g}' for p, v in zip(parameters, theta, strict=True))
    return ParameterError(f'MuJoCo rejects {values}: {error}')
