"""Write a task for any arm: bring the last link, of unknown mass, to a point."""

from pathlib import Path
import string

import mujoco
import numpy as np

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.model import scene
from emppi_ros.robots.robot import Robot
from emppi_ros.tasks.objects import topic_name
from emppi_ros.tasks.task import bind_task
from emppi_ros.tasks.validation import coarse_step

_TURN = 0.3  # rad or m: how far each joint turns from home to the goal, towards its middle
_STEP_S = 0.05  # of plans
_SUBSTEPS = 2, 5, 10, 25, 50  # of a step of plans, the cheapest first
_BELIEF_STEP_S = 0.0025  # of the belief's physics, at most
_LOAD_KG = 1.0  # added at most to the last link
_NOISE = {'position': 0.1, 'velocity': 0.3}  # standard deviation [rad or m, and per second]


def write(robot: Robot, model: mujoco.MjModel, name: str, path: Path, robot_path: str) -> str:
    """
    Return the YAML of a task in a scene; its physics step is the longest that is accurate enough.

    ConfigError for robots that are commanded by effort, or whose last link has no name.
    """
    if robot.command not in _NOISE:
        raise ConfigError(f'--reach: robot {robot.name!r} is commanded by {robot.command}')
    joint = scene.find(model, 'joint', robot.commanded[-1])
    body = int(model.jnt_bodyid[joint])
    link = scene.names(model, 'body')[body]
    if not link:
        raise SceneError(f'--reach: the body of joint {robot.commanded[-1]!r} needs a name')
    home = dict(zip(robot.joints, robot.home, strict=True))
    mass, noise = float(model.body_mass[body]), _NOISE[robot.command]
    values = {
        'name': name,
        'robot': robot.name,
        'robot_path': robot_path,
        'scene': path,
        'link': link,
        'lower': f'{mass:.6g}',
        'upper': f'{mass + _LOAD_KG:.6g}',
        'joints': ', '.join(robot.commanded),
        'home': ', '.join(f'{home[joint]:.6g}' for joint in robot.commanded),
        'point': ', '.join(f'{value:.3f}' for value in _goal(robot, model, body)),
        'objects': _objects(model),
        'step_s': _STEP_S,
        'variance': f'{noise**2:.3g}',
    }
    file = paths.share() / 'config' / 'templates' / 'reach.yaml'
    template, text = string.Template(file.read_text(encoding='utf-8')), ''
    for substeps in _SUBSTEPS:
        substep_s = min(_STEP_S / substeps, _BELIEF_STEP_S)
        text = template.substitute(values, substeps=substeps, substep_s=substep_s)
        data = config.parse(text, name)
        if not coarse_step(bind_task(data, name, robot, paths.SceneFile(path))):
            break
    return text


def _goal(robot: Robot, model: mujoco.MjModel, body: int) -> Array:
    """Return where the last link is when each joint has turned towards the middle of its range."""
    position = robot.limits.position
    middle = np.clip(np.add(position.lower, position.upper) / 2.0, -1e3, 1e3)
    qpos = model.qpos0.copy()
    for name, home in zip(robot.joints, robot.home, strict=True):
        qpos[model.jnt_qposadr[scene.find(model, 'joint', name)]] = home
    for name, centre in zip(robot.commanded, middle, strict=True):
        address = model.jnt_qposadr[scene.find(model, 'joint', name)]
        qpos[address] += _TURN if centre >= qpos[address] else -_TURN
    return np.array(scene.kinematics(model, qpos).xpos[body])


def _objects(model: mujoco.MjModel) -> str:
    """Return the YAML of free bodies, which are tracked."""
    bodies = scene.free_bodies(model)
    if '' in bodies:
        raise SceneError('--reach: a body with a free joint needs a name')
    lines = [f'  {topic_name(body)}: {{body: {body}}}\n' for body in bodies]
    return '\nobjects:\n' + ''.join(lines) if bodies else ''
