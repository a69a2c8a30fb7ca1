"""
The belief about numbers, such as masses: a panel of histograms over the object.

A histogram stands upright, facing the scene's camera. It reaches over all that the prior holds
for possible, and over all particles. A bar's area is the weight of the particles in it.
"""

from collections.abc import Sequence

import mujoco
import numpy as np

from emppi_ros.belief.particles import Belief
from emppi_ros.core import weights
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report import joint_arrows
from emppi_ros.viz.shapes.scene_extent import UP, Setting, beside
from emppi_ros.viz.shapes.shapes import Array, Label, Lines, Shape, Triangles, paint, rectangles

BINS = 12
INTERVAL = 0.05, 0.95  # of probability: between them, nine tenths
BAR, MEAN = (0.10, 0.40, 0.85), (0.95, 0.50, 0.05)
FRAME, BACK = (0.35, 0.35, 0.35), (1.0, 1.0, 1.0)
_WIDTH, _HEIGHT = 0.28, 0.30  # of the setting's size, less where there are many rows
_PITCH = 0.33, 0.38  # from one histogram to the next, likewise
_SHEET = 0.6  # of the height: higher is a bar that holds most of the weight
_ASIDE = 0.06  # to the right of the object
_LIFT, _TEXT, _LINE = 0.30, 0.020, 0.003  # over the object; a letter; a line; likewise
_FOOT, _MARGIN, _BEHIND = 0.135, 0.02, 0.004  # of the back: room for text; around; likewise
_MIDDLE = 0.08  # of the text, below the foot, likewise
_COLUMNS = 5


def scalars(task: Task) -> list[int]:
    """Return the columns of theta that are numbers by themselves, not parts of a joint's axis."""
    parts = {
        column for joint, _ in joint_arrows.opened(task) for column in (*joint.axis, *joint.pivot)
    }
    return [i for i in range(len(task.parameters)) if i not in parts]


def shapes(task: Task, setting: Setting, data: mujoco.MjData, belief: Belief) -> list[Shape]:
    """Return bars, scales and a label of each histogram; nothing where there is no number."""
    found = scalars(task)
    if not found:
        return []
    columns = min(_COLUMNS, len(found))
    rows = -(-len(found) // columns)
    scale, right = setting.size / np.sqrt(rows), setting.right
    first = beside(task, data) + setting.size * (_ASIDE * right + _LIFT * UP)
    bars, lines, colors, labels = [], [], [], []
    for k, column in enumerate(found):
        row, place = divmod(k, columns)
        foot = first + scale * (_PITCH[0] * place * right + _PITCH[1] * (rows - 1 - row) * UP)
        low, high = _range(task, belief, column)
        heights = histogram(belief, column, low, high)
        bars.append(foot + _bars(heights, scale * _WIDTH * right, scale * _HEIGHT * UP))
        here, painted = _scale(belief, column, low, high)
        lines.append(
            foot + scale * (here[..., :1] * _WIDTH * right + here[..., 1:] * _HEIGHT * UP)
        )
        colors.append(painted)
        under = foot + scale * (0.5 * _WIDTH * right - _MIDDLE * UP)
        text = words(task.parameters, belief, column)
        labels.append(Label('values', under, text, _TEXT * scale))
    corners = np.concatenate(bars)
    back = first + scale * _back(columns, rows, right)
    return [
        Triangles('panel', back, paint(BACK, 0.7, len(back))),
        Triangles('bars', corners, paint(BAR, 0.85, len(corners))),
        Lines('scales', np.concatenate(lines), np.concatenate(colors), _LINE * scale),
        *labels,
    ]


def histogram(belief: Belief, column: int, low: float, high: float) -> Array:
    """Return the weight (BINS,) in each of as many equal parts of a range; they sum to 1."""
    shares = np.exp(belief.log_weights)
    found, _ = np.histogram(belief.theta[:, column], BINS, (low, high), weights=shares)
    return found


def words(parameters: Sequence[Parameter], belief: Belief, column: int) -> str:
    """Return name, mean and interval of a parameter."""
    mean = weights.mean(belief.log_weights, belief.theta)[column]
    low, high = (weights.quantile(belief.log_weights, belief.theta, p)[column] for p in INTERVAL)
    parameter = parameters[column]
    unit = f' {parameter.unit}' if parameter.unit else ''
    return f'{parameter.name}\n{mean:.3g}{unit}\n[{low:.2g}, {high:.2g}]'


def _range(task: Task, belief: Belief, column: int) -> tuple[float, float]:
    """Return limits that hold the prior and every particle."""
    values = belief.theta[:, column]
    low, high = task.prior.range[:, column]
    low, high = min(float(low), float(values.min())), max(float(high), float(values.max()))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _bars(heights: Array, right: Array, up: Array) -> Array:
    """Return the triangles (2 BINS, 3, 3) of bars side by side; a height of 1 fills the panel."""
    edges = np.arange(BINS + 1) / BINS
    low = np.column_stack([edges[:-1], np.zeros(BINS)])
    return rectangles(low, np.column_stack([edges[1:], heights]), right, up)


def _back(columns: int, rows: int, right: Array) -> Array:
    """Return the triangles (2, 3, 3) of a sheet behind all histograms, which texts are read on."""
    low = np.array([[-_MARGIN, -_FOOT]])
    high = np.array([[columns - 1, rows - 1]]) * _PITCH + (_WIDTH, _SHEET * _HEIGHT) + _MARGIN
    return rectangles(low, high, right, UP) + _BEHIND * np.cross(UP, right)


def _scale(belief: Belief, column: int, low: float, high: float) -> tuple[Array, Array]:
    """Return lines (n, 2, 2), in parts of the panel, and colours: base, mean, interval."""
    mean = weights.mean(belief.log_weights, belief.theta)[column]
    ends = [weights.quantile(belief.log_weights, belief.theta, p)[column] for p in INTERVAL]
    middle, left, right = (np.array([mean, *ends]) - low) / (high - low)
    frame = [[[0, 0], [1, 0]], [[0, 0], [0, 0.08]], [[1, 0], [1, 0.08]]]
    told = [
        [[middle, -0.05], [middle, 0.5]],
        [[left, -0.05], [right, -0.05]],
        [[left, -0.08], [left, -0.02]],
        [[right, -0.08], [right, -0.02]],
    ]
    colors = np.vstack([paint(FRAME, 1.0, len(frame)), paint(MEAN, 1.0, len(told))])
    return np.array([*frame, *told], dtype=float), colors
