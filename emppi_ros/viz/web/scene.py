"""The scene in the browser: geoms as meshes of their colours, which move with their bodies."""

from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
import trimesh

from emppi_ros.core.arrays import Array
from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.task import Task
from emppi_ros.viz import renderer
from emppi_ros.viz.shapes import scene_extent

GEOM = mujoco.mjtGeom
_NEAREST = 0.1  # m, from the camera to the point that the mouse turns the scene about
_ASIDE, _ABOVE, _BACK = 0.25, 0.15, 1.75  # of the scene's extent; of the camera's own distance
_ASPECT = 0.8  # width over height of what the panels leave, on a common screen
_LEGIBLE = 0.42  # of the picture's height: histograms are 110 px apart if that is 800 px
_DEFAULT = (0.5, 0.5, 0.5, 1.0)  # MuJoCo's default grey: a material's colour replaces it
_SECTIONS, _SUBDIVISIONS = 24, 2  # of round geoms; of an icosphere
_PLANE = 3.0  # half the side of an infinite plane, of the model's extent


class Mesh(NamedTuple):
    """Triangles of one colour that move with a body."""

    body: int
    name: str
    vertices: Array  # (n, 3) m, in the body's frame
    faces: npt.NDArray[np.int32]  # (m, 3)
    color: tuple[float, float, float, float]


class InitialView(NamedTuple):
    """Where the camera of a new client is."""

    position: Array  # (3,) m
    at: Array  # (3,) m, the point that it looks at
    fovy: float  # rad, vertical field of view

    def legible_size(self) -> float:
        """Return the size of a scene [m] whose histograms have room for their texts."""
        distance = float(np.linalg.norm(self.at - self.position))
        return _LEGIBLE * 2.0 * distance * float(np.tan(0.5 * self.fovy))


class BrowserScene:
    """Robot and objects of a task in the browser: one node a body."""

    def __init__(self, server: Any, task: Task, theta: Array | None) -> None:
        """Send all meshes once; true parameters (P,), if known, also set the kinds of joints."""
        model = task.visual_model()
        self.model = model if theta is None else with_parameters(model, task.parameters, theta)
        self.data, self._server = mujoco.MjData(self.model), server
        self._nodes: dict[int, Any] = {}
        for mesh in scene_meshes(self.model):
            if mesh.body not in self._nodes:
                self._nodes[mesh.body] = server.scene.add_frame(
                    f'/bodies/{mesh.body}', show_axes=False
                )
            red, green, blue, opacity = mesh.color
            server.scene.add_mesh_simple(
                f'/bodies/{mesh.body}/{mesh.name.replace("/", " ")}',
                mesh.vertices,
                mesh.faces,
                color=(red, green, blue),
                opacity=None if opacity >= 1.0 else opacity,
                flat_shading=len(mesh.faces) <= 12,
            )

    def show(self, qpos: Array, mocap_quat: Array) -> None:
        """Move all bodies to a configuration (nq,) and mocap orientations (n, 4)."""
        self.data.qpos[:] = qpos
        self.data.mocap_quat[:] = mocap_quat
        mujoco.mj_kinematics(self.model, self.data)
        with self._server.atomic():
            for body, node in self._nodes.items():
                node.position = self.data.xpos[body]
                node.wxyz = self.data.xquat[body]

    def initial_view(self, task: Task) -> InitialView:
        """Return the view of `emppi markers`, from farther away: panels leave less room."""
        camera = renderer.task_camera(task, self.model, task.start().qpos)
        if camera is None:
            camera = renderer.framing_camera(task, self.model, _ASPECT)
            pose = renderer.camera_pose(self.model, self.data.qpos, camera)
            return InitialView(pose.position, camera.lookat.copy(), pose.fovy)
        pose = renderer.camera_pose(self.model, self.data.qpos, camera)
        forward, (size, right) = -pose.axes[2], scene_extent.scene_extent(task)
        at = scene_extent.belief_anchor(task, self.data) + size * (
            _ASIDE * right + _ABOVE * scene_extent.UP
        )
        distance = max(float((at - pose.position) @ forward), _NEAREST)
        return InitialView(at - _BACK * distance * forward, at, pose.fovy)

    def remove(self) -> None:
        """Remove all nodes."""
        for node in self._nodes.values():
            node.remove()


def visible(model: mujoco.MjModel) -> list[int]:
    """Return the geoms that MuJoCo draws by default."""
    shown = mujoco.MjvOption().geomgroup
    return [
        i
        for i in range(model.ngeom)
        if shown[np.clip(model.geom_group[i], 0, len(shown) - 1)] and geom_color(model, i)[3] > 0.0
    ]


def scene_meshes(model: mujoco.MjModel) -> list[Mesh]:
    """Return the meshes of all visible geoms but those of types that are not supported."""
    meshes = []
    for geom in visible(model):
        shape = geom_surface(model, geom)
        if shape is None:
            continue
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        vertices = shape.vertices @ rotation.reshape(3, 3).T + model.geom_pos[geom]
        body, name = int(model.geom_bodyid[geom]), model.geom(geom).name or f'geom {geom}'
        faces = np.asarray(shape.faces, np.int32)
        meshes.append(Mesh(body, f'{geom} {name}', vertices, faces, geom_color(model, geom)))
    return meshes


def geom_surface(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh | None:
    """Return the surface of a geom in its frame; None for types that are not supported."""
    size, kind = model.geom_size[geom], GEOM(model.geom_type[geom])
    if kind == GEOM.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        first, face = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
        vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
        faces = model.mesh_face[face : face + model.mesh_facenum[mesh]]
        return trimesh.Trimesh(vertices, faces, process=False)
    if kind == GEOM.mjGEOM_PLANE:
        sides = np.where(size[:2] > 0.0, size[:2], _PLANE * model.stat.extent)
        corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * [*sides, 0.0]
        return trimesh.Trimesh(corners, [[0, 1, 2], [0, 2, 3]], process=False)
    if kind == GEOM.mjGEOM_BOX:
        return trimesh.creation.box(extents=2.0 * size)
    if kind == GEOM.mjGEOM_CYLINDER:
        return trimesh.creation.cylinder(size[0], 2.0 * size[1], sections=_SECTIONS)
    if kind in (GEOM.mjGEOM_SPHERE, GEOM.mjGEOM_ELLIPSOID):
        radii = size if kind == GEOM.mjGEOM_ELLIPSOID else size[:1]
        return trimesh.creation.icosphere(_SUBDIVISIONS).apply_scale(radii)
    if kind == GEOM.mjGEOM_CAPSULE:
        shape = trimesh.creation.capsule(2.0 * size[1], size[0], count=(_SECTIONS, _SECTIONS))
        return shape.apply_translation(-shape.bounds.mean(axis=0))
    return None


def geom_color(model: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    """Return red, green, blue and opacity of a geom, from 0 to 1; a texture counts by its mean."""
    rgba, material = model.geom_rgba[geom].astype(float), int(model.geom_matid[geom])
    if material >= 0 and np.array_equal(rgba, _DEFAULT):
        rgba = model.mat_rgba[material].astype(float)
    if material >= 0:
        rgba[:3] *= _mean_texture(model, material)
    return tuple(rgba.tolist())


def _mean_texture(model: mujoco.MjModel, material: int) -> Array:
    """Return the mean colour (3,) of a material's texture, white if it has none."""
    texture = int(model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB.value])
    if texture < 0:
        return np.ones(3)
    channels, first = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
    count = int(model.tex_height[texture] * model.tex_width[texture]) * channels
    pixels = model.tex_data[first : first + count].reshape(-1, channels)
    return pixels[:, :3].mean(axis=0) / 255.0
