"""A task: its YAML file, bound to a scene and a robot."""

from collections.abc import Mapping
import copy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import yaml

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, EmppiError, SceneError, prefix_errors, unknown
from emppi_ros.model import locked_joints, scene
from emppi_ros.model import parameters as registry
from emppi_ros.model.ensemble import State
from emppi_ros.priors import prior_file
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.robots import held_joints, scene_limits
from emppi_ros.robots.robot import Robot, RobotMap, bind, load_robot
from emppi_ros.tasks import model_task, objects, schema
from emppi_ros.tasks.cost import Stage, bind_condition, bind_probe, bind_residual, bind_stages
from emppi_ros.tasks.residuals import Residual, norm

_MESHES = (mujoco.mjtGeom.mjGEOM_MESH.value, mujoco.mjtGeom.mjGEOM_SDF.value)


class Task:
    """
    A task bound to its scene and robot. Make one with `load_task` or `from_model`.

    Attributes
    ----------
    model : mujoco.MjModel
        The scene, with nominal parameters.
    parameters : tuple of Parameter
        The P uncertain parameters: `name`, `unit`, `lower`, `upper`.
    prior : JointPrior
        Distribution of the parameters; `prior.sample(count, rng)` returns (count, P).
    held : dict
        Joints and actuators that no command moves, such as a gripper's: name -> constant position
        [rad or m] or control.
    objects, jointed : dict
        Tracked objects with a free joint, and those with one hinge or slide, by name; `qpos` and
        `qvel` are their addresses in the state.
    probe_cost : Cost or None
        The cost while probing, if it is not the task's.
    planner, belief, simulation, file : PlannerConfig, BeliefConfig, SimulationConfig, TaskFile
        Settings; `file` has all keys of the YAML file.

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
        held: Mapping[str, float] | None = None,
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
        self.held = {
            **(held or {}),
            **held_joints.hold_actuators(robot, model, self.start().qpos),
        }
        prefix_errors('robot', scene_limits.check, self.robot, self.model)
        of_robot = {k: v for k, v in robot.parameters.items() if k not in file.parameters}
        parameters, priors = [], {}
        for name, data in {**file.parameters, **of_robot}.items():
            here = f'{"robot: " if name in of_robot else ""}parameters: {name}'
            entry = config.build(schema.ParameterConfig, data, here)
            parameters.append(prefix_errors(here, entry.parameter, name))
            priors[name] = entry.prior
        self.parameters = tuple(parameters)
        self.priors: tuple[Prior, ...] = tuple(priors.values())
        self.prior = JointPrior(self.parameters, self.priors)
        registry.check(self.parameters, self.model)
        self.objects: dict[str, objects.FreeObject] = {}
        self.jointed: dict[str, objects.JointedObject] = {}
        for name, data in file.objects.items():
            settings = config.build(schema.TrackedObjectConfig, data, f'objects: {name}')
            item = objects.bind_object(self.model, name, settings)
            if isinstance(item, objects.JointedObject):
                self.jointed[name] = item
            else:
                self.objects[name] = item
        tracked: dict[str, objects.TrackedObject] = {**self.objects, **self.jointed}
        # all objects whose poses a tracker reports
        self.tracked = {name: item.settings for name, item in tracked.items()}
        self.stages = bind_stages(self.model, file) if stages is None else stages
        self.probe_cost = bind_probe(self.model, file)
        self.success: Residual = success or bind_condition(self.model, file.success, 'success')
        self.lost: Residual | None = None
        if file.targets and file.targets.lost:
            lost = file.targets.lost.residual
            self.lost = bind_residual(self.model, lost, 'targets: lost: residual')
        names = [p.name for p in self.parameters]
        self.blocks = objects.bind_blocks(self.model, self.belief.blocks, names, tracked)
        changes = self.belief.changes
        for name in changes.of or () if changes else ():
            if name not in names:
                raise ConfigError(f'belief: changes: of: {unknown("parameter", name, names)}')
        if file.view:
            prefix_errors('view: body', scene.find, self.model, 'body', file.view.body)
        self.planner.variance(len(self.robot.commanded))
        self.truth = self._bind_truth({name: priors[name] for name in of_robot})
        self._check_unmodeled()
        self._check_measured()

    @property
    def follows_in_simulation(self) -> bool:
        """Whether the simulated robot follows its commands as a real one does."""
        monitored = self.simulation.residual_monitor
        # simulated servos of position lag and yield more than real ones
        return self.robot.command != 'position' if monitored is None else monitored

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
        changed.planner.variance(len(self.robot.commanded))
        changed.stages = bind_stages(self.model, changed.file)
        changed.probe_cost = bind_probe(self.model, changed.file)
        changed.success = bind_condition(self.model, changed.file.success, 'success')
        return changed

    def with_prior_text(self, text: str) -> 'Task':
        """Return this task with the prior in a YAML text, unless it is empty."""
        if not text:
            return self
        changed, data = copy.copy(self), config.parse(text, 'prior', prior_file.MAX_CHARACTERS)
        changed.prior = prior_file.bind(data, self.parameters, self.priors, 'prior', self.name)
        return changed

    @property
    def commanded_rows(self) -> list[int]:
        """Indices of the commanded joints among the robot's joints."""
        joints = self.robot.joints
        return [joints.index(name) for name in self.robot.commanded if name in joints]

    def commanded_state(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """
        Return position and velocity of what each command moves, from those of all joints.

        For commands of tendons, these are the lengths of their actuators and the rates of them.
        """
        rows = self.commanded_rows
        if len(rows) == len(self.robot.commanded):
            return position[rows], velocity[rows]
        data = mujoco.MjData(self.model)
        data.qpos[:] = self._initial_qpos
        data.qpos[self.map.qpos], data.qvel[self.map.qvel] = position, velocity
        mujoco.mj_fwdPosition(self.model, data)
        mujoco.mj_fwdVelocity(self.model, data)
        return data.actuator_length[self.map.ctrl], data.actuator_velocity[self.map.ctrl]

    def visual_model(self) -> mujoco.MjModel:
        """Return the model with visual geoms, for rendering; its states are those of `model`."""
        if self._scene_file is None:
            return copy.copy(self.model)
        return _load_scene(self.file, self.robot, self._scene_file, visual=True)[0]

    @property
    def has_file(self) -> bool:
        """Return whether the scene is an MJCF file; else the task was made `from_model`."""
        return self._scene_file is not None

    @property
    def scene_file(self) -> paths.SceneFile:
        """The MJCF file of the scene, and its package's folder; ConfigError if there is none."""
        if self._scene_file is None:
            raise ConfigError(f'{self.where}: made from a compiled model, without an MJCF file')
        return self._scene_file

    from_model = classmethod(model_task.from_model)

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
        simulation, truth = self.simulation, self.simulation.truth
        parameters = {parameter.name: parameter for parameter in self.parameters}
        named = [('truth: not in parameters', name) for name in truth]
        named += [('wrong: not in parameters', name) for name in simulation.wrong]
        for key in ('changes', 'changes_when'):
            for i, change in enumerate(getattr(simulation, key)):
                named.append((f'{key}[{i}]: parameter', change.parameter))
        for where, name in named:
            if name not in parameters:
                known = unknown('parameter', name, parameters)
                raise ConfigError(f'simulation: {where}: {known}')
        for name in parameters:
            if name not in truth and name not in default:
                raise ConfigError(f'simulation: truth: missing parameter {name!r}')
        for i, waiting in enumerate(simulation.changes_when):
            bind_condition(self.model, waiting.when, f'simulation: changes_when[{i}]: when')
        for i, change in enumerate(simulation.changes):
            parameter = parameters[change.parameter]
            if not parameter.lower <= change.to <= parameter.upper:
                bounds = f'{parameter.lower:g} to {parameter.upper:g} {parameter.unit}'.rstrip()
                text = f'found {change.to:g}, expected from {bounds}'
                raise ConfigError(f'simulation: changes[{i}]: to: {text}')
        return tuple(
            config.build(Prior, truth[n], f'simulation: truth: {n}') if n in truth else default[n]
            for n in parameters
        )

    def _check_unmodeled(self) -> None:
        """Raise if a joint or object of `simulation: joint_friction` or `sizes` does not exist."""
        for name in self.simulation.joint_friction:
            if name not in self.robot.commanded:
                known = unknown('commanded joint', name, self.robot.commanded)
                raise ConfigError(f'simulation: joint_friction: {known}')
        for name, ranges in self.simulation.starts.items():
            if name not in self.tracked:
                known = unknown('object', name, self.tracked)
                raise ConfigError(f'simulation: starts: {known}, as in `objects`')
            unused = ('joint',) if name in self.objects else ('x', 'y', 'yaw')
            for field in unused:
                if any(getattr(ranges, field)):
                    motion = 'free' if name in self.objects else 'jointed'
                    raise ConfigError(f'simulation: starts: {name}: {field}: it is {motion}')
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
        measured = {*self.map.qvel, *(item.qvel for item in self.jointed.values())}
        for item in self.objects.values():
            measured |= set(range(item.qvel, item.qvel + 6))
        for dof in set(range(self.model.nv)) - measured:
            index = self.model.dof_jntid[dof]
            joint = scene.names(self.model, 'joint')[index]
            body = scene.names(self.model, 'body')[self.model.jnt_bodyid[index]]
            raise SceneError(
                f'joint {joint!r} of body {body!r} is not measured: it belongs neither '
                f'to robot {self.robot.name!r} nor to one of `objects` or `targets`'
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
    """Return a task from a YAML text, as on `emppi/task`; its prior is that of `parameters`."""
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
    changed: dict[str, str] = {}
    scene_file, root = paths.find_scene(file.scene, path.parent, file.scene_root)
    if file.scene_root:
        changed = {'scene': str(scene_file.resolve()), 'scene_root': str(root)}
    elif root is None and not scene_file.is_relative_to(paths.ASSETS):
        changed['scene'] = str(scene_file.resolve())
    for key, given, of_task in (('robot', robot, file.robot), ('prior', '', file.prior)):
        value, beside = given or of_task, None if given else path.parent
        if value.endswith(('.yaml', '.yml')):
            changed[key] = str(paths.find_config(f'{key}s', value, beside).resolve())
        elif given:
            changed[key] = paths.find_config(f'{key}s', value).stem
    if not changed:
        return path.read_text(encoding='utf-8')
    return yaml.safe_dump({**data, **changed}, sort_keys=False, allow_unicode=True)


def bind_task(
    data: Mapping[str, Any], where: str, robot: Robot, scene_file: paths.SceneFile
) -> Task:
    """Return the task of a YAML mapping for a robot and a scene that were found already."""
    file = config.build(schema.TaskFile, data, where)
    try:
        model, held = _load_scene(file, robot, scene_file, visual=False)
        task = Task(file, where, robot, model, scene_file=scene_file, held=held)
    except EmppiError as error:
        raise config.located(error, where, data) from None
    task.data = data
    return task


def _make(data: dict[str, Any], where: str, folder: Path | None) -> Task:
    file = config.build(schema.TaskFile, data, where)
    try:
        robot = prefix_errors('robot', load_robot, file.robot, folder)
        scene_file = prefix_errors('scene', paths.find_scene, file.scene, folder, file.scene_root)
    except EmppiError as error:
        raise config.located(error, where, data) from None
    return bind_task(data, where, robot, scene_file)


def _load_scene(
    file: schema.TaskFile, robot: Robot, scene_file: paths.SceneFile, visual: bool
) -> tuple[mujoco.MjModel, dict[str, float]]:
    """Return the model of a scene, and the positions of joints that are rigid in it."""
    path, root = scene_file
    entries = [*file.parameters.values(), *robot.parameters.values()]
    # not checked yet: the parameters are bound to the compiled model
    places = [
        (str(entry.get('field')), str(entry.get('of', '')))
        for entry in entries
        if isinstance(entry, Mapping)
    ]
    targets = (file.targets.body,) if file.targets else ()
    tracked = [
        str(entry.get('body', '')) for entry in file.objects.values() if isinstance(entry, Mapping)
    ]

    held: dict[str, float] = {}

    def hold(spec: mujoco.MjSpec, model: mujoco.MjModel) -> mujoco.MjModel:
        positions, names = held_joints.find(robot, model, tracked), scene.names(model, 'joint')
        held.update({names[joint]: position for joint, position in positions.items()})
        return locked_joints.lock(spec, model, positions) if positions else model

    model: mujoco.MjModel = prefix_errors(
        'scene', scene.load_scene, path, visual, root, file.scene_without, targets,
        file.scene_without_gravcomp, registry.not_simple(places), hold,
    )  # fmt: skip
    return model, held
