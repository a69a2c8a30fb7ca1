"""What can be wrong with a task whose every name was found."""

import mujoco
import numpy as np

from emppi_ros.belief import distributions
from emppi_ros.core.errors import ConfigError
from emppi_ros.tasks.task import Task


def check(task: Task) -> Task:
    """Return a task that can begin: its priors can be drawn from, its cost is finite."""
    for group in (task.priors, task.truth):
        distributions.sample(task.parameters, group, 2, np.random.default_rng(0))
    start_cost(task)
    return task


def start_cost(task: Task) -> dict[str, float]:
    """Return norm(residual) of each cost term where the task begins; all must be finite."""
    data = mujoco.MjData(task.model)
    data.qpos[:], data.qvel[:] = task.start()
    mujoco.mj_forward(task.model, data)
    cost = task.stages[0].cost
    values = cost.values({name: getattr(data, name) for name in cost.record})
    for name, value in values.items():
        if not np.isfinite(value):
            raise ConfigError(f'{task.where}: cost: {name}: is {value} where the task begins')
    return {name: float(value) for name, value in values.items()}
