"""Where the planner's candidates lead, and where the plan leads in each model of the belief."""

import numpy as np

from emppi_ros.viz.shapes.scene_extent import Setting
from emppi_ros.viz.shapes.shapes import Array, Color, Lines, Shape, Spheres, paint, strips

GOOD, FAIR, BAD = (0.10, 0.65, 0.25), (0.95, 0.80, 0.10), (0.85, 0.15, 0.10)
DIVERGED, PLAN, SPREAD = (0.85, 0.10, 0.85), (0.05, 0.10, 0.45), (0.10, 0.40, 0.85)
_THIN, _THICK, _DOT = 0.003, 0.009, 0.012  # of the setting's size
_OPACITY, _FAR = 0.6, 10.0  # beyond so many sizes, what diverges is no longer anywhere

NONE = np.empty((0, 1, 3)), np.empty(0)  # candidates, where there are none
NOWHERE = np.full((1, 1, 3), np.nan), np.empty((1, 0, 1, 3)), np.ones(1)  # and no plan


def candidates(setting: Setting, traces: Array, costs: Array) -> list[Shape]:
    """
    Return a strip for each candidate, by cost from green to red; diverged ones apart.

    Parameters
    ----------
    setting : Setting
        How large all is.
    traces : (..., H + 1, 3) array
        Where each candidate's place was at each step [m].
    costs : (...) array
        What each costs; +inf if it diverged, and then its trace ends where it is not finite.

    """
    paths, flat = traces.reshape(-1, *traces.shape[-2:]), costs.ravel()
    far = np.linalg.norm(paths - paths[:, :1], axis=2) > _FAR * setting.size
    paths = np.where(far[..., None], np.nan, paths)
    good = np.isfinite(flat)
    ends, colors = _finite(
        paths[good], np.column_stack([ramp(flat[good]), np.full(good.sum(), _OPACITY)])
    )
    lost, magenta = _finite(paths[~good], paint(DIVERGED, 1.0, int((~good).sum())))
    width = _THIN * setting.size
    return [Lines('rollouts', ends, colors, width), Lines('diverged', lost, magenta, width)]


def plan(setting: Setting, course: Array, objects: Array, shares: Array) -> list[Shape]:
    """
    Return the plan's course, and the paths and ends of objects as each model predicts them.

    Parameters
    ----------
    setting : Setting
        How large all is.
    course : (M, H + 1, 3) array
        The place that the candidates show, under the plan, in each of M models [m].
    objects : (M, n, H + 1, 3) array
        Each of n objects, likewise.
    shares : (M,) array
        How much models weigh; one is as opaque as it weighs beside the heaviest.

    """
    alpha = shares / shares.max()
    sound = np.isfinite(course).all(axis=(1, 2)) * shares  # a diverged model says nothing
    mean = np.einsum('m,mhi->hi', sound / max(sound.sum(), 1e-300), np.nan_to_num(course))[None]
    if not sound.any():
        mean = mean[:, :0]
    many = objects.shape[1]
    paths, faded = _finite(
        objects.reshape(-1, *objects.shape[2:]), paint(SPREAD, np.repeat(_OPACITY * alpha, many))
    )
    where = objects[:, :, -1].reshape(-1, 3)
    kept = np.isfinite(where).all(axis=1)
    dots = paint(SPREAD, np.repeat(alpha, many))
    ends, dark = _finite(mean, paint(PLAN, 1.0, 1))
    return [
        Lines('plan', ends, dark, _THICK * setting.size),
        Lines('object paths', paths, faded, _THIN * setting.size),
        Spheres('object spread', where[kept], dots[kept], _DOT * setting.size),
    ]


def ramp(costs: Array) -> Array:
    """Return colours (n, 3) from the cheapest, green, over yellow to the dearest, red."""
    if len(costs) == 0:
        return np.empty((0, 3))
    low, high = costs.min(), costs.max()
    level = (costs - low) / (high - low) if high > low else np.zeros(len(costs))
    table: tuple[Color, ...] = (GOOD, FAIR, BAD)
    return np.column_stack(
        [np.interp(level, [0.0, 0.5, 1.0], part) for part in zip(*table, strict=True)]
    )


def _finite(paths: Array, colors: Array) -> tuple[Array, Array]:
    """Return the segments (n, 2, 3) of paths that have finite ends, and their colours (n, 4)."""
    ends = strips(paths)
    painted = np.repeat(colors, max(paths.shape[1] - 1, 0), axis=0)
    kept = np.isfinite(ends).all(axis=(1, 2))
    return ends[kept], painted[kept]
