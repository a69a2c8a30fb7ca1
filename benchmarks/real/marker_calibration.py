"""
Markers of a filmed double pendulum that are not on its axes, found because links are rigid.

A marker is off by a constant in the image (pivot, and tip against elbow), or by a constant in the
frame of the upper link (elbow). The distances between the axes are constant, which determines all
of these, without a model of the motion.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from emppi_ros.core.arrays import Array

Complex = npt.NDArray[np.complex128]
_OUTLIER_PX = 1.0  # deviations from which on they count less


class MarkerOffsets(NamedTuple):
    """Where axes are, seen from the markers, in pixels; first coordinate + i second."""

    pivot: complex  # in the image
    elbow: complex  # along the upper link, and across
    tip: complex  # in the image


def find_offsets(pixels: Array) -> MarkerOffsets:
    """Return the offsets with which distances vary least, from markers (n, 6)."""
    upper, lower = _lengths(_points(pixels))
    start = np.concatenate([np.zeros(6), [np.median(upper), np.median(lower)]])

    def residuals(unknown: Array) -> Array:
        lengths = _lengths(_axes(_points(pixels), _offsets(unknown)))
        return np.concatenate([lengths[0] - unknown[6], lengths[1] - unknown[7]])

    solution = least_squares(residuals, start, loss='soft_l1', f_scale=_OUTLIER_PX)
    return _offsets(solution.x)


def link_angles(pixels: Array, offsets: MarkerOffsets) -> tuple[Array, Array]:
    """Return the angles (n,) of both links against the first axis of the image, unwrapped."""
    pivot, elbow, tip = _axes(_points(pixels), offsets)
    return np.unwrap(np.angle(elbow - pivot)), np.unwrap(np.angle(tip - elbow))


def _points(pixels: Array) -> Complex:
    """Return the markers (3, n)."""
    return np.asarray((pixels[:, 0::2] + 1j * pixels[:, 1::2]).T)


def _offsets(unknown: Array) -> MarkerOffsets:
    return MarkerOffsets(*(complex(*unknown[i : i + 2]) for i in (0, 2, 4)))


def _axes(markers: Complex, offsets: MarkerOffsets) -> tuple[Complex, Complex, Complex]:
    pivot = markers[0] + offsets.pivot
    along = markers[1] - pivot
    elbow = markers[1] + offsets.elbow * along / np.abs(along)
    return pivot, elbow, markers[2] + offsets.tip


def _lengths(axes: tuple[Complex, ...] | Complex) -> tuple[Array, Array]:
    return np.abs(axes[1] - axes[0]), np.abs(axes[2] - axes[1])
