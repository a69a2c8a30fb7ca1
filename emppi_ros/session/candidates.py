"""What of a planner's candidates is worth seeing: where each takes one place of the robot."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.model.ensemble import Records
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class Place(NamedTuple):
    """A point of the robot: a row of a field of MjData."""

    field: str
    row: int


class Candidates(NamedTuple):
    """Where M x K candidates lead, and what they cost."""

    traces: Array  # (M, K, H + 1, 3) m, at x_0 .. x_H
    costs: Array  # (M, K), +inf if one diverged


def place(task: Task) -> Place:
    """
    Return what candidates are seen by: what the cost measures its first distance from.

    That is recorded anyway. A cost without distances: the centre of the last joint's body.
    """
    for stage in task.stages:
        for term in stage.settings.cost.values():
            if term.get('residual') == 'distance':
                kind, index = scene.find_frame(task.model, term['of'])
                return Place(scene.POSITION_FIELDS[kind], index)
    joint = scene.find(task.model, 'joint', task.robot.joints[-1])
    return Place('xipos', int(task.model.jnt_bodyid[joint]))


def trace(records: Records, place: Place, substeps: int) -> Array:
    """Return where a place was at x_0 .. x_H, (M, K, H + 1, 3): H * substeps + 1 records."""
    return records.fields[place.field][:, :, ::substeps, place.row].copy()
