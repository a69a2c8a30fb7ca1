"""
Coloured triangles to pixels: every pixel blends what covers it, the farthest first.

Transparent things that lie in one another come out right, which sorting whole triangles by
their depth cannot do. There is no light and no shadow.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Image = npt.NDArray[np.uint8]
FINE = 2  # samples per pixel, each way


class Patches(NamedTuple):
    """Triangles as they are seen, each of one colour."""

    corners: Array  # (n, 3, 2) px, to the right and down
    depths: Array  # (n, 3) m, above 0
    colors: Array  # (n, 4) red, green, blue, opacity


def paint(patches: Patches, behind: Image) -> Image:
    """Return a picture (height, width, 3) with triangles over it."""
    height, width = FINE * behind.shape[0], FINE * behind.shape[1]
    canvas = behind.repeat(FINE, axis=0).repeat(FINE, axis=1).reshape(-1, 3) / 255.0
    found = [
        _fragments(FINE * corners, depth, width, height)
        for corners, depth in zip(patches.corners, patches.depths, strict=True)
    ]
    counts = [len(where) for where, _ in found]
    if sum(counts) > 0:
        where = np.concatenate([places for places, _ in found])
        depths = np.concatenate([depth for _, depth in found])
        _blend(canvas, where, depths, patches.colors.repeat(counts, axis=0))
    fine = canvas.reshape(behind.shape[0], FINE, behind.shape[1], FINE, 3)
    return np.round(255.0 * fine.mean(axis=(1, 3))).astype(np.uint8)


def _fragments(corners: Array, depths: Array, width: int, height: int) -> tuple[Array, Array]:
    """Return which samples a triangle (3, 2) covers, as flat indices (n,), and their depths."""
    low = np.maximum(np.floor(corners.min(axis=0)), 0).astype(int)
    high = np.minimum(np.ceil(corners.max(axis=0)), [width, height]).astype(int)
    (a, b, c), nothing = corners, (np.empty(0, dtype=int), np.empty(0))
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    if area == 0.0 or np.any(high <= low):
        return nothing
    x, y = np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1]))
    right, down = x.ravel() + 0.5 - a[0], y.ravel() + 0.5 - a[1]
    of_b = (right * (c[1] - a[1]) - down * (c[0] - a[0])) / area
    of_c = (down * (b[0] - a[0]) - right * (b[1] - a[1])) / area
    # an edge that two triangles share belongs to one of them: from 0, below 1
    inside = (of_b >= 0.0) & (of_c >= 0.0) & (of_b + of_c < 1.0)
    parts = np.column_stack([1.0 - of_b - of_c, of_b, of_c])[inside]
    where = (y.ravel() * width + x.ravel())[inside]
    return where, 1.0 / (parts @ (1.0 / depths))  # in a picture, 1 / depth is what is linear


def _blend(canvas: Array, where: Array, depths: Array, colors: Array) -> None:
    """Blend colours (n, 4) into samples of a canvas (samples, 3), the farthest first."""
    order = np.lexsort((-depths, where))
    where, colors = where[order], colors[order]
    first = np.flatnonzero(np.diff(where, prepend=-1))  # of each sample's run
    runs = np.diff(first, append=len(where))
    for layer in range(int(runs.max())):
        here = first[runs > layer] + layer
        alpha = colors[here, 3:]
        canvas[where[here]] += alpha * (colors[here, :3] - canvas[where[here]])
