"""The belief about how things hang on their joints: axes and pivots (the paper's Fig. 2, 6)."""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.model import uncertain_joints
from emppi_ros.state.articulation import of
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report import joint_arrows
from emppi_ros.viz.report.joint_arrows import COLORS, LIGHTEST
from emppi_ros.viz.shapes.histograms import BACK
from emppi_ros.viz.shapes.scene_extent import UP, Setting
from emppi_ros.viz.shapes.shapes import (
    Array,
    Label,
    Lines,
    Shape,
    Spheres,
    Triangles,
    paint,
    rectangles,
)

_LENGTH, _WIDTH, _PIVOT = 0.3, 0.004, 0.016  # of the setting's size
_TEXT, _LIFT = 0.024, 0.25  # likewise: a letter; how far its label is above an object
_BEHIND = 0.02  # likewise: the sheet behind a text that turns to who looks


def shapes(task: Task, setting: Setting, data: mujoco.MjData, belief: Belief) -> list[Shape]:
    """
    Return axes and pivots of all joints that nobody knows, and what they are in words.

    An axis lies half before and half behind its place: a hinge's pivot, or the body that
    slides. It is as opaque as its particle weighs beside the heaviest. Nothing for a task
    whose joints are known.
    """
    found = joint_arrows.opened(task)
    if not found:
        return []
    shares = np.exp(belief.log_weights - belief.log_weights.max())
    kept = shares >= LIGHTEST
    ends, pivots, colors, pivot_colors, labels, sheets = [], [], [], [], [], []
    for joint, item in found:
        motion = uncertain_joints.motion(task.model, task.parameters, joint, belief.theta)
        kinds = uncertain_joints.kinds(task.model, task.parameters, joint, belief.theta)
        hung = of(item, *motion)
        here = np.where(hung.hinge[:, None], hung.pivot, data.xpos[item.body])
        half = 0.5 * _LENGTH * setting.size * hung.axis
        painted = np.column_stack([np.array(COLORS)[kinds % len(COLORS)], shares])
        ends.append(np.stack([here - half, here + half], axis=1)[kept])
        colors.append(painted[kept])
        pivots.append(hung.pivot[kept & hung.hinge])
        pivot_colors.append(painted[kept & hung.hinge])
        words = _words(joint_arrows.names(task, joint), kinds, belief)
        over = data.xpos[item.body] + _LIFT * setting.size * UP
        labels.append(Label('joints', over, f'{joint.name}\n{words}', _TEXT * setting.size))
        sheets.append(over + setting.size * _sheet(words, setting.right))
    return [
        Lines('axes', np.concatenate(ends), np.concatenate(colors), _WIDTH * setting.size),
        Spheres(
            'pivots',
            np.concatenate(pivots),
            np.concatenate(pivot_colors),
            _PIVOT * setting.size,
        ),
        Triangles('joint panel', np.concatenate(sheets), paint(BACK, 0.7, 2 * len(sheets))),
        *labels,
    ]


def _sheet(words: str, right: Array) -> Array:
    """Return the triangles (2, 3, 3) of a sheet behind a label of two lines, centred on it."""
    half = _TEXT * np.array([[0.5 * len(words), 2.0]])
    return rectangles(-half, half, right, UP) + _BEHIND * np.cross(UP, right)


def _words(names: list[str], kinds: npt.NDArray[np.intp], belief: Belief) -> str:
    """Return how probable each kind of a joint is."""
    shares = np.exp(belief.log_weights)
    parts = (f'{100.0 * shares[kinds == i].sum():.0f} % {name}' for i, name in enumerate(names))
    return ', '.join(parts)
