"""
Sweeps: what is varied in the simulation of a task, hidden from planner and belief.

To add one, add a line to SWEEPS; `emppi bench robustness --sweeps NAME` then offers it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import itertools
from typing import Any

import numpy as np

from benchmarks.belief.worlds import World
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import Task

POINTS = 5  # along each parameter
NOISE_FACTORS = (0.0, 1.0, 2.0, 4.0, 8.0)
TRACKING_DELAYS_S = (0.0, 0.03, 0.06, 0.12, 0.24)
DROPOUTS = (0.0, 0.5, 0.8, 0.9, 0.95)
SIZES = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
TILTS_RAD = (-0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1)
COMMAND_DELAYS_S = (0.0, 0.01, 0.02, 0.04, 0.08)
JOINT_FRICTIONS = (0.0, 0.5, 1.0, 2.0, 4.0)
LOADS = (0.0, 0.5, 1.0, 2.0, 4.0)
_EDGE = 1e-9  # of a parameter's range: true values lie inside of it


@dataclass(frozen=True)
class SweepAxis:
    """A quantity that is varied: its name and unit, and whether it is drawn on a log scale."""

    label: str
    logarithmic: bool = False


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep: its values along the axes, and the world there."""

    values: tuple[float, ...]
    world: World


@dataclass(frozen=True)
class Sweep:
    """
    One or two axes, and a function that returns the points of a task along them.

    A task to which the sweep does not apply is a ConfigError. A sweep in `real_time` runs the
    ROS 2 graph, one run after the other, on this machine, with or without real-time priority.
    """

    description: str
    axes: Callable[[Task], tuple[SweepAxis, ...]]
    points: Callable[[Task], list[SweepPoint]]
    real_time: bool = False
    real_time_priority: bool = True


def _parameters(task: Task) -> list[SweepPoint]:
    """Return a grid over the bounds of the first two parameters, geometric where it can be."""
    chosen = task.parameters[:2]
    if not chosen:
        raise ConfigError('the task has no unknown parameters')
    names = [one.name for one in chosen]
    return [
        SweepPoint(values, World(dict(zip(names, values, strict=True))))
        for values in itertools.product(*map(_grid, chosen))
    ]


def _grid(parameter: Parameter) -> list[float]:
    """Return rounded values from bound to bound; the ends are just inside."""
    low, high = parameter.lower, parameter.upper
    space = np.geomspace if _is_logarithmic(low) else np.linspace
    edge = _EDGE * (high - low)
    rounded = [float(f'{value:.3g}') for value in space(low, high, POINTS)]
    return [float(value) for value in np.clip(rounded, low + edge, high - edge)]


def _is_logarithmic(lower: float) -> bool:
    return lower > 0.0


def _parameter_axes(task: Task) -> tuple[SweepAxis, ...]:
    return tuple(
        SweepAxis(
            one.name.replace('_', ' ') + (f' [{one.unit}]' if one.unit else ''),
            _is_logarithmic(one.lower),
        )
        for one in task.parameters[:2]
    )


def _of_key(
    values: Sequence[float], change: Callable[[Task, float], Mapping[str, Any]]
) -> Callable[[Task], list[SweepPoint]]:
    """Return the points that change keys of `simulation` by each of the values."""

    def points(task: Task) -> list[SweepPoint]:
        return [SweepPoint((x,), World(simulation=change(task, x))) for x in values]

    return points


def _axis(label: str) -> Callable[[Task], tuple[SweepAxis, ...]]:
    return lambda _task: (SweepAxis(label),)


def _tracking(
    values: Sequence[float], change: Callable[[Task, float], Mapping[str, Any]]
) -> Callable[[Task], list[SweepPoint]]:
    """Return the points that change the tracker."""

    def points(task: Task) -> list[SweepPoint]:
        if not task.tracked:
            raise ConfigError('the task has no tracked object')
        return _of_key(values, change)(task)

    return points


def _noise(task: Task, factor: float) -> Mapping[str, Any]:
    names = ('position_noise_sd_m', 'rotation_noise_sd_rad')
    return {name: factor * getattr(task.simulation, name) for name in names}


def _sizes(task: Task, factor: float) -> Mapping[str, Any]:
    if not task.objects:
        raise ConfigError('the task has no free object')
    return {'sizes': dict.fromkeys(task.objects, factor)}


def _friction(task: Task, torque: float) -> Mapping[str, Any]:
    return {'joint_friction': dict.fromkeys(task.robot.commanded, torque)}


def _loads(task: Task) -> list[SweepPoint]:
    if not task.file.real_time:
        raise ConfigError('the task cannot be planned in real time')
    return [SweepPoint((load,), World()) for load in LOADS]


_LOAD = 'busy processes per core'

SWEEPS: dict[str, Sweep] = {
    'parameters': Sweep(
        'true values from bound to bound: the prior holds only a part of them',
        _parameter_axes,
        _parameters,
    ),
    'tracking_noise': Sweep(
        'noise of tracked poses, as a multiple of the noise in the task file',
        _axis('noise of poses, factor'),
        _tracking(NOISE_FACTORS, _noise),
    ),
    'tracking_delay': Sweep(
        'latency of tracked poses; their stamps are right',
        _axis('latency of poses [s]'),
        _tracking(TRACKING_DELAYS_S, lambda _task, delay: {'tracking_delay_s': delay}),
    ),
    'tracking_dropout': Sweep(
        'probability that a tracked pose is lost',
        _axis('share of lost poses'),
        _tracking(DROPOUTS, lambda _task, share: {'tracking_dropout': share}),
    ),
    'size': Sweep(
        'size of the free objects, as a multiple of their size in the model',
        _axis('true size / size in the model'),
        _of_key(SIZES, _sizes),
    ),
    'tilt': Sweep(
        'gravity turned, as if the scene sloped down along x',
        _axis('slope [rad]'),
        _of_key(TILTS_RAD, lambda _task, angle: {'gravity_tilt_rad': angle}),
    ),
    'command_delay': Sweep(
        'time from a command to its effect; the stamps are those of the commands',
        _axis('delay of commands [s]'),
        _of_key(COMMAND_DELAYS_S, lambda _task, delay: {'command_delay_s': delay}),
    ),
    'joint_friction': Sweep(
        'dry friction of each commanded joint, which the model does not have',
        _axis('friction [N m or N]'),
        _of_key(JOINT_FRICTIONS, _friction),
    ),
    'load': Sweep(
        'busy processes beside the ROS 2 graph; planner, bridge and simulator have real-time '
        'priority',
        _axis(_LOAD),
        _loads,
        real_time=True,
    ),
    'load_normal_priority': Sweep(
        'the same, where the system does not permit real-time priority',
        _axis(_LOAD),
        _loads,
        real_time=True,
        real_time_priority=False,
    ),
}
