"""
Parts of the parameters of a joint that no measurement contains, so that they keep their prior.

They are drawn again after resampling, given all else (docs/method.md): a Gibbs step, which leaves
the posterior unchanged (Geman and Geman 1984). For an axis r u with direction u, and a pivot
x + s u,

    p(r | u) ~ r^2 p(r u),        p(s | x, u) ~ p(x + s u).
"""

from collections.abc import Sequence

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.model import uncertain_joints
from emppi_ros.model.uncertain_joints import UncertainJoint
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.tasks.task import Task

_VALUES = 200  # that are tried, evenly spaced


def redraw(
    task: Task, joints: Sequence[UncertainJoint], theta: Array, rng: np.random.Generator
) -> Array:
    """Return particles theta (M, P) with the free parts of all joints drawn again."""
    for joint in joints:
        if is_free(task.prior, joint.axis):
            theta = redraw_length(task.prior, joint.axis, theta, rng)
        if joint.choice is None and is_free(task.prior, joint.pivot):
            axes, _, hinge = uncertain_joints.motion(task.model, task.parameters, joint, theta)
            theta = redraw_pivot(task.prior, joint.pivot, theta, axes, hinge, rng)
    return theta


def is_free(prior: JointPrior, columns: Sequence[int]) -> bool:
    """Return whether the parameters at `columns` are three, uncertain, and independent."""
    independent = not set(columns) & set(prior.columns)
    return len(columns) == 3 and independent and bool(np.all(prior.spread[list(columns)] > 0.0))


def redraw_length(
    prior: JointPrior, columns: Sequence[int], theta: Array, rng: np.random.Generator
) -> Array:
    """
    Return particles theta (M, P) with new lengths of the axis at `columns` (3,).

    Axes outside of the prior's range keep their length.
    """
    axes = theta[:, list(columns)]
    lengths = np.linalg.norm(axes, axis=1)
    directions = axes / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    theta = theta.copy()
    theta[:, list(columns)] = _redraw(
        prior, columns, np.zeros_like(axes), directions, 2.0, axes, rng
    )
    return theta


def redraw_pivot(
    prior: JointPrior,
    columns: Sequence[int],
    theta: Array,
    axes: Array,
    hinge: Bools,
    rng: np.random.Generator,
) -> Array:
    """
    Return particles theta (M, P) with pivots at `columns` (3,) that move alike.

    `axes` (M, 3) are unit vectors, and `hinge` (M,) tells hinges from slides.
    """
    pivots = theta[:, list(columns)]
    along = (pivots * axes).sum(axis=1)[:, None] * axes
    # both directions of the line: the sign of the axis has no meaning
    drawn = _redraw(prior, columns, pivots - along, axes, 0.0, pivots, rng)
    free = prior.resample(len(theta), rng)[:, list(columns)]
    theta = theta.copy()
    theta[:, list(columns)] = np.where(hinge[:, None], drawn, free)
    return theta


def _redraw(
    prior: JointPrior,
    columns: Sequence[int],
    start: Array,
    directions: Array,
    power: float,
    present: Array,
    rng: np.random.Generator,
) -> Array:
    """
    Return points start + s directions (M, 3), with density |s|^power times the prior.

    If power is 0, s may be negative. Where the prior has no density, points stay as at `present`.
    """
    low, high = prior.range[:, list(columns)]
    with np.errstate(divide='ignore', invalid='ignore'):
        ends = np.sort([(low - start) / directions, (high - start) / directions], axis=0)
    ends = np.where(directions == 0.0, np.array([-np.inf, np.inf])[:, None, None], ends)
    first, last = ends[0].max(axis=1), ends[1].min(axis=1)  # within the range of the prior
    if power:
        first = np.maximum(first, 0.0)
    valid = np.isfinite(first) & np.isfinite(last) & (first < last)
    first, last = np.where(valid, first, 0.0), np.where(valid, last, 1.0)
    # the middle of equal intervals
    share = (np.arange(_VALUES) + 0.5) / _VALUES
    grid = first[:, None] + (last - first)[:, None] * share  # (M, G)
    log_density = power * np.log(grid) if power else np.zeros_like(grid)
    for i, column in enumerate(columns):
        values = (start[:, i : i + 1] + grid * directions[:, i : i + 1]).ravel()
        density = prior.priors[column].log_density(prior.parameters[column], values)
        log_density += density.reshape(grid.shape)
    chosen = np.argmax(log_density + rng.gumbel(size=grid.shape), axis=1)
    rows = np.arange(len(grid))
    valid &= np.isfinite(log_density[rows, chosen])
    points = start + grid[rows, chosen][:, None] * directions
    return np.where(valid[:, None], points, present)
