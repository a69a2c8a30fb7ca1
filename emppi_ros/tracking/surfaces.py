"""Points on the surfaces of parts."""

from collections.abc import Sequence
import copy
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial import cKDTree

from emppi_ros.core.arrays import Array, Ints
from emppi_ros.model import scene
from emppi_ros.tracking import renderer
from emppi_ros.tracking.equations import Shape
from emppi_ros.tracking.renderer import NOTHING

_ORIGINS = 60  # from which rays are cast at a part


class Surface(NamedTuple):
    """Points (n, 3) on the surface of a part and their outward normals (n, 3), in its frame."""

    points: Array
    normals: Array
    tree: cKDTree

    @property
    def shape(self) -> Shape:
        """Centre and size of the part."""
        centre = 0.5 * (self.points.min(axis=0) + self.points.max(axis=0))
        middle = self.points.mean(axis=0)
        return Shape(centre, float(np.linalg.norm(self.points - middle, axis=1).mean()))


def sample_surfaces(
    model: mujoco.MjModel, bodies: Sequence[int], count: int = 1500
) -> list[Surface]:
    """Return points, `count` of each part, on what is visible from outside."""
    data = scene.kinematics(model, model.qpos0)
    of_body, visible = renderer.part_of_bodies(model, bodies), renderer.is_visible(model)
    surfaces = []
    for part, body in enumerate(bodies):
        own = visible & (of_body[model.geom_bodyid] == part)
        alone = copy.copy(model)
        renderer.hide(alone, ~own)
        points, normals = _cast_inwards(alone, data, np.flatnonzero(own), count)
        turn = data.xmat[body].reshape(3, 3)
        local = (points - data.xpos[body]) @ turn
        surfaces.append(Surface(local, normals @ turn, cKDTree(local)))
    return surfaces


def _cast_inwards(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: Ints, count: int
) -> tuple[Array, Array]:
    """Return points and normals (count, 3) that rays from around some geoms hit."""
    rng = np.random.default_rng(0)
    centres, radii = data.geom_xpos[geoms], model.geom_rbound[geoms]
    middle = centres.mean(axis=0)
    far = 1.5 * float(np.max(np.linalg.norm(centres - middle, axis=1) + radii))
    points, normals, total = [], [], 0
    boxes, turns = model.geom_aabb[geoms], data.geom_xmat[geoms].reshape(-1, 3, 3)
    while total < count:
        away = rng.normal(size=3)
        origin = middle + far * away / np.linalg.norm(away)
        aimed = rng.integers(len(geoms), size=4 * count // _ORIGINS)
        inside = boxes[aimed, :3] + rng.uniform(-1, 1, (len(aimed), 3)) * boxes[aimed, 3:]
        target = centres[aimed] + np.einsum('bij,bj->bi', turns[aimed], inside)
        directions = target - origin
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        hit, distance, normal = renderer.cast(model, data, origin, directions)
        is_hit = hit != NOTHING
        points.append(origin + directions[is_hit] * distance[is_hit, None])
        normals.append(normal[is_hit])
        total += int(is_hit.sum())
    chosen = rng.permutation(total)[:count]
    return np.concatenate(points)[chosen], np.concatenate(normals)[chosen]
