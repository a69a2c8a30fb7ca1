"""
Swing up and balance the pole of an inferred cart-pole, with what a method knows of it.

The world has the true masses and dampings, in the inferred geometry.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import yaml

from benchmarks.video.films import Film
from benchmarks.video.pipeline import InferredMechanism
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.tasks.task import load_task

FORCE_N = 40.0  # limit: with 20 N, true models did not swing up carts of 3 kg and more
RAIL_M = 10.0  # to each side: at 1.8 m, carts with an upright pole left the rail
MODEL_OF_TRUTH, MODELS_OF_PRIOR = 'mppi-true', 'no-update'  # controllers of `emppi run`
_PARTICLES = 64
_ROBOT, _TASK, _PRIOR = 'filmed_robot.yaml', 'filmed_task.yaml', 'filmed_prior.yaml'


class Rest(NamedTuple):
    """Joint positions of the inferred mechanism: cart in the middle, pole up."""

    cart: float
    pole: float


@dataclass(frozen=True)
class ControlTask:
    """Where a task starts, with the angle of the pole from upright and the speed of the cart."""

    angle_deg: float
    cart_m_per_s: float
    seconds: float


TASKS = {  # as in video2sim, Sec. V-C
    'swing-up': ControlTask(180.0, 0.0, 8.0),
    'balancing': ControlTask(20.0, 0.1, 4.0),
}


def reward(
    name: str, mechanism: InferredMechanism, film: Film, samples: Array | None, seed: int,
    folder: Path,
) -> float:  # fmt: skip
    """Return the mean of (1 + cos angle) / 2 over a task: 1 is upright all the time."""
    _, angles = run(name, mechanism, film, samples, seed, folder)
    return float(np.mean(0.5 * (1.0 + np.cos(angles))))


def run(
    name: str, mechanism: InferredMechanism, film: Film, samples: Array | None, seed: int,
    folder: Path,
) -> tuple[Array, Array]:  # fmt: skip
    """
    Return times (n,) [s] and angles of the pole from upright (n,) [rad].

    The planner has models of the samples (N, P) of the posterior, and does not learn; without
    samples it has the true parameters. `folder` has the scene of the mechanism.
    """
    rest, start = upright(mechanism.plant.model), TASKS[name]
    (folder / _ROBOT).write_text(yaml.safe_dump(_robot(rest, start)))
    (folder / _TASK).write_text(yaml.safe_dump(_task(mechanism, film, rest)))
    task, controller = load_task(str(folder / _TASK)), MODEL_OF_TRUTH
    if samples is not None:
        path, controller = folder / _PRIOR, MODELS_OF_PRIOR
        chosen = samples[np.linspace(0, len(samples) - 1, _PARTICLES).astype(int)]
        columns = {}
        for unknown, column in zip(mechanism.plant.unknowns, chosen.T, strict=True):
            # searches end on bounds
            inside = prior_file.within(column, unknown.lower, unknown.upper)
            columns[unknown.name] = ParameterPrior(unknown.unit, tuple(inside.tolist()))
        prior_file.write(
            path, PriorFile('video', (), columns, (1.0,) * len(chosen)), overwrite=True
        )
        task = task.with_prior(str(path))
    loop = ClosedLoop(task, seed, controller)
    loop.robot.data.joint('cart').qvel[:] = start.cart_m_per_s
    mujoco.mj_forward(loop.robot.model, loop.robot.data)
    loop.run(start.seconds, stop_at_success=False)
    frames = loop.trace.frames
    times = np.array([frame.time for frame in frames])
    return times, np.array([frame.qpos[1] for frame in frames]) - rest.pole


def upright(model: mujoco.MjModel) -> Rest:
    """Return the positions of the joints with the cart in the world's middle, and the pole up."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    axis = data.joint('pole').xaxis
    direction = data.body('pole').xipos - data.joint('pole').xanchor
    pole = float(np.arctan2(np.cross(axis, direction)[2], direction[2]))
    slide = data.joint('cart').xaxis
    return Rest(float(-slide[0] * data.body('cart').xpos[0]), pole)


def _robot(rest: Rest, start: ControlTask) -> dict[str, object]:
    robot = yaml.safe_load(paths.find_config('robots', 'cartpole').read_text())
    robot.update(
        name='filmed', joints=['cart', 'pole'], commanded=['cart'],
        home=[rest.cart, rest.pole + float(np.radians(start.angle_deg))],
    )  # fmt: skip
    limits = [[rest.cart + end] for end in (-RAIL_M, RAIL_M)]
    robot['limits']['position'] = {'lower': limits[0], 'upper': limits[1]}
    robot['limits']['effort'] = [FORCE_N]
    return dict(robot)


def _task(mechanism: InferredMechanism, film: Film, rest: Rest) -> dict[str, object]:
    task = yaml.safe_load(paths.find_config('tasks', 'cartpole_swingup').read_text())
    parameters, plant = {}, mechanism.plant
    for unknown, parameter in zip(plant.unknowns, plant.parameters, strict=True):
        span = {'lower': unknown.lower, 'upper': unknown.upper}
        parameters[unknown.name] = {
            'field': parameter.field, 'of': parameter.of, 'unit': unknown.unit, **span,
            'prior': {'distribution': 'uniform', **span},
        }  # fmt: skip
    upright = {'residual': 'joint_angle', 'joint': 'pole', 'target': rest.pole}
    task.update(
        name='filmed', scene='scene.xml', robot=_ROBOT, parameters=parameters,
        success={'residual': upright, 'below': 0.2, 'hold_s': 1.5},
        simulation={
            'truth': {
                name: {'distribution': 'fixed', 'value': value}
                for name, value in film.truth.items()
            }
        },
    )  # fmt: skip
    task['planner']['noise_variance'] = [(FORCE_N / 4.0) ** 2]  # as of the task, for 20 N
    task['cost']['upright'] |= upright
    task['cost']['spin']['joints'] = ['pole']
    task['cost']['centre'] |= {'joints': ['cart'], 'targets': [rest.cart]}
    task['cost']['cart_speed']['joints'] = ['cart']
    return dict(task)
