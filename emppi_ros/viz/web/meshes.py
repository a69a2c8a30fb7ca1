"""A scene's geoms as triangles, in their own frames, with the colours that MuJoCo gives them."""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
import trimesh

Array = npt.NDArray[np.float64]
GEOM = mujoco.mjtGeom
_DEFAULT = (0.5, 0.5, 0.5, 1.0)  # MuJoCo's grey: a material's colour counts in its place
_AROUND, _DOTS = 24, 2  # sides of what is round; how often an icosphere's faces are divided
_BORDER = 3.0  # of the scene's extent: half of an endless plane's side


class Mesh(NamedTuple):
    """Triangles of one colour, which hang on a body."""

    body: int
    name: str
    vertices: Array  # (n, 3) m, in the body's frame
    faces: npt.NDArray[np.int32]  # (m, 3)
    color: tuple[float, float, float, float]


def visible(model: mujoco.MjModel) -> list[int]:
    """Return the geoms that MuJoCo draws if nobody tells it otherwise."""
    shown = mujoco.MjvOption().geomgroup
    return [
        i
        for i in range(model.ngeom)
        if shown[np.clip(model.geom_group[i], 0, len(shown) - 1)] and color(model, i)[3] > 0.0
    ]


def of_scene(model: mujoco.MjModel) -> tuple[list[Mesh], list[str]]:
    """Return the meshes of all that is visible, and the names of geoms that have no triangles."""
    found, missing = [], []
    for geom in visible(model):
        name = model.geom(geom).name or f'geom {geom}'
        shape = of_geom(model, geom)
        if shape is None:
            missing.append(f'{name} ({GEOM(model.geom_type[geom]).name})')
            continue
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        vertices = shape.vertices @ turn.reshape(3, 3).T + model.geom_pos[geom]
        body = int(model.geom_bodyid[geom])
        faces = np.asarray(shape.faces, np.int32)
        found.append(Mesh(body, f'{geom} {name}', vertices, faces, color(model, geom)))
    return found, missing


def of_geom(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh | None:
    """Return a geom's surface in its own frame; None for kinds that are not drawn."""
    size, kind = model.geom_size[geom], GEOM(model.geom_type[geom])
    if kind == GEOM.mjGEOM_MESH:
        return _of_mesh(model, int(model.geom_dataid[geom]))
    if kind == GEOM.mjGEOM_PLANE:
        sides = np.where(size[:2] > 0.0, size[:2], _BORDER * model.stat.extent)
        corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * [*sides, 0.0]
        return trimesh.Trimesh(corners, [[0, 1, 2], [0, 2, 3]], process=False)
    if kind == GEOM.mjGEOM_BOX:
        return trimesh.creation.box(extents=2.0 * size)
    if kind == GEOM.mjGEOM_CYLINDER:
        return trimesh.creation.cylinder(size[0], 2.0 * size[1], sections=_AROUND)
    if kind in (GEOM.mjGEOM_SPHERE, GEOM.mjGEOM_ELLIPSOID):
        radii = size if kind == GEOM.mjGEOM_ELLIPSOID else size[:1]
        return trimesh.creation.icosphere(_DOTS).apply_scale(radii)
    if kind == GEOM.mjGEOM_CAPSULE:
        shape = trimesh.creation.capsule(2.0 * size[1], size[0], count=(_AROUND, _AROUND))
        return shape.apply_translation(-shape.bounds.mean(axis=0))
    return None


def _of_mesh(model: mujoco.MjModel, mesh: int) -> trimesh.Trimesh:
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    face, many = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
    return trimesh.Trimesh(
        model.mesh_vert[first : first + count],
        model.mesh_face[face : face + many],
        process=False,
    )


def color(model: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    """Return red, green, blue and opacity, from 0 to 1; a picture on it counts by its mean."""
    rgba, material = model.geom_rgba[geom].astype(float), int(model.geom_matid[geom])
    if material >= 0 and np.array_equal(rgba, _DEFAULT):
        rgba = model.mat_rgba[material].astype(float)
    if material >= 0:
        rgba[:3] *= _mean(model, material)
    return tuple(rgba.tolist())


def _mean(model: mujoco.MjModel, material: int) -> Array:
    """Return the mean colour (3,) of a material's picture, white if it has none."""
    texture = int(model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB.value])
    if texture < 0:
        return np.ones(3)
    channels, first = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
    count = int(model.tex_height[texture] * model.tex_width[texture]) * channels
    pixels = model.tex_data[first : first + count].reshape(-1, channels)
    return pixels[:, :3].mean(axis=0) / 255.0
