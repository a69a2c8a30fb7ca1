"""Noise of depth cameras that match two images: of disparity, at edges, and holes."""

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.tasks.schema import DepthCameraConfig


def add_noise(settings: DepthCameraConfig, depth: Array, rng: np.random.Generator) -> Array:
    """Return what the camera measures of true depths (h, w) [m]; NaN where it measures nothing."""
    scale = settings.baseline_m * settings.focal_px
    disparity = scale / depth + rng.normal(0.0, settings.disparity_sd_px, depth.shape)
    if settings.disparity_step_px:
        step = settings.disparity_step_px
        disparity = step * np.round(disparity / step)
    with np.errstate(divide='ignore'):
        result = np.where(disparity > 0.0, scale / disparity, np.nan)
    edge = _edges(depth)
    lost = edge & (rng.random(depth.shape) < settings.edge_dropout)
    lost |= rng.random(depth.shape) < settings.dropout
    lost |= _holes(settings, depth.shape, rng)
    return np.where(lost | (result > settings.farthest_m) | ~np.isfinite(depth), np.nan, result)


def _edges(depth: Array) -> Bools:
    """Return pixels beside a jump of depth by more than 2 %, along rows or columns."""
    edge = np.zeros(depth.shape, bool)
    for axis in (0, 1):
        first = np.moveaxis(depth, axis, 0)
        near = np.minimum(first[1:], first[:-1])
        with np.errstate(invalid='ignore'):
            jump = ~(np.abs(first[1:] - first[:-1]) <= 0.02 * near)
        jump &= np.isfinite(near)
        view = np.moveaxis(edge, axis, 0)
        view[1:] |= jump
        view[:-1] |= jump
    return edge


def _holes(settings: DepthCameraConfig, shape: tuple[int, int], rng: np.random.Generator) -> Bools:
    """Return pixels in round holes at random places."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    result = np.zeros(shape, bool)
    for _ in range(rng.poisson(settings.holes)):
        row, column = rng.uniform(0, shape[0]), rng.uniform(0, shape[1])
        radius = rng.exponential(settings.hole_radius_px)
        result |= (rows - row) ** 2 + (columns - column) ** 2 < radius**2
    return result
