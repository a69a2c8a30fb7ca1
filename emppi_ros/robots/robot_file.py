"""Write the YAML file of a robot from its model."""

from collections.abc import Sequence
import dataclasses
from typing import Any

import mujoco
import numpy as np

from emppi_ros.core.errors import ConfigError
from emppi_ros.model import scene
from emppi_ros.robots import robot_from_model
from emppi_ros.robots.robot import TRAJECTORY_TOPIC, Robot

_DIGITS = 6


def describe(
    model: mujoco.MjModel,
    name: str,
    velocity: Sequence[float] | None,
    acceleration: Sequence[float] | None,
) -> Robot:
    """
    Return the arm of a model at its first keyframe, with limits [rad/s, rad/s^2] of a data sheet.

    Without limits of velocity those of velocity commands apply.

    ConfigError names the limits that are missing, and the joints that they are for.
    """
    robot = robot_from_model.describe(model, scene.start(model), name, arm_only=True)
    joints, missing, limits = robot.commanded, [], dict[str, Any]()
    for key, values in (('velocity', velocity), ('acceleration', acceleration)):
        if not values:
            if key == 'acceleration' or robot.command != 'velocity':  # else that of the controls
                missing.append(f'--{key}')
        elif len(values) not in (1, len(joints)):
            raise ConfigError(
                f'--{key}: {len(values)} values, expected 1 or {len(joints)}, in the order '
                f'{", ".join(joints)}'
            )
        else:
            limits[key] = tuple(values) if len(values) > 1 else tuple(values) * len(joints)
    if missing:
        raise ConfigError(
            f'{" and ".join(missing)}: missing; a model has no such limits: give those of the '
            f'data sheet, one value for all or one for each of {", ".join(joints)}'
        )
    return dataclasses.replace(robot, limits=dataclasses.replace(robot.limits, **limits))


def name_of(model: mujoco.MjModel) -> str:
    """Return the first word of a model's name; '' if it has none."""
    words = bytes(model.names).split(b'\0', 1)[0].decode().split()
    return words[0] if words else ''


def write(robot: Robot, source: str) -> str:
    """Return the YAML of a robot whose description is read from a file `source`."""
    position, limits = robot.limits.position, robot.limits
    unit = {'position': 'rad or m', 'velocity': 'rad/s or m/s', 'effort': 'N m or N'}
    effort = f'  effort: {_row(limits.effort)}\n' if limits.effort else ''
    return (
        f'# Written by `emppi robot` from {source}: compare with the data sheet.\n'
        f'name: {robot.name}\n'
        f'joints: [{", ".join(robot.joints)}]\n'
        f'commanded: [{", ".join(robot.commanded)}]\n'
        f'command: {robot.command}  # {unit[robot.command]}\n'
        f'home: {_row(robot.home)}\n'
        'limits:\n'
        '  position:\n'
        f'    lower: {_row(position.lower)}\n'
        f'    upper: {_row(position.upper)}\n'
        f'  velocity: {_row(limits.velocity)}\n'
        f'  acceleration: {_row(limits.acceleration)}\n'
        f'{effort}'
        'frame: world  # of tracked poses, at the base of the model\n'
        'topics:  # of your controllers, relative to the namespace\n'
        '  joint_states: joint_states\n'
        '  commands:\n'
        f'    {robot.command}: {robot.command}_controller/commands\n'
        f'    trajectory: {TRAJECTORY_TOPIC}\n'
    )


def _row(values: Sequence[float]) -> str:
    return f'[{", ".join(str(float(np.round(value, _DIGITS))) for value in values)}]'
