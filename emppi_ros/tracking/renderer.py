"""
Depth images by MuJoCo's rays, without OpenGL: of rigid parts, and of what is behind them.

What is behind the parts is fixed, or a robot at its measured joint positions.
"""

from collections.abc import Mapping, Sequence
import copy
import itertools
from typing import Any, NamedTuple, Protocol

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

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.bottom - self.top, self.right - self.left

    def contains(self, other: 'Window') -> bool:
        """Return whether all of another window is in this one."""
        rows = self.top <= other.top and other.bottom <= self.bottom
        return rows and self.left <= other.left and other.right <= self.right

    def grown(self, margin: int, camera: Camera) -> 'Window':
        """Return a window with a margin [px], within the image of a camera."""
        return Window(
            max(self.top - margin, 0), min(self.bottom + margin, camera.height),
            max(self.left - margin, 0), min(self.right + margin, camera.width),
        )  # fmt: skip


class RenderedDepth(NamedTuple):
    """
    What is seen in a window of an image.

    Attributes
    ----------
    depth : (h, w) array
        Along the optical axis [m]; inf where nothing is.
    part : (h, w) array
        Index of the part; NOTHING where none is.
    normal : (h, w, 3) array
        Outward unit normals in the world.

    """

    depth: Array
    part: Ints
    normal: Array


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


class PartRenderer:
    """
    Renders some bodies of a model, each at any pose and with what is welded to it.

    The poses are written over those that joints allow, so parts need no joints of their own.
    """

    def __init__(self, model: mujoco.MjModel, bodies: Sequence[int], camera: Camera) -> None:
        """Prepare rays and shapes; SceneError if a part has no visible geom."""
        self.camera, self._rays = camera, _CameraRays(camera)
        self._model = copy.copy(model)
        part_of = part_of_bodies(model, bodies)
        shown = is_visible(model)
        self.part_of_geom = np.where(shown, part_of[model.geom_bodyid], NOTHING)
        hide(self._model, self.part_of_geom == NOTHING)
        for part, body in enumerate(bodies):
            if not np.any(self.part_of_geom == part):
                raise SceneError(f'body {model.body(body).name!r} has no visible geom (group 0-2)')
        self._data = scene.kinematics(model, model.qpos0)
        self.geoms = np.flatnonzero(self.part_of_geom != NOTHING)
        self._bodies = np.flatnonzero(part_of != NOTHING)
        self._owner = part_of[self._bodies]
        start = self.initial(bodies)
        self._geom_local = _local(
            start, self.part_of_geom[self.geoms], self._data.geom_xpos[self.geoms],
            self._data.geom_xmat[self.geoms],
        )  # fmt: skip
        self._body_local = _local(
            start, self._owner, self._data.xipos[self._bodies], self._data.ximat[self._bodies]
        )
        box = model.geom_aabb[self.geoms]
        self._middles, self._halves = box[:, None, :3], box[:, None, 3:]
        self._signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))

    def initial(self, bodies: Sequence[int]) -> Poses:
        """Return the poses of the parts at the model's initial joint positions."""
        return body_poses(self._data, bodies)

    def place(self, poses: Poses) -> None:
        """Put the parts at poses (B)."""
        owner = self.part_of_geom[self.geoms]
        for local, of, index, positions, matrices in (
            (self._geom_local, owner, self.geoms, self._data.geom_xpos, self._data.geom_xmat),
            (self._body_local, self._owner, self._bodies, self._data.xipos, self._data.ximat),
        ):
            moved = poses.at(of) @ local
            positions[index], matrices[index] = moved.position, moved.rotation.reshape(-1, 9)

    def window(self, margin: int, reach: float = 0.0) -> Window:
        """Return the window with a margin [px] where parts are, or are within reach [m]."""
        turn = self._data.geom_xmat[self.geoms].reshape(-1, 3, 3)
        local = self._middles + self._signs * (self._halves + reach)
        corners = self._data.geom_xpos[self.geoms, None] + local @ np.swapaxes(turn, 1, 2)
        seen = self.camera.project(corners.reshape(-1, 3))
        width, height = self.camera.width, self.camera.height
        if np.any(seen[:, 2] < _NEAREST_M):  # around the camera, or behind it
            return Window(0, height, 0, width)
        low, high = seen[:, :2].min(axis=0) - margin, seen[:, :2].max(axis=0) + margin
        left, right = (int(np.clip(x, 0, width)) for x in (np.floor(low[0]), np.ceil(high[0]) + 1))
        top, bottom = (
            int(np.clip(y, 0, height)) for y in (np.floor(low[1]), np.ceil(high[1]) + 1)
        )
        return Window(top, max(bottom, top), left, max(right, left))

    def render(self, window: Window | None = None) -> RenderedDepth:
        """Return what is seen of the parts, where `place` put them."""
        pixels = ... if window is None else window.slices
        geom, depth, normal = self._rays.cast(self._model, self._data, pixels)
        part = np.where(geom < 0, NOTHING, self.part_of_geom[geom])
        return RenderedDepth(depth, part, normal)


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


def render_scene(
    model: mujoco.MjModel, data: mujoco.MjData, camera: Camera, without: Sequence[int] = ()
) -> Array:
    """
    Return the depth image (h, w) of a scene in a state; inf where nothing is.

    Bodies in `without`, and what is welded to them, are left out.
    """
    if without:
        model = copy.copy(model)
        hide(model, part_of_bodies(model, without)[model.geom_bodyid] != NOTHING)
    return _CameraRays(camera).cast(model, data)[1]


class SceneRenderer:
    """
    Renders a scene again and again, of which only some bodies move.

    What is fixed is rendered once; rays are cast only where something that moves may be seen.
    """

    def __init__(self, model: mujoco.MjModel, camera: Camera, without: Sequence[int] = ()) -> None:
        """Render what is fixed; bodies in `without`, and what is welded to them, are left out."""
        self._camera, self._rays = camera, _CameraRays(camera)
        left_out = part_of_bodies(model, without)[model.geom_bodyid] != NOTHING
        moves = model.body_weldid[model.geom_bodyid] != 0
        fixed = copy.copy(model)
        hide(fixed, left_out | moves)
        self._fixed = render_scene(fixed, scene.kinematics(model, model.qpos0), camera)
        self._moving = copy.copy(model)
        hide(self._moving, left_out | ~moves)
        self._geoms = np.flatnonzero(moves & ~left_out & is_visible(model))
        box = model.geom_aabb[self._geoms]
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
        self._corners = box[:, None, :3] + corners * box[:, None, 3:]  # (geoms, 8, 3)
        planes = model.geom_type[self._geoms] == mujoco.mjtGeom.mjGEOM_PLANE.value
        self._corners[planes] = np.nan  # they have no end

    def render(self, data: mujoco.MjData, window: Window | None = None) -> Array:
        """Return the depth image, or a window of it, in a state with kinematics up to date."""
        part = (slice(None), slice(None)) if window is None else window.slices
        near = self._may_show(data)[part]
        depth, pixels = self._fixed[part].copy(), np.zeros(self._fixed.shape, bool)
        pixels[part] = near
        depth[near] = np.minimum(depth[near], self._rays.cast(self._moving, data, pixels)[1])
        return depth

    def _may_show(self, data: mujoco.MjData) -> Bools:
        """Return the pixels (h, w) in which a box around a geom that moves may be."""
        camera = self._camera
        turn = data.geom_xmat[self._geoms].reshape(-1, 3, 3)
        corners = data.geom_xpos[self._geoms, None] + self._corners @ np.swapaxes(turn, 1, 2)
        seen = camera.project(corners)
        if not np.all(seen[..., 2] > _NEAREST_M):  # around the camera, behind it, or a plane
            return np.ones((camera.height, camera.width), bool)
        near = np.zeros((camera.height, camera.width), bool)
        ends = [camera.width, camera.height]
        first = np.clip(np.floor(seen[..., :2].min(axis=1)), 0, ends).astype(int)
        last = np.clip(np.ceil(seen[..., :2].max(axis=1)) + 1, 0, ends).astype(int)
        for (left, top), (right, bottom) in zip(first.tolist(), last.tolist(), strict=True):
            near[top:bottom, left:right] = True
        return near


def render_background(model: mujoco.MjModel, bodies: Sequence[int], camera: Camera) -> Array:
    """Return the depth image (h, w) of all that is fixed in the world, without the parts."""
    moving = [body for body in range(1, model.nbody) if model.body_weldid[body] != 0]
    data = scene.kinematics(model, model.qpos0)
    return render_scene(model, data, camera, [*moving, *bodies])


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


def _local(poses: Poses, owner: Ints, positions: Array, matrices: Array) -> Poses:
    """Return poses in the frames of their owners."""
    back = np.swapaxes(poses.rotation[owner], -1, -2)
    offset = positions - poses.position[owner]
    return Poses(np.einsum('bij,bj->bi', back, offset), back @ _matrices(matrices))


def _matrices(flat: Array) -> Array:
    return np.reshape(flat, (-1, 3, 3)).copy()


def body_poses(data: mujoco.MjData, bodies: Sequence[int]) -> Poses:
    """Return the poses of bodies of a model whose kinematics are up to date."""
    index = list(bodies)
    return Poses(data.xpos[index].copy(), _matrices(data.xmat[index]))


class Background(Protocol):
    """Depth of what is behind the parts [m], inf where there is nothing."""

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image."""


class FixedBackground:
    """A background that does not change: a depth image (h, w)."""

    def __init__(self, depth: Array) -> None:
        self._depth = depth

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image."""
        return self._depth[window.slices]


class MovingBackground:
    """A scene without its parts, at positions of joints; rendered only where it is asked for."""

    def __init__(
        self,
        model: mujoco.MjModel,
        bodies: Sequence[int],
        joints: Sequence[str],
        camera: Camera,
    ) -> None:
        """
        Prepare a scene without some bodies.

        Bodies move with `joints`; those that move otherwise are left out. SceneError if a joint is
        unknown, or no hinge or slide.
        """
        self.joints = tuple(joints)
        index = [scene.find_scalar(model, name) for name in joints]
        self._address = model.jnt_qposadr[index]
        self._model, self._data = model, mujoco.MjData(model)
        unknown = _moved_by_others(model, index)
        self._renderer = SceneRenderer(model, camera, [*bodies, *unknown])
        self._camera = camera
        self._depth = np.full((camera.height, camera.width), np.nan)
        self._rendered: Window | None = None

    def move(self, positions: Mapping[str, float]) -> None:
        """Move the joints to positions [rad or m]."""
        self._data.qpos[self._address] = [positions[name] for name in self.joints]
        mujoco.mj_kinematics(self._model, self._data)
        self._rendered = None

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image, after `move`."""
        if self._rendered is None or not self._rendered.contains(window):
            self._rendered = window.grown(_MARGIN_PX, self._camera)
            self._depth[self._rendered.slices] = self._renderer.render(self._data, self._rendered)
        return self._depth[window.slices]


def _moved_by_others(model: mujoco.MjModel, joints: Sequence[int]) -> list[int]:
    """Return the bodies that move by other joints than these, or with such a body."""
    unknown: set[int] = set()
    for body in range(1, model.nbody):
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        own = range(first, first + count) if count else ()
        if any(joint not in joints for joint in own) or model.body_parentid[body] in unknown:
            unknown.add(body)
    return sorted(unknown)
