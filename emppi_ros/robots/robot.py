"""Robots: joints, limits, home pose, commands and topics, from `config/robots/*.yaml`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array, Ints
from emppi_ros.core.config import fraction, key, one_of, registered
from emppi_ros.core.errors import ConfigError, JointStateError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.robots import franka_limits

_CONTINUOUS = 8.0 * math.pi  # rad
_LARGEST = 1e6  # rad, m, rad/s, m/s, N m or N: no robot measures more
TRAJECTORY_TOPIC = 'joint_trajectory_controller/joint_trajectory'  # the usual one
# Names of backends, and whether the simulator takes their commands. `emppi_ros/nodes/backends` has
# a module of each name.
BACKENDS = {'forward': True, 'trajectory': True, 'franky': False, 'dry-run': False}


@dataclass(frozen=True)
class PositionLimits:
    """Lowest and highest position of each joint [rad or m]."""

    lower: tuple[float, ...] = key(
        doc='one value per commanded joint [rad or m]; -.inf if it turns endlessly',
        bounded=False,
    )
    upper: tuple[float, ...] = key(
        doc='one value per commanded joint [rad or m]; .inf if it turns endlessly', bounded=False
    )


@dataclass(frozen=True)
class JointLimits:
    """Limits of each commanded joint, in the order of `commanded`."""

    position: PositionLimits = key(doc='the end stops')
    velocity: tuple[float, ...] = key(doc='rad/s or m/s')
    acceleration: tuple[float, ...] = key(doc='rad/s^2 or m/s^2')
    jerk: tuple[float, ...] = key((), doc='rad/s^3 or m/s^3')
    effort: tuple[float, ...] = key((), doc='N m or N; required if commands are efforts')


@dataclass(frozen=True)
class Topics:
    """Topics of the robot's own controllers, relative to the namespace."""

    joint_states: str = key('joint_states', doc='topic of the measured joint states')
    commands: Mapping[str, str] = key({}, doc='command topic per interface')


class ControlLimits(NamedTuple):
    """Bounds of each control, and of its change in one step."""

    lower: Array  # (nu,)
    upper: Array  # (nu,)
    rate: Array  # (nu,), largest change in a step; inf if a control may jump

    def clip(self, controls: Array, previous: Array) -> Array:
        """Return controls (..., H, nu) clipped to bounds and rate, starting from `previous`."""
        clipped = np.minimum(np.maximum(controls, self.lower), self.upper)
        inside = (previous >= self.lower) & (previous <= self.upper)
        # from inside of the bounds, a rate that spans them never binds
        if (np.isinf(self.rate) | (inside & (self.rate >= self.upper - self.lower))).all():
            return clipped
        steps = np.ascontiguousarray(clipped.swapaxes(0, -2))  # (H, ..., nu)
        shape = steps.shape[1:]
        rate, last, bound = np.full(shape, self.rate), np.full(shape, previous), np.empty(shape)
        for row in steps:
            np.maximum(row, np.subtract(last, rate, out=bound), out=row)
            np.minimum(row, np.add(last, rate, out=bound), out=row)
            last = row
        return np.ascontiguousarray(steps.swapaxes(0, -2))


@dataclass(frozen=True)
class Robot:
    """A robot's YAML file."""

    name: str = key(doc='name of the robot in messages')
    joints: tuple[str, ...] = key(doc='measured joints, as named in the scene')
    commanded: tuple[str, ...] = key(doc='those of `joints` that commands move')
    command: str = one_of('velocity', 'position', 'effort', doc='quantity that is commanded')
    home: tuple[float, ...] = key(doc='start position of `joints` [rad or m]')
    limits: JointLimits = key(doc='limits of `commanded`')
    dynamics_factor: float = fraction(
        0.5, doc='share of the velocity and acceleration limits that is used'
    )
    published: str = one_of(
        *franka_limits.TABLES,
        franka_limits.NONE,
        default=franka_limits.NONE,
        doc='model whose published limits must not be exceeded',
    )
    accept_custom_limits: bool = key(
        False, doc='accept limits looser than published, with a warning'
    )
    parameters: Mapping[str, Any] = key(
        {},
        doc='uncertain parameters of all tasks with this robot, such as `command_delay`: name -> '
        "entry as in a task; a task's own entry of the same name replaces it",
    )
    ros_joints: tuple[str, ...] = key(
        (),
        doc='names of `joints` in joint states, controllers and URDF, in the same order, such as '
        'with a prefix; default: as in the scene',
    )
    held: Mapping[str, float] = key(
        {},
        doc='where joints that no command moves are held, such as those of a gripper: name in the '
        'scene -> position [rad or m]; default: as in the first keyframe of the scene',
    )
    frame: str = key('world', doc='frame of tracked poses, at the base of the model')
    topics: Topics = key(Topics(), doc="of the robot's own controllers")
    backend: str = registered(BACKENDS, default='forward', doc='interface to the robot')

    def __post_init__(self) -> None:
        """Check lengths and names against each other."""
        for name in ('joints', 'commanded', 'ros_joints'):
            given = getattr(self, name)
            if len(set(given)) != len(given) or not (given or name == 'ros_joints'):
                raise ConfigError(f'{name}: needs at least one name, without duplicates')
        n, limits = len(self.commanded), self.limits
        lower, upper = limits.position.lower, limits.position.upper
        efforts = n if limits.effort or self.command == 'effort' else 0
        rows = {
            'home': (self.home, len(self.joints)),
            'ros_joints': (self.ros_joints, len(self.joints) if self.ros_joints else 0),
            'limits: position: lower': (lower, n),
            'limits: position: upper': (upper, n),
            'limits: velocity': (limits.velocity, n),
            'limits: acceleration': (limits.acceleration, n),
            'limits: jerk': (limits.jerk, n if limits.jerk else 0),
            'limits: effort': (limits.effort, efforts),
        }
        for name, (values, length) in rows.items():
            if len(values) != length:
                of = 'joints' if name in ('home', 'ros_joints') else 'commanded'
                raise ConfigError(f'{name}: {len(values)} values, expected {length} (as {of})')
        for name in ('velocity', 'acceleration', 'jerk', 'effort'):
            if any(value <= 0 for value in getattr(limits, name)):
                raise ConfigError(f'limits: {name}: every value must be above 0')
        if any(a >= b for a, b in zip(lower, upper, strict=True)):
            raise ConfigError('limits: position: every lower must be below its upper')
        for name, low, high in zip(self.commanded, lower, upper, strict=True):
            if (
                name in self.joints
                and not low <= (home := self.home[self.joints.index(name)]) <= high
            ):
                raise ConfigError(
                    f'home: {home:g} of {name} is not between lower {low:g} and upper {high:g}'
                )
        if self.published != franka_limits.NONE and not limits.jerk:
            raise ConfigError(f'limits: jerk: missing; needed with `published: {self.published}`')
        if self.custom_limits and not self.accept_custom_limits:
            raise ConfigError(
                f'limits: {"; ".join(self.custom_limits)} ({self.published}); the robot stops '
                'on its own there. Set `accept_custom_limits: true` to use them anyway'
            )

    @functools.cached_property
    def continuous(self) -> Ints:
        """Indices of the commanded joints that turn without end: by more than four turns."""
        position = self.limits.position
        endless = np.subtract(position.upper, position.lower) > _CONTINUOUS
        are_joints = [name in self.joints for name in self.commanded]  # not tendons
        return np.flatnonzero(endless & are_joints)

    @property
    def measured_names(self) -> tuple[str, ...]:
        """Names of `joints` in messages."""
        return self.ros_joints or self.joints

    @property
    def commanded_names(self) -> tuple[str, ...]:
        """Names of `commanded` in messages to and from controllers, and in the URDF."""
        names = dict(zip(self.joints, self.measured_names, strict=True))
        return tuple(names.get(joint, joint) for joint in self.commanded)

    def command_topic(self, kind: str = '') -> str:
        """Return the topic of a kind of command, by default its own; ConfigError without one."""
        kind = kind or self.command
        if kind not in self.topics.commands:
            usual = f'{kind}_controller/commands' if kind == self.command else TRAJECTORY_TOPIC
            raise ConfigError(
                f'topics: commands: {kind}: missing: give the topic of the controller, such as '
                f'`topics: {{commands: {{{kind}: {usual}}}}}`'
            )
        return self.topics.commands[kind]

    @property
    def custom_limits(self) -> tuple[str, ...]:
        """Limits that are looser than published, one sentence each."""
        if self.published == franka_limits.NONE:
            return ()
        limits = {**vars(self.limits.position), **vars(self.limits)}
        del limits['position']
        given = {name: row for name, row in limits.items() if row}
        return tuple(franka_limits.excesses(self.published, self.commanded, given))

    def control_limits(self, step_s: float) -> ControlLimits:
        """Return the bounds of the controls of a plan with steps of `step_s` seconds."""
        velocity = self.dynamics_factor * np.array(self.limits.velocity)
        acceleration = self.dynamics_factor * np.array(self.limits.acceleration)
        if self.command == 'velocity':
            return ControlLimits(-velocity, velocity, acceleration * step_s)
        if self.command == 'position':
            lower, upper = self.limits.position.lower, self.limits.position.upper
            return ControlLimits(np.array(lower), np.array(upper), velocity * step_s)
        effort = np.array(self.limits.effort)
        return ControlLimits(-effort, effort, np.full(len(effort), math.inf))


class RobotMap(NamedTuple):
    """Indices of a robot's joints and actuators in a model."""

    qpos: npt.NDArray[np.intp]  # of `joints`
    qvel: npt.NDArray[np.intp]
    ctrl: npt.NDArray[np.intp]  # of `commanded`
    nu: int  # actuators of the model

    def controls(self, commands: Array) -> Array:
        """Return the controls (..., nu) of commands (..., joints); other actuators get 0."""
        if np.array_equal(self.ctrl, np.arange(self.nu)):
            return commands
        controls = np.zeros((*commands.shape[:-1], self.nu))
        controls[..., self.ctrl] = commands
        return controls


def load_robot(name: str, beside: Path | None = None) -> Robot:
    """Return a robot from config/robots, or from a YAML file (`beside` the task's, or a path)."""
    path = paths.find_config('robots', name, beside)
    data = config.load(path)
    robot = config.build(Robot, data, str(path))
    if other := [joint for joint in robot.commanded if joint not in robot.joints]:
        error = ConfigError(f'{path}: commanded: {unknown("joint", other[0], robot.joints)}')
        raise config.located(error, str(path), data)
    return robot


def bind(robot: Robot, model: mujoco.MjModel) -> RobotMap:
    """Return the indices of joints and actuators; SceneError if one is missing or does not fit."""
    joints = [_find_joint(model, name) for name in robot.joints]
    for index, name in zip(joints, robot.joints, strict=True):
        if not scene.is_scalar(model, index):
            raise SceneError(f'joint {name!r} of robot {robot.name!r} must be a hinge or slide')
    ctrl = commanded_actuators(robot, model)
    return RobotMap(
        np.array(model.jnt_qposadr[joints]),
        np.array(model.jnt_dofadr[joints]),
        np.array(ctrl),
        int(model.nu),
    )


def _find_joint(model: mujoco.MjModel, name: str) -> int:
    """Return the id of a joint; SceneError says where names with a prefix belong."""
    try:
        return scene.find(model, 'joint', name)
    except SceneError as error:
        shorter = next((n for n in scene.names(model, 'joint') if n and name.endswith(n)), '')
        remedy = (
            '; if it has this name in messages only, give it in `ros_joints`, and in `joints` '
        )
        raise SceneError(f'{error}{f"{remedy}{shorter!r}" if shorter else ""}') from None


def commanded_actuators(robot: Robot, model: mujoco.MjModel) -> list[int]:
    """Return the actuator of each commanded joint; SceneError if it has none of this kind."""
    chosen, known = [], scene.names(model, 'actuator')
    for name in robot.commanded:
        if name not in robot.joints:
            if name not in known:
                raise SceneError(
                    f'commanded: {name!r} is neither one of joints nor an actuator of the scene'
                )
            chosen.append(known.index(name))
            continue
        actuators = scene.actuators_of(model, scene.find(model, 'joint', name))
        kinds = [command_of(model, actuator) for actuator in actuators]
        if kinds.count(robot.command) == 1:
            chosen.append(actuators[kinds.index(robot.command)])
        elif len(actuators) == 1:
            raise SceneError(
                f'actuator {known[actuators[0]]!r} is a {kinds[0]} servo, '
                f'but robot {robot.name!r} commands {robot.command}'
            )
        else:
            raise SceneError(
                f'joint {name!r} has {len(actuators)} actuators, of which '
                f'{kinds.count(robot.command)} take a {robot.command}, expected 1; actuators: '
                f'{", ".join(known)}'
            )
    return chosen


def select_joints(
    required: Sequence[str], names: Sequence[str], values: Mapping[str, Sequence[float]]
) -> dict[str, Array]:
    """
    Return values (required,) by quantity from a joint state in any order.

    `values` maps a quantity to one value per name in `names`; joints that are not required are
    ignored. JointStateError if a joint is missing or repeated, a quantity is missing, or a value
    is not finite.
    """
    where = {name: i for i, name in enumerate(names)}
    missing = [name for name in required if name not in where]
    if missing:
        raise JointStateError(
            f'missing joints: {", ".join(missing)}; the joint state has: {", ".join(names)}'
        )
    if len(where) < len(names) and (twice := [n for n in required if list(names).count(n) > 1]):
        raise JointStateError(f'joints given twice: {", ".join(twice)}')
    out = {}
    for quantity, row in values.items():
        if len(row) != len(names):
            raise JointStateError(
                f'{quantity}: {len(row)} values for {len(names)} joints'
                + ('; this robot needs it' if len(row) == 0 else '')
            )
        out[quantity] = np.array([row[where[name]] for name in required], dtype=np.float64)
        bad = ~(np.abs(out[quantity]) <= _LARGEST)
        if bad.any():
            which = [name for name, b in zip(required, bad, strict=True) if b]
            raise JointStateError(
                f'{quantity} of {", ".join(which)} is not finite, or beyond {_LARGEST:g}'
            )
    return out


def command_of(model: mujoco.MjModel, actuator: int) -> str:
    """Return what an actuator takes for commands: positions, velocities or efforts."""
    position, velocity = model.actuator_biasprm[actuator, 1:3] != 0.0
    return 'position' if position else 'velocity' if velocity else 'effort'
