"""A robot: joints, limits, home pose, commands and topics, from config/robots/*.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
import math
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import config, paths
from emppi_ros.core.config import fraction, key, one_of
from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.model import scene
from emppi_ros.robots import franka_limits
from emppi_ros.robots.control_limits import ControlLimits

Array = npt.NDArray[np.float64]
BACKENDS = ('forward', 'trajectory', 'franky', 'dry-run')  # each a file in nodes/backends


@dataclass(frozen=True)
class PositionLimits:
    """Lowest and highest position of each joint [rad or m]."""

    lower: tuple[float, ...] = key(doc='one per commanded joint [rad or m]')
    upper: tuple[float, ...] = key(doc='likewise')


@dataclass(frozen=True)
class JointLimits:
    """Limits of each commanded joint, in the order of `commanded`."""

    position: PositionLimits = key(doc='the end stops')
    velocity: tuple[float, ...] = key(doc='rad/s or m/s')
    acceleration: tuple[float, ...] = key(doc='rad/s^2 or m/s^2')
    jerk: tuple[float, ...] = key((), doc='rad/s^3 or m/s^3')
    effort: tuple[float, ...] = key((), doc='N m or N; needed where commands are efforts')


@dataclass(frozen=True)
class Topics:
    """Topics of the robot's own controllers, relative to the namespace."""

    joint_states: str = key('joint_states', doc='where the robot says how it is')
    commands: Mapping[str, str] = key({}, doc='command topic per interface')


@dataclass(frozen=True)
class Robot:
    """What a robot YAML says."""

    name: str = key(doc='for people')
    joints: tuple[str, ...] = key(doc='every measured joint, by the name in joint states')
    commanded: tuple[str, ...] = key(doc='the joints that commands move')
    command: str = one_of('velocity', 'position', 'effort', doc='what a command is')
    home: tuple[float, ...] = key(doc='start position of `joints` [rad or m]')
    limits: JointLimits = key(doc='limits of `commanded`')
    dynamics_factor: float = fraction(0.5, doc='share of velocity and acceleration that is used')
    published: str = one_of(
        *franka_limits.TABLES,
        franka_limits.NONE,
        default=franka_limits.NONE,
        doc='whose published limits these must not exceed',
    )
    accept_custom_limits: bool = key(False, doc='take limits looser than published, and warn')
    frame: str = key('world', doc='frame of tracked poses: the base of the model')
    topics: Topics = key(Topics(), doc="of the robot's own controllers")
    backend: str = one_of(*BACKENDS, default='forward', doc='how the bridge talks to it')

    def __post_init__(self) -> None:
        """Check lengths and names against one another."""
        for name in ('joints', 'commanded'):
            given = getattr(self, name)
            if len(set(given)) != len(given) or not given:
                raise ConfigError(f'{name}: needs at least one name, and no name twice')
        for name in self.commanded:
            if name not in self.joints:
                raise ConfigError(f'commanded: {name!r} is not one of joints')
        n, limits = len(self.commanded), self.limits
        rows = {
            'home': (self.home, len(self.joints)),
            'limits: position: lower': (limits.position.lower, n),
            'limits: position: upper': (limits.position.upper, n),
            'limits: velocity': (limits.velocity, n),
            'limits: acceleration': (limits.acceleration, n),
            'limits: jerk': (limits.jerk, n if limits.jerk else 0),
            'limits: effort': (
                limits.effort,
                n if limits.effort or self.command == 'effort' else 0,
            ),
        }
        for name, (values, length) in rows.items():
            if len(values) != length:
                of = 'joints' if name == 'home' else 'commanded'
                raise ConfigError(f'{name}: {len(values)} values, expected {length} (as {of})')
        for name in ('velocity', 'acceleration', 'jerk', 'effort'):
            if any(value <= 0 for value in getattr(limits, name)):
                raise ConfigError(f'limits: {name}: every value must be above 0')
        if any(a >= b for a, b in zip(limits.position.lower, limits.position.upper, strict=True)):
            raise ConfigError('limits: position: every lower must be below its upper')
        for name, low, high in zip(
            self.commanded, limits.position.lower, limits.position.upper, strict=True
        ):
            if not low <= (home := self.home[self.joints.index(name)]) <= high:
                raise ConfigError(
                    f'home: {home:g} of {name} is not between lower {low:g} and upper {high:g}'
                )
        self._check_published()

    def _check_published(self) -> None:
        """Raise if a limit is looser than the published one, and nobody said it may be."""
        if self.published == franka_limits.NONE:
            return
        if not self.limits.jerk:
            raise ConfigError(f'limits: jerk: missing; needed with `published: {self.published}`')
        looser = self.custom_limits
        if looser and not self.accept_custom_limits:
            raise ConfigError(
                f'limits: {"; ".join(looser)} ({self.published}); the robot stops itself there. '
                '`accept_custom_limits: true` takes them all the same'
            )

    @property
    def custom_limits(self) -> tuple[str, ...]:
        """Limits that are looser than published, in words."""
        if self.published == franka_limits.NONE:
            return ()
        limits = {
            'lower': self.limits.position.lower,
            'upper': self.limits.position.upper,
            'velocity': self.limits.velocity,
            'acceleration': self.limits.acceleration,
            'jerk': self.limits.jerk,
            'effort': self.limits.effort,
        }
        given = {name: row for name, row in limits.items() if row}
        return tuple(franka_limits.excesses(self.published, self.commanded, given))

    def control_limits(self, step_s: float) -> ControlLimits:
        """Return the bounds of a plan with steps of `step_s` seconds."""
        velocity = self.dynamics_factor * np.array(self.limits.velocity)
        acceleration = self.dynamics_factor * np.array(self.limits.acceleration)
        if self.command == 'velocity':
            return ControlLimits(-velocity, velocity, acceleration * step_s)
        if self.command == 'position':
            position = self.limits.position
            return ControlLimits(
                np.array(position.lower), np.array(position.upper), velocity * step_s
            )
        effort = np.array(self.limits.effort)
        return ControlLimits(-effort, effort, np.full(len(effort), math.inf))


class RobotMap(NamedTuple):
    """Where a robot's joints lie in a model."""

    qpos: npt.NDArray[np.intp]  # of `joints`
    qvel: npt.NDArray[np.intp]
    ctrl: npt.NDArray[np.intp]  # of `commanded`


def load_robot(name: str, beside: Path | None = None) -> Robot:
    """Return a robot from config/robots, or from a YAML file (`beside` the task's, or a path)."""
    path = paths.find_config('robots', name, beside)
    return config.build(Robot, config.load(path), str(path))


def bind(robot: Robot, model: mujoco.MjModel) -> RobotMap:
    """Return where the robot's joints and actuators lie; a missing one is a SceneError."""
    joints = [scene.find(model, 'joint', name) for name in robot.joints]
    for index, name in zip(joints, robot.joints, strict=True):
        if not scene.is_scalar(model, index):
            raise SceneError(f'joint {name!r} of robot {robot.name!r} is no hinge or slide')
    ctrl = []
    for name in robot.commanded:
        index = scene.find(model, 'joint', name)
        drives = (model.actuator_trnid[:, 0] == index) & (
            model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value
        )
        if drives.sum() != 1:
            raise SceneError(
                f'joint {name!r}: {drives.sum()} actuators drive it, expected 1; '
                f'actuators: {", ".join(scene.names(model, "actuator"))}'
            )
        actuator = int(np.flatnonzero(drives)[0])
        _check_servo(robot, model, actuator)
        ctrl.append(actuator)
    if len(ctrl) != model.nu:
        raise SceneError(
            f'the scene has {model.nu} actuators, robot {robot.name!r} commands {len(ctrl)}'
        )
    return RobotMap(
        np.array(model.jnt_qposadr[joints]), np.array(model.jnt_dofadr[joints]), np.array(ctrl)
    )


def _check_servo(robot: Robot, model: mujoco.MjModel, actuator: int) -> None:
    """Raise if an actuator takes another kind of command than the robot gives."""
    position, velocity = model.actuator_biasprm[actuator, 1:3] != 0.0
    kind = 'position' if position else 'velocity' if velocity else 'effort'
    if kind != robot.command:
        name = scene.names(model, 'actuator')[actuator]
        raise SceneError(
            f'actuator {name!r} is a {kind} servo, but robot {robot.name!r} commands '
            f'{robot.command}'
        )
