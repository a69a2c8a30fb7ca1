"""
Normal equations of a part's pose: small displacements that make its rendering fit an image.

A displacement is (v, w): of the origin of the part [m], and a rotation vector [rad], both along
the axes of the world. The depth of a pixel on a surface with normal n at the point X, seen along
the ray r (of depth 1), changes by n.(v + w x (X - p)) / (n.r).
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array

UNSEEN_RAD = np.pi / np.sqrt(3.0)  # standard deviation of an unknown angle
_FLAT = 0.15  # cosine between ray and normal below which depth is too steep to compare
_LARGEST_SD = 0.1  # of the radius, or rad, of what counts as seen
_RELATIVE = 3e-4  # information relative to the direction that is seen best
_LARGEST_STEP = 0.5  # of the radius


class PoseEquations(NamedTuple):
    """
    Gauss-Newton's equations of one part (n = 6), or of joints.

    Attributes
    ----------
    information : (n, n) array
        Sum of J' W J.
    gradient : (n,) array
        Sum of J' W e.

    """

    information: Array
    gradient: Array

    def __add__(self, other: object) -> 'PoseEquations':
        """Return the equations of two sets of measurements."""
        assert isinstance(other, PoseEquations)
        return PoseEquations(self.information + other.information, self.gradient + other.gradient)


class Shape(NamedTuple):
    """Centre (3,) of a part in its frame [m], and its size: mean distance of its surface [m]."""

    centre: Array
    radius: float


def make_equations(slopes: Array, errors: Array, weights: Array) -> PoseEquations:
    """Return the equations of slopes (n, 6), errors (n,) and weights (n,)."""
    weighted = slopes * weights[:, None]
    return PoseEquations(weighted.T @ slopes, weighted.T @ errors)


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


class Displacement(NamedTuple):
    """
    A step of a pose (n = 6), or of joints.

    Attributes
    ----------
    step : (n,) array
        Displacement of the origin, and rotation.
    covariance : (n, n) array
        Of the displacement; large in directions that the image does not show.
    seen : (n, n) array
        Projection of displacements on directions that the image shows.

    """

    step: Array
    covariance: Array
    seen: Array


def solve(
    equations: PoseEquations, information: Array, centre: Array, radius: float
) -> Displacement:
    """
    Return the step of a pose along directions that the image shows.

    Directions are those of displacements of the part's centre, which lies at `centre` (3,) from
    its origin, and of rotations times its radius. Those that would be known to less than a tenth
    of the radius, or far less than others, are left out. `information` (6, 6) says how well: it is
    less than that of the equations if their errors are correlated.
    """
    return solve_along(equations, information, centred(centre, radius), radius)


def solve_along(
    equations: PoseEquations, information: Array, basis: Array, radius: float
) -> Displacement:
    """
    Return the step along directions that are shown, as `solve` does, of any n coordinates.

    `basis` (n, n) takes displacements of surfaces [m] to the coordinates.
    """
    values, vectors = np.linalg.eigh(basis.T @ information @ basis)
    shown = values > max((_LARGEST_SD * radius) ** -2, _RELATIVE * values[-1])
    safe = np.where(shown, values, 1.0)
    along = basis @ vectors[:, shown]
    step = vectors[:, shown] @ np.linalg.solve(
        along.T @ equations.information @ along, along.T @ equations.gradient
    )
    step *= min(1.0, _LARGEST_STEP * radius / max(float(np.linalg.norm(step)), 1e-12))
    variance = np.where(shown, 1.0 / safe, (UNSEEN_RAD * radius) ** 2)
    covariance = (vectors * variance) @ vectors.T
    projection = (vectors * shown) @ vectors.T
    return Displacement(
        basis @ step,
        basis @ covariance @ basis.T,
        basis @ projection @ np.linalg.inv(basis),
    )


def centred(centre: Array, radius: float) -> Array:
    """Return the matrix (6, 6) from displacements of the centre and radius times rotations."""
    result = np.eye(6)
    x, y, z = centre
    result[:3, 3:] = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    result[:, 3:] /= radius
    return result


def displace(position: Array, rotation: Array, step: Array) -> tuple[Array, Array]:
    """Return position (3,) and rotation matrix (3, 3) after a displacement (6,)."""
    return position + step[:3], Rotation.from_rotvec(step[3:]).as_matrix() @ rotation
