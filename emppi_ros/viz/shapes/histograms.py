"""
Shapes of the belief about scalar parameters, such as masses: histograms, or points in a box.

Histograms stand upright beside the object and face the scene's camera.
"""

from collections.abc import Sequence
import itertools

import mujoco
import numpy as np

from emppi_ros.belief.changes import DetectedChange
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BAR, BOX, CHANGE, FRAME, MEAN, SHEET
from emppi_ros.viz.shapes.joint_axes import uncertain_objects
from emppi_ros.viz.shapes.scene_extent import UP, SceneExtent, belief_anchor
from emppi_ros.viz.shapes.shapes import (
    SHEET_ALPHA,
    Label,
    Lines,
    Shape,
    Triangles,
    rectangles,
    rgba,
    sheets,
)

Changes = Sequence[DetectedChange]
BINS = 12
INTERVAL = 0.05, 0.95  # of the 90 % interval
# lengths are shares of the scene's extent; all but the first line shrink where rows are many
_ASIDE, _ABOVE = 0.06, 0.30  # of the first histogram from the object: to the right, up
_WIDTH, _HEIGHT = 0.28, 0.30  # of a histogram
_PITCH = 0.33, 0.42  # from one histogram to the next
_LETTER, _LINE = 0.028, 0.003  # height of a capital letter; width of a line
_FOOT, _MARGIN, _BEHIND = 0.185, 0.02, 0.004  # of the sheet: below the bars, around them, behind
_TEXT_BELOW = 0.10  # from the foot of a histogram to the middle of its text
_SHEET_SHARE = 0.6  # of the height: where a bar has more of the weight, all bars are lower
_COLUMNS = 5
_BOX, _BOX_ASIDE = 0.3, 0.5  # of the points' box: its side; its distance to the object's left


def scalar_columns(task: Task) -> list[int]:
    """Return the columns of theta that are not components of a joint's axis or pivot."""
    parts = {
        column for joint, _ in uncertain_objects(task) for column in (*joint.axis, *joint.pivot)
    }
    return [i for i in range(len(task.parameters)) if i not in parts]


def shapes(
    task: Task, extent: SceneExtent, data: mujoco.MjData, belief: Belief, lift: float = 0.0
) -> list[Shape]:
    """Return bars, scales and a label for each scalar parameter, `lift` [m] higher than usual."""
    scalars = scalar_columns(task)
    if not scalars:
        return []
    columns = min(_COLUMNS, len(scalars))
    rows = -(-len(scalars) // columns)
    scale, right = extent.size / np.sqrt(rows), extent.right
    first = belief_anchor(task, data) + extent.size * (_ASIDE * right + _ABOVE * UP) + lift * UP
    bars, lines, colors, labels = [], [], [], []
    for k, column in enumerate(scalars):
        row, position = divmod(k, columns)
        foot = first + scale * (_PITCH[0] * position * right + _PITCH[1] * (rows - 1 - row) * UP)
        low, high = _range(task, belief, column)
        heights = histogram(belief, column, low, high)
        heights *= min(1.0, _SHEET_SHARE / heights.max())
        bars.append(foot + _bars(heights, scale * _WIDTH * right, scale * _HEIGHT * UP))
        marks, painted = _scale(belief, column, low, high)
        lines.append(
            foot + scale * (marks[..., :1] * _WIDTH * right + marks[..., 1:] * _HEIGHT * UP)
        )
        colors.append(painted)
        below = foot + scale * (0.5 * _WIDTH * right - _TEXT_BELOW * UP)
        text = describe(task.parameters, belief, column)
        labels.append(Label('values', below, text, _LETTER * scale))
    corners = np.concatenate(bars)
    # bars are opaque, as rviz sorts translucent shapes of one place at random; lines lie before
    # them, as shapes of one plane flicker
    ends = np.concatenate(lines) - 0.5 * scale * _BEHIND * np.cross(UP, right)
    sheet = first + scale * _sheet(columns, rows, right)
    return [
        Triangles('panel', sheet, rgba(SHEET, SHEET_ALPHA, len(sheet))),
        Triangles('bars', corners, rgba(BAR, 1.0, len(corners))),
        Lines('scales', ends, np.concatenate(colors), _LINE * scale),
        *labels,
    ]


def change_shapes(
    task: Task, extent: SceneExtent, data: mujoco.MjData, belief: Belief, changes: Changes
) -> list[Shape]:
    """Return what changed, in words on a sheet above the histograms, from their left edge."""
    names = [parameter.name for parameter in task.parameters]
    mean = weights.mean(belief.log_weights, belief.theta)
    lines = []
    for change in changes:
        if change.parameter in names:
            column = names.index(change.parameter)
            values = f'{change.before:.3g} to {mean[column]:.3g} {task.parameters[column].unit}'
            lines += [f'{change.parameter} changed:', values.rstrip()]
    rows = max(1, -(-len(scalar_columns(task)) // _COLUMNS))
    height = (_PITCH[1] * (rows - 1) + _SHEET_SHARE * _HEIGHT + 2 * _MARGIN) / np.sqrt(rows)
    half = 0.5 * _LETTER * np.array([max(map(len, lines), default=0), 2.0 * len(lines)])
    aside, above = half + [_ASIDE - _MARGIN, _ABOVE + height]
    place = belief_anchor(task, data) + extent.size * (aside * extent.right + above * UP)
    label = Label('changes', place, '\n'.join(lines), _LETTER * extent.size, CHANGE)
    return [sheets('change panel', [label], extent.right, UP), label]


def points(task: Task, extent: SceneExtent, data: mujoco.MjData, belief: Belief) -> Array:
    """
    Return the position (M, 3) [m] of each particle in a box beside the object.

    The first three parameters, scaled by the prior's range, lie along right, up and away.
    """
    low, high = task.prior.range
    span = np.where(high > low, high - low, 1.0)
    shares = ((belief.theta - low) / span)[:, :3]
    return _in_box(task, extent, data, shares)


def points_box(task: Task, extent: SceneExtent, data: mujoco.MjData) -> Lines:
    """Return the edges of the box of `points`: a rectangle or a line for two parameters or one."""
    directions = min(3, len(task.parameters))
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=directions)))
    pairs = [
        pair for pair in itertools.combinations(corners, 2) if np.ptp(pair, axis=0).sum() == 1.0
    ]
    shares = np.array(pairs).reshape(-1, 2, directions)
    ends = _in_box(task, extent, data, shares)
    return Lines('points box', ends, rgba(BOX, 1.0, len(ends)), _LINE * extent.size)


def _in_box(task: Task, extent: SceneExtent, data: mujoco.MjData, shares: Array) -> Array:
    """Return positions (..., 3) [m] from shares (..., d) of the sides of the points' box."""
    axes = np.stack([extent.right, UP, np.cross(UP, extent.right)])[: shares.shape[-1]]
    corner = belief_anchor(task, data) - extent.size * _BOX_ASIDE * extent.right
    return corner + extent.size * _BOX * shares @ axes


def histogram(belief: Belief, column: int, low: float, high: float) -> Array:
    """Return the weight (BINS,) in equal bins of a range that holds all particles; sums to 1."""
    shares = np.exp(belief.log_weights)
    return np.histogram(belief.theta[:, column], BINS, (low, high), weights=shares)[0]


def describe(parameters: Sequence[Parameter], belief: Belief, column: int) -> str:
    """Return name, mean and 90 % interval of a parameter."""
    mean = weights.mean(belief.log_weights, belief.theta)[column]
    low, high = (weights.quantile(belief.log_weights, belief.theta, p)[column] for p in INTERVAL)
    parameter = parameters[column]
    unit = f' {parameter.unit}' if parameter.unit else ''
    return f'{parameter.name}\n{mean:.3g}{unit}\n[{low:.2g}, {high:.2g}]'


def _range(task: Task, belief: Belief, column: int) -> tuple[float, float]:
    """Return limits that hold the prior's range and every particle."""
    values = belief.theta[:, column]
    low, high = task.prior.range[:, column]
    low, high = min(float(low), float(values.min())), max(float(high), float(values.max()))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _bars(heights: Array, right: Array, up: Array) -> Array:
    """Return the triangles (2 BINS, 3, 3) of adjacent bars; a height of 1 fills the panel."""
    edges = np.arange(BINS + 1) / BINS
    low = np.column_stack([edges[:-1], np.zeros(BINS)])
    return rectangles(low, np.column_stack([edges[1:], heights]), right, up)


def _sheet(columns: int, rows: int, right: Array) -> Array:
    """Return the triangles (2, 3, 3) of a sheet behind all histograms and their texts."""
    low = np.array([[-_MARGIN, -_FOOT]])
    high = (
        np.array([[columns - 1, rows - 1]]) * _PITCH + (_WIDTH, _SHEET_SHARE * _HEIGHT) + _MARGIN
    )
    return rectangles(low, high, right, UP) + _BEHIND * np.cross(UP, right)


def _scale(belief: Belief, column: int, low: float, high: float) -> tuple[Array, Array]:
    """Return lines (n, 2, 2), in shares of the panel, and colours: base, mean, interval."""
    mean = weights.mean(belief.log_weights, belief.theta)[column]
    ends = [weights.quantile(belief.log_weights, belief.theta, p)[column] for p in INTERVAL]
    middle, lowest, highest = (np.array([mean, *ends]) - low) / (high - low)
    frame = [[[0, 0], [1, 0]], [[0, 0], [0, 0.08]], [[1, 0], [1, 0.08]]]
    marks = [
        [[middle, -0.05], [middle, 0.5]],
        [[lowest, -0.05], [highest, -0.05]],
        [[lowest, -0.08], [lowest, -0.02]],
        [[highest, -0.08], [highest, -0.02]],
    ]
    colors = np.vstack([rgba(FRAME, 1.0, len(frame)), rgba(MEAN, 1.0, len(marks))])
    return np.array([*frame, *marks], dtype=float), colors
