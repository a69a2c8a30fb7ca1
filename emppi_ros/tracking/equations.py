"""
Normal equations of a part's pose: small displacements that make its rendering fit an image.

A displacement is (v, w): of the origin of the part [m], and a rotation vector [rad], both along
the axes of the world. The depth of a pixel on a surface with normal n at the point X, seen along
the ray r (of depth 1), changes by n.(v + w x (X - p)) / (n.r).
"""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools

UNSEEN_RAD = np.pi / np.sqrt(3.0)  # standard deviation of an unknown angle
_FLAT = 0.15  # cosine between ray and normal below which depth is too steep to compare
_LARGEST_SD = 0.1  # of the radius, or rad, of what counts as seen
_RELATIVE = 3e-4  # information relative to the direction that is seen best
_LARGEST_STEP = 0.5  # of the radius
_LAGS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64)  # px, at which errors are compared
_SIGNIFICANT = 3.0  # standard deviations of a correlation of independent errors
_SMALL = 0.1  # correlation from which on pixels count as independent
_LARGEST_SHARE = 0.5  # of the squared errors, that fitted coordinates have taken, at most


class PoseEquations(NamedTuple):
    """Gauss-Newton's equations of one part (n = 6), or of joints."""

    information: Array  # (n, n), sum of J' W J
    gradient: Array  # (n,), sum of J' W e
    known: Array  # (n, n), less than the information if errors of neighbours are correlated


NOTHING_KNOWN = PoseEquations(np.zeros((6, 6)), np.zeros(6), np.zeros((6, 6)))


class Shape(NamedTuple):
    """Centre (3,) of a part in its frame [m], and its size: mean distance of its surface [m]."""

    centre: Array
    radius: float


def make_equations(slopes: Array, errors: Array, weights: Array) -> PoseEquations:
    """Return the equations of slopes (n, 6), independent errors (n,) and weights (n,)."""
    weighted = slopes * weights[:, None]
    information = weighted.T @ slopes
    return PoseEquations(information, weighted.T @ errors, information)


def depth_slopes(points: Array, normals: Array, rays: Array, origin: Array) -> Array:
    """
    Return derivatives (n, 6) of depths with respect to displacements of the part.

    `points`, `normals` and `rays` (n, 3) are those of the rendering, `origin` (3,) is that of the
    part. Rows are zero where the surface is seen too flatly.
    """
    cosine = np.sum(normals * rays, axis=1)
    steep = np.abs(cosine) > _FLAT * np.linalg.norm(rays, axis=1)
    motion = surface_motion(points, normals, origin)
    return np.where(steep[:, None], motion / np.where(steep, cosine, 1.0)[:, None], 0.0)


def surface_motion(points: Array, directions: Array, origin: Array) -> Array:
    """Return derivatives (n, 6) of the motion of points (n, 3) along directions (n, 3)."""
    (x, y, z), (u, v, w) = (points - origin).T, directions.T
    turns = (y * w - z * v, z * u - x * w, x * v - y * u)  # np.cross takes five times as long
    return np.column_stack([directions, *turns])


def tukey(errors: Array, limit: Array | float) -> Array:
    """Return Tukey's weights of errors: 1 at 0, and 0 from the limit on."""
    ratio = errors / limit
    return np.where(np.abs(ratio) < 1.0, (1.0 - ratio**2) ** 2, 0.0)


def count_alike(errors: Array, valid: Bools, fitted: int) -> float:
    """
    Return how many pixels have errors that are as one: 1 if they are independent.

    It is the sum of the correlations of a pixel with all others, as a function of their distance.
    `errors` (h, w), in units of their noise, count where `valid`; `fitted` coordinates were
    estimated from them, which made them smaller.
    """
    count = int(valid.sum())
    kept = np.where(valid, errors, 0.0)
    # errors that are far below their noise are no evidence that it is correlated
    variance = max(float(np.sum(kept**2)) / max(count, 1), _LARGEST_SHARE**2)
    distances, correlations = [0.5], [1.0]
    for lag in _LAGS:
        products, pairs = 0.0, 0
        for here, there in (
            ((slice(lag, None), slice(None)), (slice(None, -lag), slice(None))),
            ((slice(None), slice(lag, None)), (slice(None), slice(None, -lag))),
        ):
            products += float(np.sum(kept[here] * kept[there]))
            pairs += int(np.sum(valid[here] & valid[there]))
        correlation = products / max(pairs * variance, 1.0)
        distances.append(lag)
        correlations.append(max(correlation, 0.0))
        if correlation < max(_SMALL, _SIGNIFICANT / np.sqrt(max(pairs, 1))):
            break
    area = 2.0 * np.pi * np.array(distances) * correlations
    if len(correlations) == 2:  # none
        return 1.0
    alike = 1.0 + 0.5 * area[1] + float(np.trapezoid(area[1:], distances[1:]))
    share = min(fitted * alike / count, _LARGEST_SHARE)
    # the coordinates have made both the variance and its correlations smaller
    return min(alike, _LARGEST_SHARE * count / max(fitted, 1)) / (1.0 - share) ** 2


class Displacement(NamedTuple):
    """A step of a pose (n = 6), or of joints."""

    step: Array  # (n,)
    covariance: Array  # (n, n), large in directions that the image does not show
    seen: Array  # (n, n), projection of displacements on directions that the image shows


def solve(equations: PoseEquations, centre: Array, radius: float) -> Displacement:
    """
    Return the step of a pose along directions that the image shows.

    Directions are those of displacements of the part's centre, which lies at `centre` (3,) from
    its origin, and of rotations times its radius. Those that would be known to less than a tenth
    of the radius, or far less than others, are left out.
    """
    return solve_along(equations, centred(centre, radius), radius)


def solve_along(equations: PoseEquations, basis: Array, radius: float) -> Displacement:
    """
    Return the step along directions that are shown, as `solve` does, of any n coordinates.

    `basis` (n, n) takes displacements of surfaces [m] to the coordinates.
    """
    values, vectors = np.linalg.eigh(basis.T @ equations.known @ basis)
    shown = values > max((_LARGEST_SD * radius) ** -2, _RELATIVE * values[-1])
    along = basis @ vectors[:, shown]
    step = vectors[:, shown] @ np.linalg.solve(
        along.T @ equations.information @ along, along.T @ equations.gradient
    )
    step *= min(1.0, _LARGEST_STEP * radius / max(float(np.linalg.norm(step)), 1e-12))
    variance = np.where(shown, 1.0 / np.where(shown, values, 1.0), (UNSEEN_RAD * radius) ** 2)
    covariance = (vectors * variance) @ vectors.T
    projection = (vectors * shown) @ vectors.T
    return Displacement(
        basis @ step, basis @ covariance @ basis.T, basis @ projection @ np.linalg.inv(basis)
    )


def centred(centre: Array, radius: float) -> Array:
    """Return the matrix (6, 6) from displacements of the centre and radius times rotations."""
    result = np.eye(6)
    x, y, z = centre
    result[:3, 3:] = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    result[:, 3:] /= radius
    return result
