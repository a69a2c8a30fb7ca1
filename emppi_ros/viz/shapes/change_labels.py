"""Text about parameters that have just changed, above the histograms of the belief."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco

from emppi_ros.core import weights
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import CHANGE
from emppi_ros.viz.shapes import histograms
from emppi_ros.viz.shapes.scene_extent import SceneExtent
from emppi_ros.viz.shapes.shapes import Label

SHOWN_S = 5.0  # for so long after a change was detected
_LETTER = 0.024  # height of a capital letter, as a share of the scene's extent


class ShownChange(NamedTuple):
    """A change that was detected."""

    stamp: float  # s
    parameter: str
    before: float  # mean of the belief before it


def label(
    task: Task,
    extent: SceneExtent,
    data: mujoco.MjData,
    belief: Belief,
    changes: Sequence[ShownChange],
    stamp: float,
) -> Label:
    """
    Return the text about the changes of the last seconds before `stamp` [s], '' without any.

    It says what the belief was before, and its mean now.
    """
    names = {parameter.name: i for i, parameter in enumerate(task.parameters)}
    mean = weights.mean(belief.log_weights, belief.theta)
    lines = []
    for change in changes:
        if change.parameter in names and 0.0 <= stamp - change.stamp < SHOWN_S:
            column = names[change.parameter]
            unit = task.parameters[column].unit
            values = f'{change.before:.3g} -> {mean[column]:.3g} {unit}'.rstrip()
            lines.append(f'{change.parameter} changed: {values}')
    position = histograms.top(task, extent, data)
    return Label('changes', position, '\n'.join(lines), _LETTER * extent.size, CHANGE)
