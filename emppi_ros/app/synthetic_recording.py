"""Synthetic recordings: the sensor readings of a simulated run as a table, with their truth."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from emppi_ros.app.trace import Trace
from emppi_ros.core import paths
from emppi_ros.model import scene
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import UNITS, Signal, joint_units
from emppi_ros.tasks.task import Task


def sensor_signals(task: Task, trace: Trace) -> list[Signal]:
    """Return the measured positions, velocities and efforts, commands, and poses of a run."""
    # they end where an object was lost and put back, which no dynamics explain
    end = min((attempt.end for attempt in trace.attempts if attempt.lost), default=np.inf)
    readings = [reading for reading in trace.readings if reading.stamp < end]
    commands = [(stamp, values) for stamp, values in trace.commands if stamp < end]
    signals = []
    time = np.array([reading.stamp for reading in readings])
    for i, name in enumerate(task.robot.joints):
        units = joint_units(task.model, scene.find_scalar(task.model, name))
        for kind in ('position', 'velocity'):
            values = np.array([getattr(reading, kind)[i] for reading in readings])
            signals.append(Signal(kind, name, units[kind], time, values, 'run'))
        if name in task.robot.commanded:
            values = np.array([reading.effort[i] for reading in readings])
            signals.append(Signal('effort', name, units['force'], time, values, 'run'))
    time = np.array([stamp for stamp, _ in commands])
    kind = {'effort': 'force'}.get(task.robot.command, task.robot.command)
    for i, name in enumerate(task.robot.commanded):
        unit = joint_units(task.model, scene.find_scalar(task.model, name))[kind]
        values = np.array([row[i] for _, row in commands])
        signals.append(Signal('command', name, unit, time, values, 'run'))
    for name in task.tracked:
        poses = [pose for pose in trace.poses if pose.name == name and pose.stamp < end]
        if poses:
            time = np.array([pose.stamp for pose in poses])
            values = np.array([np.concatenate(pose.pose) for pose in poses])
            signals.append(Signal('pose', name, UNITS['pose'][0], time, values, 'run'))
    return signals


def write_recording(path: Path, task: Task, trace: Trace, seed: int) -> Path:
    """
    Write the recording, and its truth as JSON beside it; return the path of the latter.

    `truth` has the last values; `changes` has times [s] and values of those that changed.
    """
    tables.write(path, sensor_signals(task, trace))
    settings = task.simulation
    truth = {
        'task': task.name,
        'seed': seed,
        'truth': {p.name: float(v) for p, v in zip(task.parameters, trace.truth, strict=True)},
        **_changes(task, trace),
        'units': {p.name: p.unit for p in task.parameters},
        'timestep_s': settings.timestep_s,
        'noise_sd': {
            'joint_position': settings.joint_position_noise_sd,
            'joint_velocity': settings.joint_velocity_noise_sd,
            'joint_effort': settings.joint_effort_noise_sd,
            'pose_position_m': settings.position_noise_sd_m,
            'pose_rotation_rad': settings.rotation_noise_sd_rad,
        },
    }
    beside = path.with_suffix('.truth.json')
    paths.replace_text(beside, json.dumps(truth, indent=2) + '\n')
    return beside


def _changes(task: Task, trace: Trace) -> dict[str, Any]:
    """Return times and values of the parameters that changed, by name; empty if none did."""
    changed = {}
    for i, parameter in enumerate(task.parameters):
        rows = [[time, float(theta[i])] for time, theta in trace.truths]
        rows = rows[:1] + [row for before, row in itertools.pairwise(rows) if row[1] != before[1]]
        if len(rows) > 1:
            changed[parameter.name] = rows
    return {'changes': changed} if changed else {}
