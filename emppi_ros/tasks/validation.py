"""Checks of a task beyond its keys and names: its priors, costs and models are computed."""

import mujoco
import numpy as np

from emppi_ros.core.errors import ConfigError
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.priors import distributions
from emppi_ros.tasks.task import Task


def validate(task: Task) -> Task:
    """Return the task if its priors can be sampled and its initial cost is finite."""
    rng = np.random.default_rng(0)
    for priors in (task.priors, task.truth):
        distributions.sample(task.parameters, priors, 2, rng)
    parameters = {parameter.name: parameter for parameter in task.parameters}
    for change in task.simulation.changes_when:
        change.to.sample(parameters[change.parameter], 2, rng)
    initial_cost(task)
    return task


def initial_cost(task: Task) -> dict[str, float]:
    """Return each cost term's norm(residual) in the initial state; ConfigError if not finite."""
    data = mujoco.MjData(task.model)
    data.qpos[:], data.qvel[:] = task.start()
    mujoco.mj_forward(task.model, data)
    cost = task.stages[0].cost
    values = cost.values({name: getattr(data, name) for name in cost.record})
    for name, value in values.items():
        if not np.isfinite(value):
            raise ConfigError(f'{task.where}: cost: {name}: is {value} in the initial state')
    return {name: float(value) for name, value in values.items()}


def diverged_share(task: Task, seed: int = 0) -> float:
    """
    Return the share of models that diverge at rest, with parameters sampled from the prior.

    Simulates one plan of each model of the planner from the initial state, and writes true values,
    too. ConfigError if every model diverges; ParameterError or SceneError if MuJoCo rejects one.
    """
    config, rng = task.planner, np.random.default_rng(seed)
    ensemble = Ensemble(task.model, task.parameters, config.models, 1, config.threads)
    ensemble.write(distributions.sample(task.parameters, task.truth, config.models, rng))
    ensemble.write(task.prior.sample(config.models, rng))
    steps = config.horizon * config.substeps
    rest = np.zeros(task.model.nu)
    if task.robot.command == 'position':
        rest[task.map.ctrl] = np.array(task.robot.home)[task.commanded_rows]
    controls = np.broadcast_to(rest, (config.models, 1, steps, task.model.nu))
    diverged = ensemble.rollout(task.start(), controls, ('qpos',)).diverged
    if diverged.all():
        raise ConfigError(
            f'{task.where}: all {config.models} models with parameters sampled from the prior '
            f'diverge within {steps * task.model.opt.timestep:g} s at rest from the initial '
            'state: check the scene, `parameters`, and planner: step_s / substeps, the physics '
            f'step ({task.model.opt.timestep:g} s)'
        )
    return float(np.mean(diverged))
