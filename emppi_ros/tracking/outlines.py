"""
Occluding outlines: how far the outline of a part in an image is from that of its rendering.

A rendered depth jumps at an outline, so its derivative there is the motion of the outline. The
depths along a line of pixels across it are split into those of the part and those behind it, at
the place where the fewest are on the wrong side.
"""

from typing import NamedTuple

import numpy as np
from scipy import ndimage

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.equations import surface_motion

_SMOOTH_PX = 1.5  # of the mask whose gradient is the direction of an outline
_ALONG = 0.7  # cosine between outline and pixel line: each point is on one line, not on two
_SAME, _STEEP = 0.9, 0.8  # cosines: of two directions of an outline; of its surface and image
_BEHIND_M = 0.3  # what is farther behind counts as so far
_FRONT_M = 0.06  # what is nearer than the part by this much hides it
_WRONG = 0.2  # share of pixels on the wrong side that is still an outline
_WIDEST = 4  # places that fit equally well


class Outline(NamedTuple):
    """Offsets of outlines."""

    part: Ints  # (n,), index of the part
    offset: Array  # (n,), from the rendered to the observed outline, outwards [px]
    slopes: Array  # (n, 6), derivatives of the rendered one by displacements of the part [px]
    ambiguity: Array  # (n,), standard deviation [px] because several places fit equally well


class View(NamedTuple):
    """A window of an image, and what is rendered there."""

    observed: Array  # (h, w), depths [m]; NaN where there is none
    depth: Array  # (h, w), of the parts [m], else of the background; inf where nothing is
    part: Ints  # (h, w), index of the part, negative where none is
    normal: Array  # (h, w, 3), in the world
    rays: Array  # (h, w, 3), of depth 1 in the world


def find_outlines(view: View, camera: Camera, origins: Array, reach: int, gap: Array) -> Outline:
    """
    Return the offsets of the outlines of all parts, up to `reach` pixels.

    `origins` (B, 3) are those of the parts. Outlines count where what is behind is farther by
    more than `gap` (h, w) [m], and as far from the part as it is.
    """
    normals, is_round = _outward(view, camera, len(origins))
    directions = [(axis, sign) for axis in (0, 1) for sign in (1, -1)]
    edges = [_edges(view, normals, axis, sign, gap) for axis, sign in directions]
    # all lines of pixels across outlines in one array: most of the time is that of calls
    axis, sign = np.repeat(directions, [len(pixels) for pixels in edges], axis=0).T
    row, column = np.concatenate(edges).T
    height, width = view.part.shape
    steps = sign[:, None] * np.arange(1 - reach, reach + 1)
    rows = row[:, None] + np.where(axis[:, None] == 0, steps, 0)
    columns = column[:, None] + np.where(axis[:, None] == 1, steps, 0)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    flat = np.clip(rows, 0, height - 1) * width + np.clip(columns, 0, width - 1)
    depths = view.depth.ravel()[flat]
    own = view.part[row, column]
    depth = view.depth[row, column]
    is_own = inside & (view.part.ravel()[flat] == own[:, None])
    # within the part only as far as it reaches, and beyond it not where it begins again
    within = np.cumprod(is_own[:, reach - 1 :: -1], axis=1)[:, ::-1].astype(bool)
    # behind a slit, not what is beside it at the depth of the part
    behind = depths[:, reach:] > (depth + gap[row, column])[:, None]
    beyond = np.cumprod(inside[:, reach:] & ~is_own[:, reach:] & behind, axis=1).astype(bool)
    valid = np.concatenate([within, beyond], axis=1)
    near = np.where(is_own, depths, depth[:, None])
    after = depths[:, reach, None]
    far = np.minimum(np.where(is_own, after, depths), near + _BEHIND_M)
    seen = view.observed.ravel()[flat]
    valid &= np.isfinite(seen) & (seen > near - _FRONT_M)
    is_near = valid & (seen < 0.5 * (near + far))
    is_far = valid & ~is_near
    offset, wrong, places = _split(is_near, is_far, reach)
    count = valid.sum(axis=1)
    good = (count > reach) & (wrong <= _WRONG * count) & (places <= _WIDEST)
    good &= is_near.any(axis=1) & is_far.any(axis=1)
    row, column, depth, own = row[good], column[good], depth[good], own[good]
    ray, normal = view.rays[row, column], normals[row, column]
    points = np.array(camera.position) + ray * depth[:, None]
    along = _image_motion(camera, points, normal)
    # the outline is where the normal is across the ray, less than a pixel away
    length = np.linalg.norm(along, axis=1, keepdims=True)
    along = np.where(is_round[row, column, None], length * view.normal[row, column], along)
    slopes = surface_motion(points, along, origins[own])
    scale = np.abs(np.where(axis[good] == 0, normal[:, 0], normal[:, 1]))
    return Outline(own, offset[good] * scale, slopes, (places[good] - 1) / np.sqrt(12.0))


def _outward(view: View, camera: Camera, count: int) -> tuple[Array, Bools]:
    """
    Return unit vectors (h, w, 2), rows and columns, out of the part of each pixel.

    They are the gradients of smoothed masks, and the projections of normals where these say about
    the same, as on round surfaces (h, w), where they are exact.
    """
    part = view.part
    result = np.zeros((*part.shape, 2))
    for index in range(count):
        mask = part == index
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if not len(rows):
            continue
        box = (
            slice(max(rows[0] - 4, 0), rows[-1] + 5),
            slice(max(columns[0] - 4, 0), columns[-1] + 5),
        )
        if min(mask[box].shape) < 2:
            continue
        soft = ndimage.gaussian_filter(mask[box].astype(float), _SMOOTH_PX, truncate=3.0)
        down, right = (-slope[mask[box]] for slope in np.gradient(soft))
        length = np.sqrt(down**2 + right**2) + 1e-9
        result[box][mask[box]] = np.column_stack([down / length, right / length])
    is_part = part >= 0
    across = view.normal[is_part] @ camera.matrix[:, 1::-1]
    length = np.sqrt(across[:, 0] ** 2 + across[:, 1] ** 2)
    across /= np.maximum(length, 1e-9)[:, None]
    own = result[is_part]
    alike = (np.sum(across * own, axis=1) > _SAME) & (length > _STEEP)
    result[is_part] = np.where(alike[:, None], across, own)
    same = np.zeros(part.shape, bool)
    same[is_part] = alike
    return result, same


def _edges(view: View, normals: Array, axis: int, sign: int, gap: Array) -> Ints:
    """Return rows and columns (n, 2) of the last pixels of parts before something far behind."""
    part, depth = view.part, view.depth
    here, there = [slice(None)] * 2, [slice(None)] * 2
    here[axis], there[axis] = (slice(None, -1), slice(1, None))[::sign]
    a, b = tuple(here), tuple(there)
    edge = np.zeros(part.shape, bool)
    edge[a] = (part[a] >= 0) & (part[b] != part[a]) & (depth[b] > depth[a] + gap[a])
    edge &= sign * normals[..., axis] > _ALONG
    return np.argwhere(edge)


def _split(is_near: Bools, is_far: Bools, reach: int) -> tuple[Array, Ints, Ints]:
    """Return where near ends, how many pixels are on the wrong side, and how many such places."""
    start = np.zeros((len(is_near), 1), int)
    far_before = np.concatenate([start, np.cumsum(is_far, axis=1)], axis=1)
    near_before = np.concatenate([start, np.cumsum(is_near, axis=1)], axis=1)
    wrong = far_before + near_before[:, -1:] - near_before
    least = wrong.min(axis=1)
    best = wrong == least[:, None]
    places = best.sum(axis=1)
    offset = (best * np.arange(2 * reach + 1)).sum(axis=1) / places - reach
    return offset, least, places


def _image_motion(camera: Camera, points: Array, normal: Array) -> Array:
    """Return vectors (n, 3) whose products with motions of points are those in the image [px]."""
    local = (points - np.array(camera.position)) @ camera.matrix
    z = local[:, 2]
    down, right = camera.fy * normal[:, 0], camera.fx * normal[:, 1]
    ahead = -(right * local[:, 0] + down * local[:, 1]) / z
    return np.stack([right, down, ahead], axis=1) / z[:, None] @ camera.matrix.T
