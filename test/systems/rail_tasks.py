"""Tasks of carts on rails: a scene and two YAML files, as a user writes them."""

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

import numpy as np

from emppi_ros.belief.belief_session import BeliefSession, StampedBelief
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task, load_task

PERIOD_S = 0.02  # between updates of a belief
MASS = 2.0  # kg, of the cart
CART = f"""
<mujoco><option timestep="{PERIOD_S}" gravity="0 0 0"/>
  <worldbody><site name="goal"/>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0"/>
      <geom size="0.1" mass="{MASS}"/></body>
  </worldbody>
  <actuator><motor name="x" joint="x"/></actuator>
</mujoco>
"""
_FAR = 1e3  # no command and no motion of a test reaches such a limit


def write(
    folder: Path,
    scene: str,
    command: str,
    parameters: Mapping[str, Any],
    belief: Mapping[str, Any],
    objects: Mapping[str, Any] | None = None,
) -> Task:
    """
    Return the task of a robot with one joint, `x`, after writing its files (JSON is YAML).

    `scene` is MJCF with a site `goal`; `command` is that of the robot. The planner is never used.
    """
    bounds = {'lower': [-_FAR], 'upper': [_FAR]}
    limits = {'position': bounds, 'velocity': [_FAR], 'acceleration': [_FAR], 'effort': [_FAR]}
    robot = {'name': 'rail', 'joints': ['x'], 'commanded': ['x'], 'command': command}
    robot |= {'home': [0.0], 'limits': limits, 'frame': 'world'}
    distance = {'residual': 'distance', 'of': 'body:cart', 'to': 'goal'}
    task = {
        'name': 'rail',
        'scene': 'rail.xml',
        'robot': str(folder / 'robot.yaml'),
        'duration_s': 1.0,
        'parameters': parameters,
        'objects': objects or {},
        'cost': {'reach': {**distance, 'weight': 1.0}},
        'success': {'residual': distance, 'below': 0.02},
        'planner': {
            'models': 1, 'rollouts': 2, 'horizon': 2, 'step_s': 0.05, 'substeps': 5, 'rate_hz': 20,
            'temperature': 0.1, 'noise_variance': [0.25], 'threads': 1,
        },
        'belief': belief,
        'simulation': {'truth': {name: entry['prior'] for name, entry in parameters.items()}},
    }  # fmt: skip
    (folder / 'rail.xml').write_text(scene)
    (folder / 'robot.yaml').write_text(json.dumps(robot))
    path = folder / 'task.yaml'
    path.write_text(json.dumps(task))
    return load_task(str(path))


def learn(
    task: Task,
    seed: int,
    commands: Array,
    positions: Array,
    velocities: Array,
    poses: Array | None = None,
) -> tuple[BeliefSession, list[StampedBelief]]:
    """
    Return a belief session after N updates, PERIOD_S apart, and the belief of each.

    `commands` (N,) each hold for a period; `positions` and `velocities` (N + 1,) of the joint are
    measured at their ends, and with an object `block` its `poses` (N + 1, 3), without rotation.
    """
    session, beliefs = BeliefSession(task, seed), []
    held = np.append(commands, commands[-1])
    for k, row in enumerate(np.stack([held, positions, velocities], axis=1)[:, :, None]):
        stamp = k * PERIOD_S
        session.add_command(stamp, row[0])
        session.add_joints(stamp, row[1], row[2])
        if poses is not None:
            session.add_pose('block', stamp, poses[k], np.array([1.0, 0.0, 0.0, 0.0]))
        beliefs += session.update()
    assert not session.error and session.counts['jumps'] == 0
    assert len(beliefs) == len(commands)
    return session, beliefs


def unbounded_moments(task: Task, belief: Belief) -> tuple[Array, Array]:
    """Return mean and standard deviation (P,) of a belief in unbounded coordinates."""
    z = to_unbounded(task.parameters, belief.theta)
    covariance = weights.covariance(belief.log_weights, z)
    return weights.mean(belief.log_weights, z), np.sqrt(np.diag(covariance))
