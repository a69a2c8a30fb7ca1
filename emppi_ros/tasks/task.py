"""A task: its YAML file, bound to a scene and a robot."""

from collections.abc import Callable, Mapping
import copy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
import yaml

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, EmppiError, SceneError, prefix_errors, unknown
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.ensemble import State
from emppi_ros.priors import prior_file
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.robots.robot import Robot, RobotMap, bind, load_robot
from emppi_ros.tasks import model_task, objects, schema
from emppi_ros.tasks.cost import bind_residual
from emppi_ros.tasks.model_task import States
from emppi_ros.tasks.planner_config import PlannerConfig
from emppi_ros.tasks.residuals import Residual, norm
from emppi_ros.tasks.stages import Stage, bind_probe, bind_stages

_MESHES = (mujoco.mjtGeom.mjGEOM_MESH.value, mujoco.mjtGeom.mjGEOM_SDF.value)


class Task:
    """
    A task bound to its scene and robot. Make one with `load_task` or `from_model`.

    Attributes
    ----------
    name : str
        Name of the task.
    model : mujoco.MjModel
        The scene, with nominal parameters.
    robot : Robot
        Joints, limits and control mode of the robot.
    parameters : tuple of Parameter
        The P uncertain parameters: `name`, `unit`, `lower`, `upper`.
    prior : JointPrior
        Distribution of the parameters; `prior.sample(count, rng)` returns (count, P).
    objects : dict
        Tracked objects with a free joint, by name; `qpos` and `qvel` are their addresses in the
        state.
    jointed : dict
        Tracked objects with one hinge or slide, by name; likewise.
    probe_cost : Cost or None
        The cost while probing, if it is not the task's.
    planner : PlannerConfig
        Settings of the planner.
    belief : BeliefConfig
        Settings of the particle filter.
    simulation : SimulationConfig
        Settings of the simulator.
    file : TaskFile
        All keys of the YAML file.

    """

    def __init__(
        self,
        file: schema.TaskFile,
        where: str,
        robot: Robot,
        model: mujoco.MjModel,
        stages: tuple[Stage, ...] | None = None,
        success: Residual | None = None,
        start: Array | None = None,
        scene_file: paths.SceneFile | None = None,
    ) -> None:
        """Bind a task to its robot and model; see `load_task`, `parse_task` and `from_model`."""
        self.file, self.where = file, where
        self.data: Mapping[str, Any] = {}  # the YAML it was read from
        self.name, self.description = file.name, file.description
        self.planner, self.belief, self.simulation = file.planner, file.belief, file.simulation
        self.robot, self.model, self._scene_file = robot, model, scene_file
        self._initial_qpos = model.qpos0 if start is None else start
        self.model.opt.timestep = file.planner.step_s / file.planner.substeps
        self.map: RobotMap = prefix_errors('robot', bind, self.robot, self.model)
        of_robot = {k: v for k, v in robot.parameters.items() if k not in file.parameters}
        places = dict.fromkeys(file.parameters, '') | dict.fromkeys(of_robot, 'robot: ')
        entries = {
            name: config.build(schema.ParameterConfig, data, f'{places[name]}parameters: {name}')
            for name, data in {**file.parameters, **of_robot}.items()
        }
        self.parameters = tuple(
            prefix_errors(f'{places[name]}parameters: {name}', entry.parameter, name)
            for name, entry in entries.items()
        )
        self.priors: tuple[Prior, ...] = tuple(entry.prior for entry in entries.values())
        self.prior = JointPrior(self.parameters, self.priors)
        registry.check(self.parameters, self.model)
        self.objects: dict[str, objects.FreeObject] = {}
        self.jointed: dict[str, objects.JointedObject] = {}
        for name, data in file.objects.items():
            settings = config.build(schema.TrackedObjectConfig, data, f'objects: {name}')
            if settings.motion == 'jointed':
                self.jointed[name] = objects.bind_jointed(self.model, name, settings)
            else:
                self.objects[name] = objects.bind_free(self.model, name, settings)
        # all objects whose poses a tracker reports
        self.tracked: dict[str, schema.TrackedObjectConfig] = {
            name: item.settings
            for items in (self.objects, self.jointed)
            for name, item in items.items()
        }
        self.stages = bind_stages(self.model, file) if stages is None else stages
        self.probe_cost = bind_probe(self.model, file)
        self.success: Residual = success or bind_residual(
            self.model, file.success.residual, 'success: residual'
        )
        self.lost: Residual | None = None
        if file.targets and file.targets.lost:
            self.lost = bind_residual(
                self.model, file.targets.lost.residual, 'targets: lost: residual'
            )
        names = [p.name for p in self.parameters]
        self.blocks = objects.bind_blocks(
            self.model, self.belief.blocks, names, {**self.objects, **self.jointed}
        )
        changes = self.belief.changes
        for name in changes.of or () if changes else ():
            if name not in names:
                raise ConfigError(f'belief: changes: of: {unknown("parameter", name, names)}')
        if file.view:
            prefix_errors('view: body', scene.find, self.model, 'body', file.view.body)
        self.planner.variance(self.model.nu)
        priors = {name: entries[name].prior for name in of_robot}
        self.truth: tuple[Prior, ...] = self._bind_truth(priors)
        self._check_unmodeled()
        self._check_measured()

    @property
    def target(self) -> int | None:
        """Index of the target's mocap body; None for tasks without a sequence of targets."""
        if self.file.targets is None:
            return None
        body = scene.find(self.model, 'body', self.file.targets.body)
        return int(self.model.body_mocapid[body])

    def with_prior(self, name: str) -> 'Task':
        """
        Return this task with the prior from a file: a name in config/priors, or a path.

        An empty name keeps the task's own. ConfigError if the file is invalid or does not fit.
        """
        if not name:
            return self
        changed = copy.copy(self)
        changed.prior = prior_file.read(name, self.parameters, self.priors, self.name)
        return changed

    def tuned(self, data: Mapping[str, Any]) -> 'Task':
        """Return this task with other tunable numbers; `data` is its YAML with those numbers."""
        changed = copy.copy(self)
        changed.file, changed.data = config.build(schema.TaskFile, data, self.where), data
        changed.planner, changed.belief = changed.file.planner, changed.file.belief
        changed.planner.variance(self.model.nu)
        changed.stages = bind_stages(self.model, changed.file)
        changed.probe_cost = bind_probe(self.model, changed.file)
        return changed

    def with_prior_text(self, text: str, where: str) -> 'Task':
        """Return this task with the prior in a YAML text, unless empty; `where` is for errors."""
        if not text:
            return self
        changed = copy.copy(self)
        changed.prior = prior_file.parse(text, self.parameters, self.priors, where, self.name)
        return changed

    @property
    def commanded_rows(self) -> list[int]:
        """Indices of the commanded joints among the robot's joints."""
        return [self.robot.joints.index(name) for name in self.robot.commanded]

    def visual_model(self) -> mujoco.MjModel:
        """Return the model with visual geoms, for rendering; its states are those of `model`."""
        if self._scene_file is None:
            return copy.copy(self.model)
        return _load_scene(self.file, self.robot, self._scene_file, visual=True)

    @property
    def scene_file(self) -> paths.SceneFile:
        """The MJCF file of the scene, and its package's folder; ConfigError if there is none."""
        if self._scene_file is None:
            raise ConfigError(f'{self.where}: made from a compiled model, without an MJCF file')
        return self._scene_file

    @classmethod
    def from_model(
        cls,
        model: mujoco.MjModel,
        cost: Callable[[States], npt.ArrayLike],
        parameters: Mapping[str, schema.ParameterConfig | Mapping[str, Any]] | None = None,
        *,
        terminal_cost: Callable[[States], npt.ArrayLike] | None = None,
        success: Callable[[States], npt.ArrayLike] | None = None,
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

        Every hinge and slide is measured, every joint with an actuator is commanded, within
        its `ctrlrange` and `range`. Bodies with a free joint are tracked.

        Parameters
        ----------
        model : mujoco.MjModel
            The scene; it is copied. One actuator per commanded joint, all of one kind:
            position, velocity or effort.
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
            Initial positions; the first keyframe or `qpos0` if not given.
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
        task: Task = model_task.from_model(
            cls, model, cost, parameters or {},
            terminal_cost=terminal_cost, success=success, hold_s=hold_s, start=start,
            objects=objects or {}, truth=truth or {}, planner=planner or {},
            belief=belief or {}, simulation=simulation or {}, duration_s=duration_s, name=name,
        )  # fmt: skip
        return task

    def start(self) -> State:
        """Return the initial state: the scene's qpos0 with the robot at home, at rest."""
        qpos = self._initial_qpos.copy()
        qpos[self.map.qpos] = self.robot.home
        return State(qpos, np.zeros(self.model.nv))

    def error(self, model: mujoco.MjModel, data: mujoco.MjData) -> float:
        """Return the norm of the success residual in the current state of a simulation."""
        return norm(self.success, data)

    def is_lost(self, data: mujoco.MjData) -> bool:
        """Return whether the object is lost (`targets: lost`) in a simulation."""
        if self.lost is None:
            return False
        return norm(self.lost, data) > self.file.targets.lost.above  # type: ignore[union-attr]

    def _bind_truth(self, default: Mapping[str, Prior]) -> tuple[Prior, ...]:
        """Return the distribution of each parameter's hidden true value."""
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
            if name not in truth and name not in default:
                raise ConfigError(f'simulation: truth: missing parameter {name!r}')
        simulation = self.file.simulation
        for key in ('changes', 'changes_when'):
            for i, change in enumerate(getattr(simulation, key)):
                if change.parameter not in names:
                    known = unknown('parameter', change.parameter, names)
                    raise ConfigError(f'simulation: {key}[{i}]: parameter: {known}')
        for i, waiting in enumerate(simulation.changes_when):
            where = f'simulation: changes_when[{i}]: when: residual'
            bind_residual(self.model, waiting.when.residual, where)
        for i, change in enumerate(simulation.changes):
            where = f'simulation: changes[{i}]'
            parameter = self.parameters[names.index(change.parameter)]
            if not parameter.lower <= change.to <= parameter.upper:
                bounds = f'{parameter.lower:g} to {parameter.upper:g} {parameter.unit}'.rstrip()
                raise ConfigError(f'{where}: to: found {change.to:g}, expected from {bounds}')
        return tuple(
            config.build(Prior, truth[n], f'simulation: truth: {n}') if n in truth else default[n]
            for n in names
        )

    def _check_unmodeled(self) -> None:
        """Raise if a joint or object of `simulation: joint_friction` or `sizes` does not exist."""
        for name in self.simulation.joint_friction:
            if name not in self.robot.commanded:
                known = unknown('commanded joint', name, self.robot.commanded)
                raise ConfigError(f'simulation: joint_friction: {known}')
        for name in self.simulation.sizes:
            if name not in self.objects:
                known = unknown('free object', name, self.objects)
                raise ConfigError(f'simulation: sizes: {known}')
            geoms = self.model.geom_bodyid == self.objects[name].body(self.model)
            if np.isin(self.model.geom_type[geoms], _MESHES).any() or not geoms.any():
                raise ConfigError(
                    f'simulation: sizes: {name}: its body needs geoms, and no mesh can be scaled'
                )

    def _check_measured(self) -> None:
        """Raise unless each degree of freedom belongs to a robot joint or a tracked object."""
        measured = set(self.map.qvel)
        for item in self.objects.values():
            measured |= set(range(item.qvel, item.qvel + 6))
        measured |= {item.qvel for item in self.jointed.values()}
        for dof in set(range(self.model.nv)) - measured:
            joint = scene.names(self.model, 'joint')[self.model.dof_jntid[dof]]
            raise SceneError(
                f'joint {joint!r} of the scene is not measured: it belongs neither to robot '
                f'{self.robot.name!r} nor to one of `objects` or `targets`'
            )


def load_task(name: str) -> Task:
    """
    Return a task: `name` is one in config/tasks, or the path of a YAML file.

    ConfigError if the file is missing or has an invalid key; SceneError if its scene is invalid
    or lacks a body, joint or actuator that the task names.
    """
    path = paths.find_config('tasks', name)
    data = config.load(path)
    task = _make(data, str(path), path.parent)
    if not task.file.prior:
        return task
    try:
        file = prefix_errors('prior', paths.find_config, 'priors', task.file.prior, path.parent)
        return task.with_prior(str(file))
    except EmppiError as error:
        raise config.located(error, str(path), data) from None


def parse_task(text: str, where: str = 'task') -> Task:
    """
    Return a task from a YAML text, such as a message on the topic `emppi/task`.

    Its prior is that of `parameters`: only the belief reads the file that the key `prior` names.
    """
    return _make(config.parse(text, where), where, None)


def task_text(name: str, robot: str = '') -> str:
    """
    Return the YAML of a task as published on the topic `emppi/task`.

    Relative paths in it become absolute, and `robot`, if given, replaces the task's robot. If
    neither applies, the text of the file is returned unchanged.
    """
    path = paths.find_config('tasks', name)
    data = config.load(path)
    file = config.build(schema.TaskFile, data, str(path))
    changed = {}
    scene_file, root = paths.find_scene(file.scene, path.parent)
    if root is None and not scene_file.is_relative_to(paths.ASSETS):
        changed['scene'] = str(scene_file.resolve())
    if robot or file.robot.endswith(('.yaml', '.yml')):
        robot_file = paths.find_config(
            'robots', robot or file.robot, None if robot else path.parent
        )
        by_path = (robot or file.robot).endswith(('.yaml', '.yml'))
        changed['robot'] = str(robot_file.resolve()) if by_path else robot
    if file.prior.endswith(('.yaml', '.yml')):
        changed['prior'] = str(paths.find_config('priors', file.prior, path.parent).resolve())
    if not changed:
        return path.read_text(encoding='utf-8')
    return yaml.safe_dump({**data, **changed}, sort_keys=False, allow_unicode=True)


def _make(data: dict[str, Any], where: str, folder: Path | None) -> Task:
    file = config.build(schema.TaskFile, data, where)
    try:
        robot = prefix_errors('robot', load_robot, file.robot, folder)
        scene_file = prefix_errors('scene', paths.find_scene, file.scene, folder)
        model = _load_scene(file, robot, scene_file, visual=False)
        task = Task(file, where, robot, model, scene_file=scene_file)
    except EmppiError as error:
        raise config.located(error, where, data) from None
    task.data = data
    return task


def _load_scene(
    file: schema.TaskFile, robot: Robot, scene_file: paths.SceneFile, visual: bool
) -> mujoco.MjModel:
    path, root = scene_file
    entries = [*file.parameters.values(), *robot.parameters.values()]
    # not checked yet: the parameters are bound to the compiled model
    places = [
        (str(entry.get('field')), str(entry.get('of', '')))
        for entry in entries
        if isinstance(entry, Mapping)
    ]
    targets = (file.targets.body,) if file.targets else ()
    model: mujoco.MjModel = prefix_errors(
        'scene', scene.load_scene, path, visual, root,
        file.scene_without, targets, file.scene_without_gravcomp, registry.not_simple(places),
    )  # fmt: skip
    return model
