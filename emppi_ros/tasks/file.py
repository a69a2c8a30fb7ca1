"""The keys of a task's YAML file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from emppi_ros.belief.likelihood import LikelihoodConfig
from emppi_ros.belief.particles import ResamplingConfig
from emppi_ros.belief.prior import Prior
from emppi_ros.config import between, fraction, key, one_of, positive
from emppi_ros.control.mppi import PlannerConfig
from emppi_ros.model.parameters import Parameter


@dataclass(frozen=True)
class ParameterEntry:
    """One entry of `parameters`: where it lives, its bounds, its prior."""

    field: str
    of: str
    prior: Prior
    element: int = 0
    lower: float | None = None
    upper: float | None = None
    unit: str = ''

    def parameter(self, name: str) -> Parameter:
        """Return the registry's view of it."""
        lower = -np.inf if self.lower is None else self.lower
        upper = np.inf if self.upper is None else self.upper
        return Parameter(name, self.field, self.of, self.element, lower, upper, self.unit)


@dataclass(frozen=True)
class TrackedObject:
    """An object whose pose a tracker reports on `tracking/<name>`."""

    body: str
    motion: str = one_of(
        'free',
        'planar',
        default='free',
        doc='planar: slides on its support, keeps height and tilt',
    )
    position_sd_m: float = positive(0.002, doc="the tracker's noise")
    rotation_sd_rad: float = positive(0.0175, doc="the tracker's noise")
    acceleration_sd: float = positive(3.0, doc='m/s^2, how quickly its velocity may change')
    angular_acceleration_sd: float = positive(20.0, doc='rad/s^2, likewise')


@dataclass(frozen=True)
class Success:
    """When the task is done: a residual's length stays below a bound."""

    residual: Mapping[str, Any]
    below: float = positive()
    hold_s: float = key(0.0, check=lambda v: v >= 0, allowed='a number from 0')


@dataclass(frozen=True)
class BeliefConfig:
    """Settings of the particle filter."""

    particles: int = between(1, 100_000, doc='number of particles')
    likelihood: LikelihoodConfig = key()
    resampling: ResamplingConfig = ResamplingConfig()
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


@dataclass(frozen=True)
class Simulation:
    """What the simulator needs beyond the task: hidden truth and sensors."""

    truth: Mapping[str, Any]
    timestep_s: float = between(1e-5, 1.0, 0.001)
    joint_position_noise_sd: float = key(1e-4, check=lambda v: v >= 0, allowed='from 0')
    joint_velocity_noise_sd: float = key(1e-3, check=lambda v: v >= 0, allowed='from 0')
    position_noise_sd_m: float = key(0.002, check=lambda v: v >= 0, allowed='from 0')
    rotation_noise_sd_rad: float = key(0.0175, check=lambda v: v >= 0, allowed='from 0')
    tracking_rate_hz: float = between(0.1, 10_000.0, 50.0)
    tracking_delay_s: float = between(0.0, 10.0, 0.03)
    joint_state_rate_hz: float = between(1.0, 10_000.0, 250.0)


@dataclass(frozen=True)
class TaskFile:
    """The keys of a task's YAML file."""

    name: str
    scene: str = key(doc='MJCF file, beside this file or among the package assets')
    robot: str = key(doc='name in config/robots, or a path')
    cost: Mapping[str, Any] = key(doc='name -> weighted residual')
    success: Success = key()
    planner: PlannerConfig = key()
    belief: BeliefConfig = key()
    simulation: Simulation = key()
    parameters: Mapping[str, Any] = key({}, doc='name -> uncertain parameter')
    objects: Mapping[str, Any] = key({}, doc='name -> tracked object')
    description: str = ''
    duration_s: float = between(0.01, 1e6, 15.0, doc='time allowed')
