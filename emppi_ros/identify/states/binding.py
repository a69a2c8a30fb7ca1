"""What is to be identified, from a task or from a model file of its own."""

from collections.abc import Mapping
import copy
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import config, paths
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError, EmppiError, SceneError
from emppi_ros.identify.states.plant import Plant, Unknown
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_DISCRETE = ('jnt_type', 'jnt_axis', 'jnt_articulation')  # in which torques jump, or have kinks


@dataclass(frozen=True)
class Entry:
    """One parameter of a model file: its place in the scene, and where the search starts."""

    field: str = key(doc='what it is in MuJoCo, as in a task')
    of: str = key(doc='the body, geom, joint or actuator whose field it is')
    unit: str = key(doc='as in the task that will use what is found')
    element: int = key(0, doc='of a field that has several, such as x, y, z: 0, 1, 2')
    lower: float | None = key(None, doc='the search never goes below')
    upper: float | None = key(None, doc='nor above')
    initial: float | None = key(None, doc="the scene's own value if not given")
    size: float | None = key(None, doc='a change that matters; `initial` if not given')


@dataclass(frozen=True)
class ModelFile:
    """The keys of a model's YAML file: a scene, and what is unknown in it."""

    scene: str = key(doc='MJCF file: beside this file, or among our assets')
    parameters: Mapping[str, Entry] = key(
        check=lambda entries: len(entries) > 0,
        allowed='at least one parameter',
        doc='name -> parameter',
    )


def of_task(task: Task) -> Plant:
    """Return the plant of a task: a copy of its model, its parameters, and their prior means."""
    for parameter in task.parameters:
        if parameter.field in _DISCRETE:
            raise ConfigError(
                f'{task.where}: parameters: {parameter.name}: {parameter.field} is no quantity '
                'that least squares can find: use another method'
            )
    low, high = task.prior.range
    unknowns = tuple(
        Unknown(p.name, p.unit, float(mean), p.lower, p.upper, float(width) / 4.0)
        for p, mean, width in zip(task.parameters, task.prior.mean(), high - low, strict=True)
    )
    bodies = {name: settings.body for name, settings in task.tracked.items()}
    plant = _plant(copy.copy(task.model), task.parameters, unknowns, task.scene_file)
    return replace(plant, bodies=bodies, task=task)


def load_model(path: Path) -> Plant:
    """Return the plant that a model's YAML file describes."""
    data = config.load(path)
    file = config.build(ModelFile, data, str(path))
    try:
        found = paths.find_scene(file.scene, path.parent)
        model = scene.load_scene(found.path, root=found.root)
        parameters = tuple(_parameter(name, entry) for name, entry in file.parameters.items())
        registry.check(parameters, model)
        nominal = registry.nominal_values(parameters, model)
        unknowns = tuple(
            _unknown(parameter, entry, float(value))
            for parameter, entry, value in zip(
                parameters, file.parameters.values(), nominal, strict=True
            )
        )
    except EmppiError as error:
        raise config.located(error, str(path), data) from None
    return _plant(model, parameters, unknowns, found)


def _parameter(name: str, entry: Entry) -> Parameter:
    lower = -np.inf if entry.lower is None else entry.lower
    upper = np.inf if entry.upper is None else entry.upper
    try:
        return Parameter(name, entry.field, entry.of, entry.element, lower, upper, entry.unit)
    except (ConfigError, SceneError) as error:
        raise type(error)(f'parameters: {name}: {error}') from None


def _unknown(parameter: Parameter, entry: Entry, nominal: float) -> Unknown:
    initial = nominal if entry.initial is None else entry.initial
    try:
        return Unknown(
            parameter.name, parameter.unit, initial, parameter.lower, parameter.upper, entry.size
        )
    except ConfigError as error:
        raise ConfigError(f'parameters: {error}') from None


def _plant(
    model: mujoco.MjModel,
    parameters: tuple[Parameter, ...],
    unknowns: tuple[Unknown, ...],
    file: paths.SceneFile,
) -> Plant:
    """Return a plant that writes through the registry, as planner and belief do."""

    def write(changed: mujoco.MjModel, theta: Array) -> None:
        registry.write(lambda name: getattr(changed, name)[None], model, parameters, theta[None])

    return Plant(model, unknowns, write, parameters=parameters, scene=file)
