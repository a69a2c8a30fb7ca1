"""
Geometric primitives in the robot's frame, from which markers and pictures are made.

Colours are rows of red, green, blue and opacity, from 0 to 1; lengths are in metres.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.viz.palette import SHEET, TEXT, Color

SHEET_ALPHA = 0.7  # of sheets behind text
# in heights of a letter: sheet for each letter and each line; how far it is behind the text,
_ACROSS, _DOWN, _BEHIND = 0.9, 2.0, 0.8  # which turns towards the camera, while sheets do not


class Lines(NamedTuple):
    """Line segments."""

    name: str  # marker namespace
    ends: Array  # (n, 2, 3) m
    colors: Array  # (n, 4)
    width: float  # m


class Triangles(NamedTuple):
    """Filled triangles, visible from both sides."""

    name: str
    corners: Array  # (n, 3, 3) m
    colors: Array  # (n, 4)


class Spheres(NamedTuple):
    """Spheres of one size."""

    name: str
    centres: Array  # (n, 3) m
    colors: Array  # (n, 4)
    diameter: float  # m


class Label(NamedTuple):
    """Text that faces the camera."""

    name: str
    position: Array  # (3,) m, of its centre
    text: str
    height: float  # m, of a capital letter
    color: Color = TEXT


Shape = Lines | Triangles | Spheres | Label
Shapes = Sequence[Shape]


def rgba(color: Color, alpha: float | Array, count: int | None = None) -> Array:
    """Return rows (n, 4) of one colour; `alpha` is one opacity for `count` rows, or (n,)."""
    opacity = np.full(count, alpha) if count is not None else np.asarray(alpha, dtype=float)
    return np.column_stack([np.tile(color, (len(opacity), 1)), opacity])


def segments(points: Array) -> Array:
    """Return the segments (n * (H - 1), 2, 3) of polylines through points (n, H, 3)."""
    return np.stack([points[:, :-1], points[:, 1:]], axis=2).reshape(-1, 2, 3)


def rectangles(low: Array, high: Array, right: Array, up: Array) -> Array:
    """Return triangles (2 n, 3, 3) of rectangles from corners (n, 2) along `right` and `up`."""
    corners = low.T, (high[:, 0], low[:, 1]), high.T, (low[:, 0], high[:, 1])
    a, b, c, d = (np.outer(x, right) + np.outer(y, up) for x, y in corners)
    return np.stack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)], 1).reshape(-1, 3, 3)


def sheets(name: str, labels: Sequence[Label], right: Array, up: Array) -> Triangles:
    """Return a sheet behind each label that has text, for contrast with the scene."""
    triangles = [np.empty((0, 3, 3))]
    for label in (label for label in labels if label.text):
        lines = label.text.split('\n')
        half = 0.5 * np.array([[_ACROSS * max(map(len, lines)), _DOWN * len(lines)]])
        flat = rectangles(-half, half, right, up) + _BEHIND * np.cross(up, right)
        triangles.append(label.position + label.height * flat)
    corners = np.concatenate(triangles)
    return Triangles(name, corners, rgba(SHEET, SHEET_ALPHA, len(corners)))
