"""Shapes of the planner's candidates, and of the plan as each model of the belief predicts it."""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.viz.palette import DIVERGED, HIGH_COST, LOW_COST, MEDIUM_COST, PLAN, PREDICTION
from emppi_ros.viz.shapes.scene_extent import SceneExtent
from emppi_ros.viz.shapes.shapes import Lines, Shape, Spheres, rgba, segments

_THIN, _THICK, _DOT = 0.003, 0.009, 0.012  # of the scene's extent
_OPACITY, _FAR = 0.6, 10.0  # of candidates; a path is cut this many extents from its start

NO_CANDIDATES = np.empty((0, 1, 3)), np.empty(0)
NO_PLAN = np.full((1, 1, 3), np.nan), np.empty((1, 0, 1, 3)), np.ones(1)


def candidates(extent: SceneExtent, traces: Array, costs: Array) -> list[Shape]:
    """
    Return a path of positions (..., H + 1, 3) [m] for each candidate, from low costs to high.

    Candidates of `costs` (...) +inf diverged; their paths end at the first NaN.
    """
    paths, flat = traces.reshape(-1, *traces.shape[-2:]), costs.ravel()
    far = np.linalg.norm(paths - paths[:, :1], axis=2) > _FAR * extent.size
    paths = np.where(far[..., None], np.nan, paths)
    good = np.isfinite(flat)
    ends, colors = _finite_segments(
        paths[good], np.column_stack([cost_colors(flat[good]), np.full(good.sum(), _OPACITY)])
    )
    lost, magenta = _finite_segments(paths[~good], rgba(DIVERGED, 1.0, int((~good).sum())))
    width = _THIN * extent.size
    return [Lines('rollouts', ends, colors, width), Lines('diverged', lost, magenta, width)]


def plan(extent: SceneExtent, trace: Array, objects: Array, shares: Array) -> list[Shape]:
    """
    Return the mean path of the plan, and the paths and ends of objects in each model.

    `trace` (M, H + 1, 3) and `objects` (M, n, H + 1, 3) are in m, `shares` (M,) weights.
    """
    alpha = shares / shares.max()
    sound = np.isfinite(trace).all(axis=(1, 2)) * shares  # diverged models do not count
    mean = np.einsum('m,mhi->hi', sound / max(sound.sum(), 1e-300), np.nan_to_num(trace))[None]
    if not sound.any():
        mean = mean[:, :0]
    many = objects.shape[1]
    pale = rgba(PREDICTION, np.repeat(_OPACITY * alpha, many))
    paths, faded = _finite_segments(objects.reshape(-1, *objects.shape[2:]), pale)
    last = objects[:, :, -1].reshape(-1, 3)
    kept = np.isfinite(last).all(axis=1)
    dots = rgba(PREDICTION, np.repeat(alpha, many))
    ends, dark = _finite_segments(mean, rgba(PLAN, 1.0, 1))
    return [
        Lines('plan', ends, dark, _THICK * extent.size),
        Lines('object paths', paths, faded, _THIN * extent.size),
        Spheres('object spread', last[kept], dots[kept], _DOT * extent.size),
    ]


def cost_colors(costs: Array) -> Array:
    """Return colours (n, 3): the lowest cost green, the middle of the range yellow, then red."""
    if len(costs) == 0:
        return np.empty((0, 3))
    low, high = costs.min(), costs.max()
    level = (costs - low) / (high - low) if high > low else np.zeros(len(costs))
    table = LOW_COST, MEDIUM_COST, HIGH_COST
    return np.column_stack(
        [np.interp(level, [0.0, 0.5, 1.0], part) for part in zip(*table, strict=True)]
    )


def _finite_segments(paths: Array, colors: Array) -> tuple[Array, Array]:
    """Return the segments (n, 2, 3) of paths with finite ends, and their colours (n, 4)."""
    ends = segments(paths)
    painted = np.repeat(colors, max(paths.shape[1] - 1, 0), axis=0)
    kept = np.isfinite(ends).all(axis=(1, 2))
    return ends[kept], painted[kept]
