"""What a controller plans with: a belief that learns, one that does not, or a single model."""

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.model.parameters import nominal_values
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
CONTROLLERS = ('emppi', 'mppi-true', 'mppi-nominal', 'mppi-mean', 'mppi-wrong', 'no-update')


def single_model(task: Task, controller: str, truth: Array) -> Array | None:
    """Return the parameters (P,) of a controller that plans with one model, else None."""
    if controller not in CONTROLLERS:
        raise ConfigError(unknown('controller', controller, CONTROLLERS))
    if controller == 'mppi-true':
        return truth
    if controller == 'mppi-nominal':
        return nominal_values(task.parameters, task.model)
    if controller not in ('mppi-mean', 'mppi-wrong'):
        return None
    values = task.prior.mean()
    if controller == 'mppi-wrong':
        if not task.simulation.wrong:
            raise ConfigError(f'{task.where}: simulation: wrong: names no wrong value')
        for i, parameter in enumerate(task.parameters):
            values[i] = task.simulation.wrong.get(parameter.name, values[i])
    return values
