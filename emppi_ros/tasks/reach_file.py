"""Write a task for any arm: bring the last link, of unknown mass, to a point."""

from pathlib import Path

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

_TEMPLATE = """\
# Written by `emppi robot --reach`: an example to change.
name: {name}
description: The last link of {robot}, of unknown mass, comes to a point.
scene: {scene}
robot: {robot_path}
duration_s: 10.0                # time limit

parameters:                     # unknown to planner and belief
  load:
    field: body_mass            # writes MuJoCo's body_mass, and scales the inertia with it
    of: {link}
    lower: {lower}
    upper: {upper}
    unit: kg
    prior: {{distribution: uniform, lower: {lower}, upper: {upper}}}
{objects}
cost:                           # sum of weight * norm(residual)
  reach:
    residual: distance
    of: body:{link}
    point: [{point}]
    norm: squared
    weight: 60.0
    terminal_weight: 60.0
  calm:
    residual: joint_velocity
    joints: [{joints}]
    norm: squared
    weight: 0.3
  posture:
    residual: joint_position
    joints: [{joints}]
    targets: [{home}]
    norm: squared
    weight: 0.01

success:
  residual: {{residual: distance, of: 'body:{link}', point: [{point}]}}
  below: 0.03                   # m
  hold_s: 0.5

planner:
  models: 8                     # M
  rollouts: 16                  # K, per model
  horizon: 10                   # H
  step_s: {step_s}
  substeps: {substeps}
  rate_hz: 20
  temperature: 0.1              # lambda
  noise_variance: [{variance}]        # Sigma
  filter_window: 9

belief:
  particles: 64
  substep_s: {substep_s}
  interval_s: 0.05              # no object is tracked: updates at this interval
  likelihood:
    joint_velocity_sd: 0.01     # rad/s

simulation:
  truth:
    load: {{distribution: uniform, lower: {lower}, upper: {upper}}}
"""


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
    text = ''
    for substeps in _SUBSTEPS:
        substep_s = min(_STEP_S / substeps, _BELIEF_STEP_S)
        text = _TEMPLATE.format(**values, substeps=substeps, substep_s=substep_s)
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
    bodies = [
        scene.names(model, 'body')[model.jnt_bodyid[joint]]
        for joint in np.flatnonzero(model.jnt_type == scene.FREE)
    ]
    if '' in bodies:
        raise SceneError('--reach: a body with a free joint needs a name')
    lines = [f'  {topic_name(body)}: {{body: {body}}}\n' for body in bodies]
    return '\nobjects:\n' + ''.join(lines) if bodies else ''
