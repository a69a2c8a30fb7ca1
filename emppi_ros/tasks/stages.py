"""The stages of a task, bound to its model."""

from typing import NamedTuple

import mujoco

from emppi_ros.core.errors import prefix_errors
from emppi_ros.model import scene
from emppi_ros.tasks.cost import Cost, bind_residual
from emppi_ros.tasks.residuals import Residual
from emppi_ros.tasks.schema import StageConfig, TaskFile


class Stage(NamedTuple):
    """A stage bound to the model of its task."""

    name: str
    cost: Cost
    until: Residual | None
    grasp: tuple[int, ...]  # ids of equality constraints
    settings: StageConfig


def bind_stages(model: mujoco.MjModel, file: TaskFile) -> tuple[Stage, ...]:
    """Return all stages; a task without stages has a single, unnamed one."""
    bound = []
    for stage in file.stages or (StageConfig('', file.cost),):
        where = f'stages: {stage.name}: ' if file.stages else ''
        cost = Cost.bind(model, stage.cost, f'{where}cost')
        until = None
        if stage.until:
            until = bind_residual(model, stage.until.residual, f'{where}until: residual')
        grasp = tuple(
            prefix_errors(f'{where}grasp', scene.find, model, 'equality', name)
            for name in stage.grasp
        )
        bound.append(Stage(stage.name, cost, until, grasp, stage))
    return tuple(bound)


def bind_probe(model: mujoco.MjModel, file: TaskFile) -> Cost | None:
    """Return the cost of `probe`; None: that of the stage."""
    return Cost.bind(model, file.probe.cost, 'probe: cost') if file.probe.cost else None
