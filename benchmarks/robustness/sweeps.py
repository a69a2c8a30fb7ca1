"""
Sweeps: what is varied in the simulation of a task, hidden from planner and belief.

To add one, add a line to SWEEPS; `emppi bench robustness --sweeps NAME` then offers it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import itertools
from typing import Any, NamedTuple

import numpy as np

from benchmarks.belief.worlds import World
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import Task

POINTS = 5  # along each parameter
_EDGE = 1e-9  # of a parameter's range: true values lie inside of it


class SweepAxis(NamedTuple):
    """A quantity that is varied: its name and unit, and whether it is drawn on a log scale."""

    label: str
    logarithmic: bool = False


class SweepPoint(NamedTuple):
    """One point of a sweep: its values along the axes, and the world there."""

    values: tuple[float, ...]
    world: World


def _unchanged(_task: Task, _value: float) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Sweep:
    """
    Values along an axis, and the keys of `simulation` that each of them changes in a task.

    A task to which the sweep does not apply is a ConfigError. A sweep in `real_time` runs the
    ROS 2 graph, one run after the other, on this machine, with or without real-time priority.
    """

    description: str
    label: str = ''
    values: Sequence[float] = ()
    change: Callable[[Task, float], Mapping[str, Any]] = _unchanged
    real_time: bool = False
    real_time_priority: bool = True

    def axes(self, task: Task) -> tuple[SweepAxis, ...]:
        """Return the one or two axes."""
        return (SweepAxis(self.label),)

    def points(self, task: Task) -> list[SweepPoint]:
        """Return the points along the axes."""
        return [SweepPoint((x,), World(simulation=self.change(task, x))) for x in self.values]


class ParameterSweep(Sweep):
    """A grid over the bounds of the first two parameters, geometric where it can be."""

    def axes(self, task: Task) -> tuple[SweepAxis, ...]:
        """Return the first two parameters."""
        return tuple(
            SweepAxis(
                parameter.name.replace('_', ' ')
                + (f' [{parameter.unit}]' if parameter.unit else ''),
                parameter.lower > 0.0,
            )
            for parameter in task.parameters[:2]
        )

    def points(self, task: Task) -> list[SweepPoint]:
        """Return the grid."""
        chosen = task.parameters[:2]
        if not chosen:
            raise ConfigError('the task has no unknown parameters')
        names = [parameter.name for parameter in chosen]
        return [
            SweepPoint(values, World(dict(zip(names, values, strict=True))))
            for values in itertools.product(*map(_grid, chosen))
        ]


def _grid(parameter: Parameter) -> list[float]:
    """Return rounded values from bound to bound; the ends are just inside."""
    low, high = parameter.lower, parameter.upper
    space = np.geomspace if low > 0.0 else np.linspace
    edge = _EDGE * (high - low)
    rounded = [float(f'{value:.3g}') for value in space(low, high, POINTS)]
    return [float(value) for value in np.clip(rounded, low + edge, high - edge)]


def _tracking(task: Task, **changes: float) -> Mapping[str, Any]:
    if not task.tracked:
        raise ConfigError('the task has no tracked object')
    return changes


def _noise(task: Task, factor: float) -> Mapping[str, Any]:
    names = ('position_noise_sd_m', 'rotation_noise_sd_rad')
    return _tracking(task, **{name: factor * getattr(task.simulation, name) for name in names})


def _sizes(task: Task, factor: float) -> Mapping[str, Any]:
    if not task.objects:
        raise ConfigError('the task has no free object')
    return {'sizes': dict.fromkeys(task.objects, factor)}


def _load(task: Task, _processes: float) -> Mapping[str, Any]:
    if not task.file.real_time:
        raise ConfigError('the task cannot be planned in real time')
    return {}


_LOADS = 'busy processes per core', (0.0, 0.5, 1.0, 2.0, 4.0), _load

SWEEPS: dict[str, Sweep] = {
    'parameters': ParameterSweep(
        'true values from bound to bound: the prior holds only a part of them'
    ),
    'tracking_noise': Sweep(
        'noise of tracked poses, as a multiple of the noise in the task file',
        'noise of poses, factor',
        (0.0, 1.0, 2.0, 4.0, 8.0),
        _noise,
    ),
    'tracking_delay': Sweep(
        'latency of tracked poses; their stamps are right',
        'latency of poses [s]',
        (0.0, 0.03, 0.06, 0.12, 0.24),
        lambda task, delay: _tracking(task, tracking_delay_s=delay),
    ),
    'tracking_dropout': Sweep(
        'probability that a tracked pose is lost',
        'share of lost poses',
        (0.0, 0.5, 0.8, 0.9, 0.95),
        lambda task, share: _tracking(task, tracking_dropout=share),
    ),
    'size': Sweep(
        'size of the free objects, as a multiple of their size in the model',
        'true size / size in the model',
        (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2),
        _sizes,
    ),
    'tilt': Sweep(
        'gravity turned, as if the scene sloped down along x',
        'slope [rad]',
        (-0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1),
        lambda _task, angle: {'gravity_tilt_rad': angle},
    ),
    'command_delay': Sweep(
        'time from a command to its effect; the stamps are those of the commands',
        'delay of commands [s]',
        (0.0, 0.01, 0.02, 0.04, 0.08),
        lambda _task, delay: {'command_delay_s': delay},
    ),
    'joint_friction': Sweep(
        'dry friction of each commanded joint, which the model does not have',
        'friction [N m or N]',
        (0.0, 0.5, 1.0, 2.0, 4.0),
        lambda task, torque: {'joint_friction': dict.fromkeys(task.robot.commanded, torque)},
    ),
    'load': Sweep(
        'busy processes beside the ROS 2 graph; planner, bridge and simulator have real-time '
        'priority',
        *_LOADS,
        real_time=True,
    ),
    'load_normal_priority': Sweep(
        'the same, where the system does not permit real-time priority',
        *_LOADS,
        real_time=True,
        real_time_priority=False,
    ),
}
