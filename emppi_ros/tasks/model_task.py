"""A task from a compiled MuJoCo model and a cost in Python, without YAML."""

from collections.abc import Callable, Mapping
import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import config
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.model import scene
from emppi_ros.priors.distributions import Prior
from emppi_ros.robots import robot_from_model
from emppi_ros.robots.robot import Robot
from emppi_ros.tasks import schema
from emppi_ros.tasks.cost import Cost, Stage, Term
from emppi_ros.tasks.objects import topic_name
from emppi_ros.tasks.planner_config import PlannerConfig
from emppi_ros.tasks.residuals import Residual

if TYPE_CHECKING:
    from emppi_ros.tasks.task import Task

StateFunction = Callable[['States'], npt.ArrayLike]
_NOISE = 0.1  # rad or m: standard deviation for controls without a range
_PROBED = (2, 3, 4)  # leading axes of the trial call of a function


class States:
    """
    Simulated states of many rollouts at once.

    Each attribute is a field of MuJoCo's MjData with leading axes for models, rollouts and
    steps: `qpos` (..., nq), `ctrl` (..., nu), `site_xpos` (..., nsite, 3) and so on.
    """

    def __init__(self, fields: Mapping[str, Array]) -> None:
        """Wrap arrays by field name."""
        self._fields = fields

    def __getattr__(self, name: str) -> Array:
        """Return a field of MjData; AttributeError if it was not recorded."""
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(
                f'{name!r} was not recorded; a function must read the same fields at every call'
            ) from None


class FunctionCost(Cost):
    """A cost whose terms are Python functions of the states."""

    def values(self, fields: Mapping[str, Array]) -> dict[str, Array]:
        """Return the value of each function, with the leading axes of `fields`."""
        return {term.name: term.residual.evaluate(fields) for term in self.terms}


def from_model(
    task_class: 'type[Task]',
    model: mujoco.MjModel,
    cost: StateFunction,
    parameters: Mapping[str, schema.ParameterConfig | Mapping[str, Any]] | None = None,
    *,
    terminal_cost: StateFunction | None = None,
    success: StateFunction | None = None,
    hold_s: float = 0.0,
    start: npt.ArrayLike | None = None,
    objects: Mapping[str, Mapping[str, Any]] | None = None,
    truth: Mapping[str, Any] | None = None,
    planner: PlannerConfig | Mapping[str, Any] | None = None,
    belief: schema.BeliefConfig | Mapping[str, Any] | None = None,
    simulation: schema.SimulationConfig | Mapping[str, Any] | None = None,
    duration_s: float = 10.0,
    name: str = 'task',
) -> 'Task':
    """
    Return a task from a compiled MuJoCo model and a cost in Python.

    Every hinge and slide is measured; every actuator of the most frequent kind (position, velocity
    or effort) is commanded, within its `ctrlrange` and the `range` of its joint, and others keep
    their control of the first keyframe. Bodies with a free joint are tracked. The state of
    actuators with a filter (`dyntype`) is taken to have settled at the start of a prediction.

    Parameters
    ----------
    model : mujoco.MjModel
        The scene; it is copied.
    cost : callable
        Maps states to one cost each: fields `x.qpos` (..., nq), `x.qvel` (..., nv),
        `x.ctrl` (..., nu) and any other array of MjData, to an array (...).
    parameters : mapping
        Uncertain parameters by name: a `ParameterConfig`, or a mapping with its keys, as
        in YAML: `{'field': 'body_mass', 'of': 'pole', 'prior': {...}, 'lower': 0.01}`.
    terminal_cost : callable, optional
        Cost of the last state of a rollout; `cost` if not given.
    success : callable, optional
        Maps states to true (...) where the task is solved.
    hold_s : float
        Time for which `success` must hold [s].
    start : (nq,) array, optional
        Initial positions; if not given, the first keyframe, else `qpos0`, moved into the joints'
        ranges.
    objects : mapping, optional
        Tracked objects by name, with the keys of `objects` in YAML.
    truth : mapping, optional
        Hidden true values in simulation, by parameter: a number or a `Prior`. Others are
        drawn from their priors.
    planner, belief, simulation : mapping or config, optional
        Keys that differ from the defaults, or a whole config. Times are in seconds.
    duration_s : float
        Time limit of a run [s].
    name : str
        Shown in errors and reports.

    Raises
    ------
    ConfigError
        If a setting is wrong, or a function returns values of the wrong shape.
    SceneError
        If the model cannot be controlled, or lacks a body or joint that is named.

    """
    model = copy.copy(model)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    scene.check_activations(model, 'model')
    qpos = _start(model, start)
    robot = robot_from_model.describe(model, qpos, name)
    entries = {
        key: config.build(schema.ParameterConfig, _plain(value), f'parameters: {key}')
        for key, value in (parameters or {}).items()
    }
    truths = {key: entry.prior for key, entry in entries.items()}
    for key, value in (truth or {}).items():
        if key not in entries:
            raise ConfigError(f'truth: {unknown("parameter", key, entries)}')
        fixed = isinstance(value, (int, float))
        truths[key] = Prior('fixed', value=float(value)) if fixed else value
    tracked = {topic_name(body): {'body': body} for body in scene.free_bodies(model)}
    # built like a YAML file, so that every value is checked
    data = {
        'name': name,
        'scene': '',
        'robot': name,
        'success': {'residual': {}, 'below': 0.5, 'hold_s': hold_s},
        'planner': _keys(planner, _planner(model, robot)),
        'belief': _keys(belief, _belief(model)),
        'simulation': {**_keys(simulation, {}), 'truth': _plain(truths)},
        'cost': {'cost': {}},
        'parameters': _plain(entries),
        'objects': {**tracked, **_plain(objects or {})},
        'duration_s': duration_s,
    }
    file = config.build(schema.TaskFile, data, str(name))
    terms = [_function(model, qpos, 'cost', cost)]
    if terminal_cost is not None:
        final = _function(model, qpos, 'terminal_cost', terminal_cost)
        terms = [
            dataclasses.replace(terms[0], terminal_weight=0.0),
            dataclasses.replace(final, weight=0.0),
        ]
    stage = Stage('', FunctionCost(terms), None, (), schema.StageConfig('', {}))
    return task_class(file, name, robot, model, (stage,), _success(model, qpos, success), qpos)


def _plain(value: Any) -> Any:
    """Return dataclasses and tuples, at any depth, as a YAML file would give them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    return value


def _keys(settings: object, default: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a whole config, or given keys merged into the default ones."""
    plain: dict[str, Any] = _plain(settings or {})
    return plain if dataclasses.is_dataclass(settings) else {**default, **plain}


def _start(model: mujoco.MjModel, start: npt.ArrayLike | None) -> Array:
    """Return the initial qpos (nq,): as given, else that of the model."""
    if start is None:
        return scene.start(model)
    qpos = np.array(start, dtype=float)
    if qpos.shape != (model.nq,) or not np.isfinite(qpos).all():
        raise ConfigError(f'start: shape {qpos.shape}, expected {model.nq} finite values (nq)')
    return qpos


def _planner(model: mujoco.MjModel, robot: Robot) -> dict[str, Any]:
    """Return the default settings; the noise is an eighth of each control's range."""
    substeps = max(1, round(0.03 / model.opt.timestep))
    step_s = substeps * float(model.opt.timestep)
    limits = robot.control_limits(step_s)
    spread = (limits.upper - limits.lower) / 8.0
    spread = np.where(spread < config.UNBOUNDED / 8.0, spread, _NOISE)
    return {
        'models': 16,
        'rollouts': 8,
        'horizon': 30,
        'step_s': step_s,
        'rate_hz': 1.0 / step_s,
        'substeps': substeps,
        'temperature': 0.5,
        'noise_variance': (spread**2).tolist(),
    }


def _belief(model: mujoco.MjModel) -> dict[str, Any]:
    likelihood = {
        'joint_position_sd': 3e-4,
        'joint_velocity_sd': 5e-3,
        'object_position_sd_m': 4e-3,
        'object_rotation_sd_rad': 0.03,
    }
    substep_s = min(0.002, float(model.opt.timestep))
    return {'particles': 64, 'substep_s': substep_s, 'likelihood': likelihood}


def _success(model: mujoco.MjModel, qpos: Array, success: StateFunction | None) -> Residual:
    """Return a residual that is 0 where the task is solved, else 1."""
    if success is None:
        return Residual((), lambda fields: np.ones(1))
    names, evaluate = _function(model, qpos, 'success', success).residual
    return Residual(names, lambda f: 1.0 - (evaluate(f) != 0.0)[..., None].astype(float))


def _function(model: mujoco.MjModel, qpos: Array, name: str, function: StateFunction) -> Term:
    """Call a function once to learn which fields it reads, and check what it returns."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    read = _FieldsRead(data)
    value = np.asarray(function(States(read)))
    if value.shape != _PROBED:
        raise ConfigError(
            f'{name}: returned shape {value.shape} for states of shape {_PROBED}; it must return '
            'one value per state, so index fields from the right, such as qpos[..., 0]'
        )
    if not np.isfinite(value).all():
        raise ConfigError(f'{name}: is {value.flat[0]} in the initial state')

    def evaluate(fields: Mapping[str, Array]) -> Array:
        return np.asarray(function(States(fields)), dtype=float)

    # a rollout needs at least one field to be recorded
    fields = tuple(sorted(read)) or ('qpos',)
    residual = Residual(fields, evaluate)
    return Term(name=name, residual=residual, weight=1.0, terminal_weight=1.0)


class _FieldsRead(dict[str, Array]):
    """The fields of one state that were read, repeated along the leading axes."""

    def __init__(self, data: mujoco.MjData) -> None:
        self._data = data

    def __missing__(self, name: str) -> Array:
        value = getattr(self._data, name, None)
        if not isinstance(value, np.ndarray):
            fields = [f for f in dir(self._data) if not f.startswith('_')]
            raise ConfigError(f'cost: {unknown("MjData field", name, fields)}')
        self[name] = np.broadcast_to(value, (*_PROBED, *value.shape)).copy()
        return self[name]
