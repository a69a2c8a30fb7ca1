"""`emppi excite`: write an excitation trajectory for the identification of an arm."""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.identification.rigid_body import excitation, excitation_trajectory
from emppi_ros.identification.rigid_body.excitation import ExcitationConfig, ExcitationResult
from emppi_ros.model import scene
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import Signal, joint_units
from emppi_ros.tasks.task import Task, load_task

_KINDS = 'position', 'velocity'


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'excite',
        help='write an excitation trajectory for `emppi identify --method rigid-body`',
        description='Optimize a trajectory that excites the inertial parameters of the arm in a '
        'task, for `emppi identify --method rigid-body`, and write it as a table. The '
        'trajectory starts and ends at rest at home. It keeps the position limits, the share '
        'dynamics_factor of the velocity and acceleration limits, and a clearance from the arm '
        'itself and from fixed objects. Movable objects are ignored: remove them before you run '
        'it. This command does not move a robot.',
    )
    parser.add_argument('task', metavar='TASK', help='name of a task, or a YAML file')
    parser.add_argument(
        '--out', metavar='FILE', type=Path, required=True, help='table to write (.csv, .parquet)'
    )
    parser.add_argument(
        '--period',
        metavar='S',
        type=output.positive,
        default=10.0,
        help='period of the trajectory (10)',
    )
    parser.add_argument('--periods', type=output.count, default=1, help='number of periods (1)')
    parser.add_argument(
        '--rate',
        metavar='HZ',
        type=output.positive,
        default=100.0,
        help='sampling rate of the table (100)',
    )
    parser.add_argument(
        '--range',
        metavar='SHARE',
        type=_share,
        default=1.0,
        help='range of motion, as a share of the distance from home to the joint limits (1)',
    )
    parser.add_argument(
        '--clearance',
        metavar='M',
        type=output.positive,
        default=0.02,
        help='minimum distance between links and from fixed objects; pairs that are closer at '
        'home are reported and ignored (0.02)',
    )
    parser.add_argument(
        '--trials', type=output.count, default=150, help='iterations of the optimization (150)'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument('--overwrite', action='store_true', help='replace --out if it exists')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Optimize a trajectory, write it and print a summary."""
    tables.check_writable('--out', options.out)
    paths.check_new(options.out, options.overwrite)
    task = load_task(options.task)
    config = ExcitationConfig(
        options.period, options.periods, options.range, options.clearance, options.trials,
        options.seed,
    )  # fmt: skip
    result = excitation.excite(task, config)
    tables.write(options.out, signals(task, result, options.rate))
    output.show({'task': task.name, **result.summary, 'out': str(options.out)}, options.json)


def signals(task: Task, result: ExcitationResult, rate_hz: float) -> list[Signal]:
    """Return positions and velocities sampled along a trajectory, until it rests."""
    time = np.arange(math.ceil(result.trajectory.duration_s * rate_hz) + 1) / rate_hz
    states = excitation_trajectory.sample_trajectory(result.trajectory, time)
    listed = []
    for j, name in enumerate(result.joints):
        units = joint_units(task.model, scene.find_scalar(task.model, name))
        for kind, values in zip(_KINDS, states, strict=False):
            listed.append(Signal(kind, name, units[kind], time, values[:, j], 'motion'))
    return listed


def _share(text: str) -> float:
    return output.number(text, lambda value: 0.0 < value <= 1.0, 'a number above 0, up to 1')
