"""A task, as its YAML file says it, bound to its scene and robot."""

from collections.abc import Mapping
import copy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
import yaml

from emppi_ros.belief import prior_binding
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.prior import JointPrior
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, EmppiError, SceneError, unknown
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.ensemble import State
from emppi_ros.robots.robot import Robot, RobotMap, bind, load_robot
from emppi_ros.tasks import objects
from emppi_ros.tasks.cost import bind_residual
from emppi_ros.tasks.residuals_base import Bound, length
from emppi_ros.tasks.schema import ParameterEntry, TaskFile, TrackedObject
from emppi_ros.tasks.stages import bind_stages

Array = npt.NDArray[np.float64]


class Task:
    """A task whose every name was found."""

    def __init__(self, file: TaskFile, where: str, folder: Path | None) -> None:
        """Bind a task file to its scene and robot; see `load_task` and `parse_task`."""
        self.file, self.where = file, where
        self.data: Mapping[str, Any] = {}  # the YAML that it was read from
        self.name, self.description = file.name, file.description
        self.planner, self.belief, self.simulation = file.planner, file.belief, file.simulation
        self.robot: Robot = objects.located('robot', load_robot, file.robot, folder)
        self.scene_file: paths.SceneFile = objects.located(
            'scene', paths.find_scene, file.scene, folder
        )
        self.model = self._load_scene(visual=False)
        self.model.opt.timestep = file.planner.step_s / file.planner.substeps
        self.map: RobotMap = objects.located('robot', bind, self.robot, self.model)
        entries = {
            name: config.build(ParameterEntry, data, f'parameters: {name}')
            for name, data in file.parameters.items()
        }
        self.parameters = tuple(
            objects.located(f'parameters: {name}', entry.parameter, name)
            for name, entry in entries.items()
        )
        self.priors: tuple[Prior, ...] = tuple(entry.prior for entry in entries.values())
        self.prior = JointPrior(self.parameters, self.priors)
        registry.check(self.parameters, self.model)
        self.objects: dict[str, objects.BoundObject] = {}
        self.jointed: dict[str, objects.JointedObject] = {}
        for name, data in file.objects.items():
            settings = config.build(TrackedObject, data, f'objects: {name}')
            if settings.motion == 'jointed':
                self.jointed[name] = objects.bind_jointed(self.model, name, settings)
            else:
                self.objects[name] = objects.bind_free(self.model, name, settings)
        # the objects whose poses a tracker reports, of every kind
        self.tracked = {n: item.settings for n, item in {**self.objects, **self.jointed}.items()}
        self.stages = bind_stages(self.model, file)
        self.success: Bound = bind_residual(self.model, file.success.residual, 'success: residual')
        self.lost: Bound | None = None
        if file.targets and file.targets.lost:
            self.lost = bind_residual(
                self.model, file.targets.lost.residual, 'targets: lost: residual'
            )
        self.blocks = objects.bind_blocks(
            self.model,
            self.belief.blocks,
            [p.name for p in self.parameters],
            {**self.objects, **self.jointed},
        )
        if file.view:
            objects.located('view: body', scene.find, self.model, 'body', file.view.body)
        self.planner.variance(self.model.nu)
        self.truth: tuple[Prior, ...] = self._bind_truth()
        self._check_measured()

    @property
    def target(self) -> int | None:
        """The mocap body that shows the target, if targets follow one another."""
        if self.file.targets is None:
            return None
        body = scene.find(self.model, 'body', self.file.targets.body)
        return int(self.model.body_mocapid[body])

    def with_prior(self, name: str) -> 'Task':
        """Return this task with the prior of a file: a name in config/priors, or a path."""
        changed = copy.copy(self)
        changed.prior = prior_binding.read(name, self.parameters, self.priors, self.name)
        return changed

    def tuned(self, data: Mapping[str, Any]) -> 'Task':
        """Return this task with the weights and settings of YAML that differs in them alone."""
        changed = copy.copy(self)
        changed.file, changed.data = config.build(TaskFile, data, self.where), data
        changed.planner, changed.belief = changed.file.planner, changed.file.belief
        changed.planner.variance(self.model.nu)
        changed.stages = bind_stages(self.model, changed.file)
        return changed

    def with_prior_text(self, text: str, where: str) -> 'Task':
        """Return this task with the prior of a file's text; `where` is for errors."""
        changed = copy.copy(self)
        changed.prior = prior_binding.parse(text, self.parameters, self.priors, where, self.name)
        return changed

    @property
    def commanded_rows(self) -> list[int]:
        """The commanded joints' places among the robot's joints."""
        return [self.robot.joints.index(name) for name in self.robot.commanded]

    def visual_model(self) -> mujoco.MjModel:
        """Return the model with all that is only looked at, for pictures; states fit both."""
        return self._load_scene(visual=True)

    def start(self) -> State:
        """Return where the task begins: the scene's poses, the robot at home."""
        qpos = self.model.qpos0.copy()
        qpos[self.map.qpos] = self.robot.home
        return State(qpos, np.zeros(self.model.nv))

    def error(self, model: mujoco.MjModel, data: mujoco.MjData) -> float:
        """Return the length of the success residual in a simulation's current state."""
        return length(self.success, data)

    def is_lost(self, data: mujoco.MjData) -> bool:
        """Return whether a simulation has lost what its targets are for."""
        if self.lost is None:
            return False
        return length(self.lost, data) > self.file.targets.lost.above  # type: ignore[union-attr]

    def _load_scene(self, visual: bool) -> mujoco.MjModel:
        path, root = self.scene_file
        targets = (self.file.targets.body,) if self.file.targets else ()
        without = self.file.scene_without
        return objects.located('scene', scene.load_scene, path, visual, root, without, targets)

    def _bind_truth(self) -> tuple[Prior, ...]:
        """Return the distribution of each hidden true value."""
        truth = self.file.simulation.truth
        names = [parameter.name for parameter in self.parameters]
        for where in ('truth', 'wrong'):
            for name in getattr(self.file.simulation, where):
                if name not in names:
                    raise ConfigError(
                        f'simulation: {where}: not in parameters: '
                        f'{unknown("parameter", name, names)}'
                    )
        for name in names:
            if name not in truth:
                raise ConfigError(f'simulation: truth: missing parameter {name!r}')
        return tuple(config.build(Prior, truth[n], f'simulation: truth: {n}') for n in names)

    def _check_measured(self) -> None:
        """Every degree of freedom must be measured: a robot joint's, or a tracked object's."""
        measured = set(self.map.qvel)
        for item in self.objects.values():
            measured |= set(range(item.qvel, item.qvel + 6))
        measured |= {item.qvel for item in self.jointed.values()}
        for dof in set(range(self.model.nv)) - measured:
            joint = scene.names(self.model, 'joint')[self.model.dof_jntid[dof]]
            raise SceneError(
                f'joint {joint!r} of the scene is measured by nobody: it is neither one of robot '
                f"{self.robot.name!r}'s joints nor that of one of objects or targets"
            )


def load_task(name: str) -> Task:
    """Return a task from config/tasks, or from a path to a YAML file."""
    path = paths.find_config('tasks', name)
    return _make(config.load(path), str(path), path.parent)


def parse_task(text: str, where: str = 'task') -> Task:
    """Return a task from the text of its YAML, as it travels on the topic `emppi/task`."""
    return _make(config.parse(text, where), where, None)


def task_text(name: str, robot: str = '') -> str:
    """
    Return the YAML of a task as it travels on the topic `emppi/task`, to be read anywhere.

    Files that the YAML names relative to itself get absolute paths; `robot` replaces the
    task's own. Without either it is the file's very text.
    """
    path = paths.find_config('tasks', name)
    data = config.load(path)
    file = config.build(TaskFile, data, str(path))
    changed = {}
    scene_file, root = paths.find_scene(file.scene, path.parent)
    if root is None and not scene_file.is_relative_to(paths.ASSETS):
        changed['scene'] = str(scene_file.resolve())
    if robot or file.robot.endswith(('.yaml', '.yml')):
        found = paths.find_config('robots', robot or file.robot, None if robot else path.parent)
        by_path = (robot or file.robot).endswith(('.yaml', '.yml'))
        changed['robot'] = str(found.resolve()) if by_path else robot
    if not changed:
        return path.read_text(encoding='utf-8')
    return yaml.safe_dump({**data, **changed}, sort_keys=False, allow_unicode=True)


def _make(data: dict[str, Any], where: str, folder: Path | None) -> Task:
    file = config.build(TaskFile, data, where)
    try:
        task = Task(file, where, folder)
    except EmppiError as error:
        raise config.located(error, where, data) from None
    task.data = data
    return task
