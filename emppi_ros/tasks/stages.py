"""The stages of a task, found in its scene."""

from typing import NamedTuple

import mujoco

from emppi_ros.model import scene
from emppi_ros.tasks.cost import Cost, bind_residual
from emppi_ros.tasks.objects import located
from emppi_ros.tasks.residuals_base import Bound
from emppi_ros.tasks.schema import Stage, TaskFile


class BoundStage(NamedTuple):
    """A stage whose every name was found."""

    name: str
    cost: Cost
    until: Bound | None
    grasp: tuple[int, ...]  # ids of equality constraints
    settings: Stage


def bind_stages(model: mujoco.MjModel, file: TaskFile) -> tuple[BoundStage, ...]:
    """Return the stages; a task without has one, which never ends."""
    if not file.stages:
        cost = Cost(model, file.cost, 'cost')
        return (BoundStage('', cost, None, (), Stage('', file.cost)),)
    bound = []
    for stage in file.stages:
        where = f'stages: {stage.name}'
        cost = Cost(model, stage.cost, f'{where}: cost')
        until = stage.until and bind_residual(
            model, stage.until.residual, f'{where}: until: residual'
        )
        grasp = tuple(
            located(f'{where}: grasp', scene.find, model, 'equality', name) for name in stage.grasp
        )
        bound.append(BoundStage(stage.name, cost, until, grasp, stage))
    return tuple(bound)
