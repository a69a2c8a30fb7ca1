"""The keys of a task's YAML file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from emppi_ros.belief.blocks import BlockEntry
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.likelihood import LikelihoodConfig
from emppi_ros.belief.particles import ResamplingConfig
from emppi_ros.control.mppi import PlannerConfig
from emppi_ros.core.config import between, fraction, key, one_of, positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter


@dataclass(frozen=True)
class ParameterEntry:
    """One entry of `parameters`: where it lives, its bounds, its prior."""

    field: str = key(doc='what it is in MuJoCo: see the fields below')
    of: str = key(doc='the body, geom, joint or actuator whose field it is')
    prior: Prior = key(doc='what is believed before anything is measured')
    element: int = key(0, doc='of a field that has several, such as x, y, z: 0, 1, 2')
    lower: float | None = key(None, doc='particles never go below; null: no bound')
    upper: float | None = key(None, doc='nor above; null: no bound')
    unit: str = key('', doc='for people, and to hold a prior file against')
    choices: tuple[tuple[float, ...], ...] = key((), doc='jnt_axis: the axes that it may be')

    def parameter(self, name: str) -> Parameter:
        """Return the registry's view of it."""
        low, high = (0.0, float(len(self.choices))) if self.choices else (-np.inf, np.inf)
        lower = low if self.lower is None else self.lower
        upper = high if self.upper is None else self.upper
        return Parameter(
            name, self.field, self.of, self.element, lower, upper, self.unit, self.choices
        )


@dataclass(frozen=True)
class TrackedObject:
    """An object whose pose a tracker reports on `tracking/<name>`."""

    body: str = key(doc='of the scene, whose frame the tracker reports')
    motion: str = one_of(
        'free',
        'planar',
        'jointed',
        default='free',
        doc='planar: slides on its support, keeps height and tilt; jointed: hangs on one joint, '
        'such as a door',
    )
    position_sd_m: float = positive(0.002, doc="the tracker's noise")
    rotation_sd_rad: float = positive(0.0175, doc="the tracker's noise")
    acceleration_sd: float = positive(3.0, doc='m/s^2, how quickly its velocity may change')
    angular_acceleration_sd: float = positive(20.0, doc='rad/s^2, likewise')


@dataclass(frozen=True)
class Condition:
    """A residual's length stays below a bound, for a while."""

    residual: Mapping[str, Any] = key(doc='what is measured: a residual without a weight')
    below: float = positive(doc='bound of its Euclidean length, in its unit')
    hold_s: float = key(
        0.0, check=lambda v: v >= 0, allowed='a number from 0', doc='for so long on end'
    )


@dataclass(frozen=True)
class Stage:
    """A part of a task with a cost of its own, until a condition holds."""

    name: str = key(doc='as it is told on emppi/stage')
    cost: Mapping[str, Any] = key(doc='name -> weighted residual')
    until: Condition | None = key(None, doc='when the next begins; the last stage has none')
    grasp: tuple[str, ...] = key((), doc='equality constraints of the scene that hold in it')
    back_above: float | None = positive(
        None, doc='back to the stage before when what that one waited for is lost: its residual'
    )


@dataclass(frozen=True)
class Loss:
    """When something is lost: a residual's length is above a bound."""

    residual: Mapping[str, Any] = key(doc='what is measured: a residual without a weight')
    above: float = positive(doc='bound of its Euclidean length, in its unit')


@dataclass(frozen=True)
class Targets:
    """Orientations, drawn at random, that are to be reached one after the other."""

    body: str = key(doc='that shows them: it is made a mocap body')
    attempt_s: float = positive(doc='time for each')
    turn_rad: float = between(0.0, np.pi, np.pi, doc='the farthest from the one before')
    least_turn_rad: float = between(0.0, np.pi, 0.0, doc='the nearest to the one before')
    lost: Loss | None = key(None, doc='then all begins anew')

    def __post_init__(self) -> None:
        """The nearest is no farther than the farthest."""
        if self.least_turn_rad > self.turn_rad:
            raise ConfigError(
                f'least_turn_rad: {self.least_turn_rad:g} rad exceed turn_rad, {self.turn_rad:g}'
            )


@dataclass(frozen=True)
class View:
    """From where pictures and videos look, in scenes that have no camera `overview`."""

    body: str = key(doc='in the middle of the picture, wherever it goes')
    distance_m: float = positive(doc='of the camera from it')
    azimuth_deg: float = between(-360.0, 360.0, 90.0, doc='0 looks along x, 90 along y')
    elevation_deg: float = between(-90.0, 90.0, -20.0, doc='-90 looks down')


@dataclass(frozen=True)
class BeliefConfig:
    """Settings of the particle filter."""

    particles: int = between(1, 100_000, doc='number of particles')
    likelihood: LikelihoodConfig = key(doc='how closely predictions are expected to fit')
    resampling: ResamplingConfig = key(
        ResamplingConfig(), doc='when and how particles are renewed'
    )
    blocks: tuple[BlockEntry, ...] = key((), doc='parameters weighed apart, by what shows them')
    substep_s: float = between(
        1e-5,
        1.0,
        0.002,
        doc='physics step of predictions; finer than the planner, so that errors are small',
    )
    object_gain: float = fraction(
        0.2, doc='how far a particle moves its own object to each measured pose; 1: all the way'
    )
    interval_s: float = between(
        1e-3,
        10.0,
        0.02,
        doc='time between updates where no object is tracked; else the tracker sets it',
    )


def _noise(default: float, doc: str) -> Any:
    words = f'standard deviation {doc}'
    return key(default, check=lambda v: v >= 0, allowed='a number from 0', doc=words)


@dataclass(frozen=True)
class Simulation:
    """What the simulator needs beyond the task: hidden truth and sensors."""

    truth: Mapping[str, Any] = key(doc='parameter -> distribution of its hidden true value')
    wrong: Mapping[str, float] = key({}, doc="a wrong model's values; others: the prior's mean")
    timestep_s: float = between(1e-5, 1.0, 0.001, doc='physics step of the simulated world')
    joint_position_noise_sd: float = _noise(1e-4, 'of joint positions, rad or m')
    joint_velocity_noise_sd: float = _noise(1e-3, 'of joint velocities, rad/s or m/s')
    joint_effort_noise_sd: float = _noise(0.05, 'of joint efforts, N m or N')
    position_noise_sd_m: float = _noise(0.002, "of the tracker's positions, per axis")
    rotation_noise_sd_rad: float = _noise(0.0175, "of the tracker's rotations, per axis")
    tracking_rate_hz: float = between(0.1, 10_000.0, 50.0, doc='poses per second')
    tracking_delay_s: float = between(0.0, 10.0, 0.03, doc='from a pose to its message')
    joint_state_rate_hz: float = between(1.0, 10_000.0, 250.0, doc='joint states per second')


@dataclass(frozen=True)
class TaskFile:
    """The keys of a task's YAML file."""

    name: str = key(doc='for people, folders and reports')
    scene: str = key(doc='MJCF file: beside this file, among our assets, or package://NAME/FILE')
    robot: str = key(doc='name in config/robots, or a path')
    success: Condition = key(doc='when the task is done')
    planner: PlannerConfig = key(doc='the ensemble, the horizon, the noise')
    belief: BeliefConfig = key(doc='the particle filter')
    simulation: Simulation = key(doc='for the simulator alone: hidden truth, sensors')
    cost: Mapping[str, Any] = key({}, doc='name -> weighted residual')
    stages: tuple[Stage, ...] = key((), doc='in place of a cost: one after the other')
    targets: Targets | None = key(None, doc='to be reached one after the other')
    parameters: Mapping[str, Any] = key({}, doc='name -> uncertain parameter')
    objects: Mapping[str, Any] = key({}, doc='name -> tracked object')
    description: str = key('', doc='one sentence, shown by `emppi tasks`')
    view: View | None = key(None, doc='in place of a camera `overview` in the scene')
    scene_without: tuple[str, ...] = key((), doc='bodies of the scene to leave out')
    joint_position_gain: float = fraction(
        1.0, doc='how far a measured joint position counts; the rest is the integrated velocity'
    )
    real_time: bool = key(True, doc='false: cannot be planned in real time on two cores')
    duration_s: float = between(0.01, 1e6, 15.0, doc='time allowed')

    def __post_init__(self) -> None:
        """Either one cost, or stages that end."""
        if bool(self.cost) == bool(self.stages):
            raise ConfigError('expected either cost or stages')
        for i, stage in enumerate(self.stages):
            last = i == len(self.stages) - 1
            if last != (stage.until is None):
                raise ConfigError(
                    f'stages: {stage.name}: until: '
                    + ('the last stage has none' if last else 'missing, so the next never begins')
                )
            if i == 0 and stage.back_above is not None:
                raise ConfigError(f'stages: {stage.name}: back_above: the first has none before')
        if len({stage.name for stage in self.stages}) < len(self.stages):
            raise ConfigError('stages: two have the same name')
