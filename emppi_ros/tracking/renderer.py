"""
Depth images by MuJoCo's rays, without OpenGL: of rigid parts, and of what is behind them.

What is behind the parts is fixed, or a robot at its measured joint positions.
"""

from collections.abc import Mapping, Sequence
import copy
import itertools
from typing import Any, NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import SceneError
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tracking.camera import Camera

NOTHING = -1
_GROUPS = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # what MuJoCo draws unless told otherwise
_NEAREST_M, _FARTHEST_M = 0.05, 100.0
_MARGIN_PX = 6  # parts move from one step of a fit to the next
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))  # of a box


class Window(NamedTuple):
    """A part of an image: rows and columns from the first to before the last."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns as slices."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


class RenderedDepth(NamedTuple):
    """What is seen in a window of an image."""

    depth: Array  # (h, w), along the optical axis [m]; inf where nothing is
    part: Ints  # (h, w), index of the part; NOTHING where none is
    normal: Array  # (h, w, 3), outward unit normals in the world


class _CameraRays:
    """Rays of a camera: unit directions (h, w, 3), and their lengths (h, w) at depth 1 m."""

    def __init__(self, camera: Camera) -> None:
        self._origin, rays = np.array(camera.position), camera.rays()
        self._lengths = np.linalg.norm(rays, axis=-1)
        self._directions = rays / self._lengths[..., None]

    def cast(
        self, model: mujoco.MjModel, data: mujoco.MjData, pixels: Any = ...
    ) -> tuple[Ints, Array, Array]:
        """Return geoms, depths [m] (inf: nothing) and normals, by default of all pixels."""
        geom, distance, normal = cast(model, data, self._origin, self._directions[pixels])
        return geom, np.where(geom < 0, np.inf, distance / self._lengths[pixels]), normal


def cast(
    model: mujoco.MjModel, data: mujoco.MjData, origin: Array, directions: Array
) -> tuple[Ints, Array, Array]:
    """Return geom (...), distance (...) [m] and normal (..., 3) for unit directions (..., 3)."""
    shape = directions.shape[:-1]
    count = int(np.prod(shape))
    geom, distance = np.full(count, NOTHING, np.int32), np.full(count, -1.0)
    normal = np.zeros(3 * count)
    if count:
        flat = np.ascontiguousarray(directions).reshape(-1)
        mujoco.mj_multiRay(
            model, data, origin, flat, _GROUPS, True, -1, geom, distance, normal, count,
            _FARTHEST_M,
        )  # fmt: skip
    return (
        geom.reshape(shape).astype(np.int64),
        distance.reshape(shape),
        normal.reshape(*shape, 3),
    )


class PartRenderer:
    """Renders some bodies of a model, each at any pose and with what is welded to it."""

    def __init__(self, model: mujoco.MjModel, bodies: Sequence[int], camera: Camera) -> None:
        """Prepare rays and shapes; SceneError if a part has no visible geom."""
        self._camera, self._rays = camera, _CameraRays(camera)
        self._model, self._data = copy.copy(model), scene.kinematics(model, model.qpos0)
        part_of = part_of_bodies(model, bodies)
        self._part_of_geom = np.where(is_visible(model), part_of[model.geom_bodyid], NOTHING)
        hide(self._model, self._part_of_geom == NOTHING)
        for part, body in enumerate(bodies):
            if not np.any(self._part_of_geom == part):
                raise SceneError(f'body {model.body(body).name!r} has no visible geom (group 0-2)')
        self._geoms = np.flatnonzero(self._part_of_geom != NOTHING)
        welded, data = np.flatnonzero(part_of != NOTHING), self._data
        start = body_poses(data, bodies)
        self._moving = list[tuple[Poses, Ints, Ints, Array, Array]]()
        for index, owner, place, turn in (
            (self._geoms, self._part_of_geom[self._geoms], data.geom_xpos, data.geom_xmat),
            (welded, part_of[welded], data.xipos, data.ximat),
        ):
            local = start.at(owner).inverse() @ Poses(place[index], _matrices(turn[index]))
            self._moving.append((local, index, owner, place, turn))

    def place(self, poses: Poses) -> None:
        """Put the parts at poses (B), which joints need not allow."""
        for local, index, owner, positions, matrices in self._moving:
            moved = poses.at(owner) @ local
            positions[index], matrices[index] = moved.position, moved.rotation.reshape(-1, 9)

    def window(self, margin: int, reach: float = 0.0) -> Window:
        """Return the window with a margin [px] where parts are, or are within reach [m]."""
        corners = _box_corners(self._model, self._data, self._geoms, reach).reshape(1, -1, 3)
        bounds = _bounds(self._camera, corners, margin)
        if bounds is None:
            return Window(0, self._camera.height, 0, self._camera.width)
        return bounds[0]

    def render(self, window: Window | None = None) -> RenderedDepth:
        """Return what is seen of the parts, where `place` put them."""
        pixels = ... if window is None else window.slices
        geom, depth, normal = self._rays.cast(self._model, self._data, pixels)
        part = np.where(geom < 0, NOTHING, self._part_of_geom[geom])
        return RenderedDepth(depth, part, normal)


def render_scene(
    model: mujoco.MjModel, data: mujoco.MjData, camera: Camera, without: Sequence[int] = ()
) -> Array:
    """Return the depth image (h, w) of a scene, inf where nothing is, without some bodies."""
    if without:
        model = copy.copy(model)
        hide(model, part_of_bodies(model, without)[model.geom_bodyid] != NOTHING)
    return _CameraRays(camera).cast(model, data)[1]


def render_background(model: mujoco.MjModel, bodies: Sequence[int], camera: Camera) -> Array:
    """Return the depth image (h, w) of all that is fixed in the world, without the parts."""
    moving = np.flatnonzero(model.body_weldid != 0).tolist()
    data = scene.kinematics(model, model.qpos0)
    return render_scene(model, data, camera, [*moving, *bodies])


class SceneRenderer:
    """Renders a scene again and again, with rays only where something that moves may be seen."""

    def __init__(self, model: mujoco.MjModel, camera: Camera, without: Sequence[int] = ()) -> None:
        """Render what is fixed; bodies in `without`, and what is welded to them, are left out."""
        self._camera, self._rays = camera, _CameraRays(camera)
        self._fixed = render_background(model, without, camera)
        shown = part_of_bodies(model, without)[model.geom_bodyid] == NOTHING
        shown &= model.body_weldid[model.geom_bodyid] != 0
        self._moving = copy.copy(model)
        hide(self._moving, ~shown)
        self._geoms = np.flatnonzero(shown & is_visible(model))

    def render(self, data: mujoco.MjData, window: Window | None = None) -> Array:
        """Return the depth image, or a window of it, in a state with kinematics up to date."""
        bounds = _bounds(self._camera, _box_corners(self._moving, data, self._geoms), 0)
        near = np.full(self._fixed.shape, bounds is None)  # where what moves may be seen
        for box in bounds or ():
            near[box.slices] = True
        part = (slice(None), slice(None)) if window is None else window.slices
        pixels = np.zeros_like(near)
        pixels[part] = near[part]
        depth = self._fixed[part].copy()
        seen = self._rays.cast(self._moving, data, pixels)[1]
        depth[pixels[part]] = np.minimum(depth[pixels[part]], seen)
        return depth


def _box_corners(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: Ints, reach: float = 0.0
) -> Array:
    """Return corners (n, 8, 3) of boxes around geoms, larger by reach [m]; NaN of planes."""
    box = model.geom_aabb[geoms]
    local = box[:, None, :3] + _CORNERS * (box[:, None, 3:] + reach)
    local[model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_PLANE.value] = np.nan
    turn = data.geom_xmat[geoms].reshape(-1, 3, 3)
    return data.geom_xpos[geoms, None] + local @ np.swapaxes(turn, 1, 2)


def _bounds(camera: Camera, corners: Array, margin: int) -> list[Window] | None:
    """Return windows about points (n, k, 3); None if any may be around the camera or behind it."""
    seen = camera.project(corners)
    if not np.all(seen[..., 2] > _NEAREST_M):
        return None
    ends = [camera.width, camera.height]
    first = np.clip(np.floor(seen[..., :2].min(axis=1) - margin), 0, ends).astype(int)
    last = np.clip(np.ceil(seen[..., :2].max(axis=1) + margin) + 1, 0, ends).astype(int)
    return [
        Window(top, bottom, left, right)
        for (left, top), (right, bottom) in zip(first.tolist(), last.tolist(), strict=True)
    ]


def part_of_bodies(model: mujoco.MjModel, bodies: Sequence[int]) -> Ints:
    """Return the part (nbody,) that each body is welded to, as an index; NOTHING for others."""
    part = np.full(model.nbody, NOTHING)
    for body in range(1, model.nbody):
        if body in bodies:
            part[body] = list(bodies).index(body)
        elif model.body_jntnum[body] == 0:
            part[body] = part[model.body_parentid[body]]
    return part


def is_visible(model: mujoco.MjModel) -> Bools:
    """Return which geoms (ngeom,) rays hit: those in groups 0 to 2 that are not transparent."""
    material = model.geom_matid
    alpha = model.geom_rgba[:, 3].copy()
    if model.nmat:
        alpha = np.where(material >= 0, model.mat_rgba[material, 3], alpha)
    return (alpha > 0.0) & (_GROUPS[model.geom_group] > 0)


def hide(model: mujoco.MjModel, geoms: Bools) -> None:
    """Make geoms (ngeom,) transparent, for rays too."""
    model.geom_matid[geoms] = -1
    model.geom_rgba[geoms, 3] = 0.0


def _matrices(flat: Array) -> Array:
    return np.reshape(flat, (-1, 3, 3)).copy()


def body_poses(data: mujoco.MjData, bodies: Sequence[int]) -> Poses:
    """Return the poses of bodies of a model whose kinematics are up to date."""
    index = list(bodies)
    return Poses(data.xpos[index].copy(), _matrices(data.xmat[index]))


class Background:
    """Depth of what is behind the parts [m], inf where there is nothing; it does not change."""

    def __init__(self, depth: Array) -> None:
        self._depth = depth

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image."""
        return self._depth[window.slices]


class MovingBackground(Background):
    """A scene without its parts, at positions of joints; rendered only where it is asked for."""

    def __init__(
        self, model: mujoco.MjModel, bodies: Sequence[int], joints: Sequence[str], camera: Camera
    ) -> None:
        """
        Prepare a scene without some bodies.

        Bodies move with `joints`; those that move otherwise are left out. SceneError if a joint is
        unknown, or no hinge or slide.
        """
        super().__init__(np.full((camera.height, camera.width), np.nan))
        self.joints = tuple(joints)
        index = [scene.find_scalar(model, name) for name in joints]
        self._address = model.jnt_qposadr[index]
        self._model, self._data = model, mujoco.MjData(model)
        moved_by_others = {
            int(body) for joint, body in enumerate(model.jnt_bodyid) if joint not in index
        }
        for body in range(1, model.nbody):
            if model.body_parentid[body] in moved_by_others:
                moved_by_others.add(body)
        self._renderer = SceneRenderer(model, camera, [*bodies, *moved_by_others])
        self._camera = camera
        self._rendered: Window | None = None

    def move(self, positions: Mapping[str, float]) -> None:
        """Move the joints to positions [rad or m]."""
        self._data.qpos[self._address] = [positions[name] for name in self.joints]
        mujoco.mj_kinematics(self._model, self._data)
        self._rendered = None

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image, after `move`."""
        old = self._rendered
        if (
            old is None
            or old.top > window.top or old.bottom < window.bottom
            or old.left > window.left or old.right < window.right
        ):  # fmt: skip
            camera = self._camera
            self._rendered = Window(
                max(window.top - _MARGIN_PX, 0), min(window.bottom + _MARGIN_PX, camera.height),
                max(window.left - _MARGIN_PX, 0), min(window.right + _MARGIN_PX, camera.width),
            )  # fmt: skip
            self._depth[self._rendered.slices] = self._renderer.render(self._data, self._rendered)
        return super().crop(window)
