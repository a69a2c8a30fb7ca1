"""The calibration of a task's belief: what `emppi calibrate` measured, in the task's YAML."""

from collections.abc import Mapping
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from emppi_ros.core import config, paths
from emppi_ros.model import uncertain_joints
from emppi_ros.tasks.task import Task

# keys without effect on the belief, and those whose files are read instead
_OTHERS = ('calibration', 'description', 'view', 'real_time', 'scene', 'robot', 'prior')
_LENGTH = 16  # characters of a digest


def digest(task: Task, data: Mapping[str, Any], prior: str = '') -> str:
    """
    Return the digest of all that determines how a belief is calibrated.

    It is that of the task's YAML `data`, its scene, its robot, and its prior file, or the one
    given in its place. ConfigError for a task without a scene file.
    """
    robot = {
        field.name: value
        for field in dataclasses.fields(task.robot)
        if (value := getattr(task.robot, field.name)) != field.default
    }
    name, beside = prior or task.file.prior, None if prior else Path(task.where).parent
    content = {
        'task': {key: value for key, value in data.items() if key not in _OTHERS},
        'robot': robot,
        'prior': config.load(paths.find_config('priors', name, beside)) if name else None,
        'scene': task.scene_file.path.read_text(encoding='utf-8'),
    }
    text = json.dumps(content, sort_keys=True, default=dataclasses.asdict)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def describe(task: Task, name: str, prior: str = '') -> str:
    """Return how far the intervals of a task can be trusted, in words; `name` loads the task."""
    if not task.parameters:
        return 'none: no parameter is uncertain'
    if not scored_parameters(task):
        return 'none: axes and pivots of uncertain joints have no intervals'
    calibration, command = task.file.calibration, f'`emppi calibrate {name} --write`'
    if calibration is None:
        return f'not calibrated: {command}'
    if calibration.digest != digest(task, task.data, prior):
        return f'calibrated with other settings: {command}'
    share, low, high = (f'{100 * value:.0f}' for value in calibration.inside_90)
    return (
        f'90 % intervals held the truth {share} % of the time ({low} to {high} %) in '
        f'{calibration.runs} simulated runs'
    )


def scored_parameters(task: Task) -> list[int]:
    """Return the uncertain parameters, except those of joints with an uncertain axis."""
    judged = has_interval(task)
    return [i for i in range(len(judged)) if judged[i] and task.prior.spread[i] > 0.0]


def has_interval(task: Task) -> list[bool]:
    """Return whether the interval of each parameter can be judged: not for uncertain joints."""
    excluded = {
        column
        for joint in uncertain_joints.uncertain(task.model, task.parameters)
        for column in (*joint.axis, *(joint.pivot if joint.choice is None else ()))
    }
    return [i not in excluded for i in range(len(task.parameters))]
