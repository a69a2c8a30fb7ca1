"""`emppi excite`: write an excitation trajectory for the identification of an arm."""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.identification.rigid_body import excitation
from emppi_ros.identification.rigid_body.excitation import ExcitationConfig, ExcitationResult
from emppi_ros.model import scene
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import Signal, joint_units
from emppi_ros.tasks.task import Task, load_task

_KINDS = 'position', 'velocity'


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    add = Subcommand(commands, 'excite', run).option
    add('task', 'name of a task, or a YAML file', str, 'TASK')
    add('--out', 'table to write (.csv, .parquet)', Path, 'FILE', required=True)
    add('--period', 'period of the trajectory', output.positive, 'S', 10.0)
    add('--periods', 'number of periods', output.count, default=1)
    add('--rate', 'sampling rate of the table', output.positive, 'HZ', 100.0)
    text = 'range of motion, as a share of the distance from home to the joint limits'
    share = output.number(lambda value: 0.0 < value <= 1.0, 'a number above 0, up to 1')
    add('--range', text, share, 'SHARE', 1.0)
    text = 'least distance between links and to fixed objects; closer pairs at home are ignored'
    add('--clearance', text, output.positive, 'M', 0.02)
    add('--trials', 'iterations of the optimization', output.count, default=150)
    add('--seed', 'random seed', output.whole, default=0)
    add('--overwrite', 'replace --out if it exists')
    add('--json', 'print one JSON object')


def run(options: argparse.Namespace) -> None:
    """
    Write an excitation trajectory for `emppi identify --method rigid-body`.

    The trajectory excites the inertial parameters of the arm in a task, and starts and ends at
    rest at home. It keeps the position limits, the share dynamics_factor of the velocity and
    acceleration limits, and a clearance from the arm itself and from fixed objects. Movable
    objects are ignored: remove them before you run it. This command does not move a robot.
    """
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
    states = excitation.sample_trajectory(result.trajectory, time)
    listed = []
    for j, name in enumerate(result.joints):
        units = joint_units(task.model, scene.find_scalar(task.model, name))
        for kind, values in zip(_KINDS, states, strict=False):
            listed.append(Signal(kind, name, units[kind], time, values[:, j], 'motion'))
    return listed
