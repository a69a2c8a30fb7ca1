"""Fit poses of parts to one depth image, by Gauss-Newton steps on the rendered depth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import mujoco
import numpy as np
from scipy import ndimage, special
from scipy.spatial.transform import Rotation

from emppi_ros.core import config
from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations, outlines, surfaces
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.equations import NOTHING_KNOWN, Displacement, PoseEquations
from emppi_ros.tracking.outlines import View
from emppi_ros.tracking.renderer import NOTHING, Background, MovingBackground, PartRenderer, Window

TUKEY = 4.685  # standard deviations: 95 % efficiency for normal errors
FAR = 1e3  # m: depth of what a mask says is no part
RIGHT = 3.0  # standard deviations: 99.7 % of normal errors
FEWEST_PIXELS = 25
_WELL = 0.95  # share of visible pixels with the right depth
_FARTHER = 3  # reach of outlines for a part that fits badly
_ALIGNED_POINTS = 700  # at most
_FEWEST_POINTS = 12  # that move a part
_CONVERGED = 5e-5  # m
_ALIGNED = 10.0 * _CONVERGED
_NARROWER = 0.7  # reach of alignment from one step to the next
_LARGEST_NOISE = 0.08  # of the size of a part, as its standard deviation at most
_RATIOS = np.geomspace(0.05, 8.0, 100)  # of a standard deviation to what is thought of it
# medians of the normal errors that are then right
_MEDIANS = _RATIOS * special.ndtri(0.5 + 0.25 * (2.0 * special.ndtr(RIGHT / _RATIOS) - 1.0))
_BLURRED, _CREASE = 3, 0.3  # px about edges; change of a normal from one pixel to the next
_PROBED = 2000  # pixels that show the steps of rounded depths


@dataclass(frozen=True)
class TrackerConfig:
    """Settings of the tracker."""

    noise_sd_per_m: float = config.positive(
        0.0037, doc='least standard deviation of a depth over its square [1/m]: 9 mm at 1.6 m'
    )
    iterations: int = config.between(1, 50, 6, doc='Gauss-Newton steps for an image, at most')
    alignment_steps: int = config.between(
        0, 20, 4, doc='steps of point-to-plane alignment before them'
    )
    reach_m: float = config.positive(
        0.12, doc='distance that alignment bridges between a part and its image'
    )
    outlines: bool = config.key(True, doc='whether outlines count')
    outline_reach_px: int = config.between(2, 20, 6, doc='distance at which outlines are found')
    outline_sd_px: float = config.positive(0.5, doc='standard deviation of an outline')
    outline_lines: float = config.between(
        1.0, 100.0, 8.0, doc='neighbouring lines across an outline whose errors are as one'
    )
    lost_below: float = config.fraction(
        0.8, doc='share of visible pixels with the right depth, below which a part is lost'
    )
    hue_tolerance_deg: float = config.between(1.0, 60.0, 25.0, doc='of the hue of a part')


class TrackedParts:
    """Parts as a camera sees them, with what is behind them."""

    def __init__(
        self,
        settings: TrackerConfig,
        model: mujoco.MjModel,
        bodies: Sequence[int],
        camera: Camera,
        background: Array | None = None,
    ) -> None:
        """
        Prepare the shapes of some bodies of a model; SceneError if one has no visible geom.

        `background` (h, w) is the depth of the scene without the parts [m], inf where there is
        nothing; None if it is unknown.
        """
        self.settings, self.camera, self.rays = settings, camera, camera.rays()
        self.renderer = PartRenderer(model, bodies, camera)
        self.surfaces = surfaces.sample_surfaces(model, bodies)
        self.shapes = [surface.shape for surface in self.surfaces]
        self._model, self._bodies, self._is_known = model, bodies, background is not None
        nothing = np.full((camera.height, camera.width), np.inf)
        self.background = Background(nothing if background is None else background)
        self.rounding = 0.0  # m, standard deviation
        # standard deviations of parts (B,) relative to the settings, as images show them
        self.excess = np.ones(len(self.shapes))
        self.is_learned = np.zeros(len(self.shapes), bool)  # (B,), whether images have shown it

    def noise(self, depth: Array, part: Ints | int | None = None) -> Array:
        """Return standard deviations of depths [m] of parts, by default of what is behind them."""
        sd = np.sqrt((self.settings.noise_sd_per_m * depth**2) ** 2 + self.rounding**2)
        return sd * np.append(self.excess, self.excess.mean())[-1 if part is None else part]

    def largest_excess(self, poses: Poses) -> Array:
        """Return the largest noise of parts (B,) at poses (B), relative to the settings."""
        depths = self.camera.project(poses.position)[:, 2]
        sd = self.noise(depths, np.arange(len(depths))) / self.excess
        radii = np.array([shape.radius for shape in self.shapes])
        return np.maximum(_LARGEST_NOISE * radii / sd, 1.0)

    def is_foreground(self, observed: Array, background: Array) -> Bools:
        """Return which depths are in front of the background by more than noise."""
        with np.errstate(invalid='ignore'):
            return (observed < background - TUKEY * self.noise(observed)) & (observed < FAR)

    def move_robot(self, joints: Mapping[str, float]) -> None:
        """Move hinges and slides of a known scene [rad or m]; SceneError for other joints."""
        if not self._is_known:
            return
        robot = self.background
        if not isinstance(robot, MovingBackground) or set(robot.joints) != set(joints):
            robot = MovingBackground(self._model, self._bodies, tuple(joints), self.camera)
        robot.move(joints)
        self.background = robot

    def prepare(self, last: float, time: float, image: Array, mask: Bools | None) -> Array:
        """
        Return an image (h, w) with NaN where there is no depth, and far away outside of a mask.

        PoseError as of `check_image`, and if it has no depths.
        """
        self.check_image(last, time, image, mask)
        if image.ndim > 2 or image.dtype.kind != 'f':
            raise PoseError(
                f'image of {"colours" if image.ndim > 2 else "labels"}: silhouettes do not show '
                'all six coordinates of a free part: give depth images, or, if parts move in a '
                'plane, its normal as `plane` in --parts'
            )
        image = np.where((image > 0.0) & np.isfinite(image), image, np.nan)
        self.rounding = _rounding_step(image) / np.sqrt(12.0)
        return image if mask is None else np.where(mask, image, FAR)

    def check_image(self, last: float, time: float, image: Any, mask: Bools | None) -> None:
        """Raise PoseError if sizes do not fit, or the time is not after the last image [s]."""
        shape = self.camera.height, self.camera.width
        for other in (image, mask):
            if other is not None and other.shape[:2] != shape:
                raise PoseError(
                    f'image at {time:.6g} s: found {other.shape[1]} x {other.shape[0]} px, '
                    f'expected {shape[1]} x {shape[0]}, as the intrinsics say'
                )
        if time <= last:
            raise PoseError(f'image at {time:.6g} s: not after the one before, at {last:.6g} s')


def _rounding_step(image: Array) -> float:
    """Return the step between depths that are rounded [m], 0 if there is none."""
    depths = image.ravel()[:: max(image.size // _PROBED, 1)]
    steps = np.diff(np.unique(np.round(depths[np.isfinite(depths)], 6)))
    if len(steps) < _FEWEST_POINTS:
        return 0.0
    whole = np.allclose(steps / steps.min(), np.round(steps / steps.min()), atol=0.05)
    return float(steps.min()) if whole else 0.0


class Placement(Protocol):
    """Where parts are: each on its own, or on joints."""

    @property
    def poses(self) -> Poses:
        """Poses (B) of the parts."""

    def moved(
        self, tracked: TrackedParts, systems: Sequence[PoseEquations | None]
    ) -> tuple[Self, float]:
        """Return the placement after a step, and how far it moved the surface of any part [m]."""

    def where(self, chosen: Bools, other: Self) -> Self:
        """Return the placement of the chosen parts (B,), and of the others another one."""


class FreeParts(NamedTuple):
    """Parts of which each moves on its own."""

    poses: Poses

    def steps(
        self, tracked: TrackedParts, systems: Sequence[PoseEquations | None]
    ) -> list[Displacement | None]:
        """Return the step of each part that is seen."""
        return [
            system and equations.solve(system, turn @ shape.centre, shape.radius)
            for system, turn, shape in zip(
                systems, self.poses.rotation, tracked.shapes, strict=True
            )
        ]

    def moved(
        self, tracked: TrackedParts, systems: Sequence[PoseEquations | None]
    ) -> tuple['FreeParts', float]:
        """Return the parts after a step, and how far it moved the surface of any part [m]."""
        position, rotation, most = self.poses.position.copy(), self.poses.rotation.copy(), 0.0
        for part, displacement in enumerate(self.steps(tracked, systems)):
            if displacement is not None:
                shift, turn = displacement.step[:3], displacement.step[3:]
                position[part] += shift
                rotation[part] = Rotation.from_rotvec(turn).as_matrix() @ rotation[part]
                turned = tracked.shapes[part].radius * np.linalg.norm(turn)
                most = max(most, float(np.linalg.norm(shift)), float(turned))
        return FreeParts(Poses(position, rotation)), most

    def where(self, chosen: Bools, other: 'FreeParts') -> 'FreeParts':
        """Return these poses of the chosen parts (B,), and others of the others."""
        return FreeParts(self.poses.where(chosen, other.poses))


class Evidence(NamedTuple):
    """How well an image agrees with the poses of B parts."""

    fits: Array  # (B,), shares of visible pixels that have the right depth
    visible: Array  # (B,), numbers of pixels that show the part, or something behind it
    ratio: Array  # (B,), errors of depth relative to what the noise says
    gain: Array  # (B,), mean squares, in units of noise, that a visible pixel of a part explains

    @property
    def scale(self) -> Array:
        """Squared errors of depth (B,) relative to what the noise says, at least 1."""
        return np.maximum(self.ratio, 1.0) ** 2


P = TypeVar('P', bound=Placement)


class Fit(NamedTuple, Generic[P]):
    """Parts that were fitted to an image, with the last equations of each that is seen."""

    placement: P
    equations: list[PoseEquations | None]
    evidence: Evidence
    alike: Array  # (B,), pixels that count as one, since their errors are alike


def fit_widely(tracked: TrackedParts, guess: P, image: Array) -> Fit[P]:
    """Return the fit from a guess; parts that fit badly are aligned first, if that is better."""
    fitted = fit(tracked, guess, image)
    evidence = fitted.evidence
    bad = (evidence.fits < _WELL) & (evidence.visible >= FEWEST_PIXELS)
    if not bad.any() or not tracked.settings.alignment_steps:
        return fitted
    aligned = align(tracked, guess, image).where(bad, fitted.placement)
    wide = fit(tracked, aligned, image, _FARTHER)
    other = fit(tracked, wide.placement, image)
    return other if _quality(other.evidence, bad) > _quality(evidence, bad) else fitted


def _quality(evidence: Evidence, parts: Bools) -> float:
    """Return how many more pixels have the right depth than a wrong one, relative to noise."""
    return float(np.sum((evidence.visible * (2.0 * evidence.fits - 1.0) / evidence.scale)[parts]))


def fit(tracked: TrackedParts, placement: P, image: Array, farther: int = 1) -> Fit[P]:
    """Return the parts after Gauss-Newton steps; `farther` multiplies the reach of outlines."""
    settings, moved = tracked.settings, np.inf
    reach = farther * settings.outline_reach_px
    for i in range(settings.iterations + 1):
        view, window = look(tracked, placement.poses, image, reach)
        width = 0.5 * settings.reach_m * 0.5**i  # errors are larger at first
        is_last = i == settings.iterations or moved < _CONVERGED
        # before, errors are alike because parts are not where they will be
        alike = _count_alike(tracked, view) if is_last else None
        systems = _part_equations(tracked, placement.poses, view, width, reach, alike)
        if alike is not None:
            break
        placement, moved = placement.moved(tracked, systems)
    assert alike is not None
    return Fit(placement, systems, _assess(tracked, view, window), alike)


def _count_alike(tracked: TrackedParts, view: View) -> Array:
    """Return how many pixels of each part (B,) count as one, since their errors are alike."""
    with np.errstate(invalid='ignore'):
        errors = (view.observed - view.depth) / tracked.noise(view.depth, view.part)
        valid = np.abs(errors) < TUKEY
    owns = [valid & (view.part == part) for part in range(len(tracked.shapes))]
    return np.array([equations.count_alike(errors, own, 6) for own in owns])


def look(
    tracked: TrackedParts, poses: Poses, image: Array, margin: int = 0
) -> tuple[View, Window]:
    """Return a window of an image with a margin [px] about parts, with what is rendered there."""
    tracked.renderer.place(poses)
    window = tracked.renderer.window(margin + 2)
    rendered = tracked.renderer.render(window)
    behind = tracked.background.crop(window)
    depth = np.minimum(rendered.depth, behind)
    part = np.where(behind < rendered.depth, NOTHING, rendered.part)
    rays = tracked.rays[window.slices]
    return View(image[window.slices], depth, part, rendered.normal, rays), window


def _part_equations(
    tracked: TrackedParts, poses: Poses, view: View, width: float, reach: int, alike: Array | None
) -> list[PoseEquations | None]:
    """
    Return Gauss-Newton's equations; errors of depth count up to a width [m] or more.

    Of pixels on surfaces `alike` (B,) count as one; None before the parts are in place.
    """
    systems: list[PoseEquations | None] = []
    lines = tracked.settings.outline_lines
    interior = _interior(view)
    edges = _outline_equations(tracked, poses, view, reach)
    for part, (edge, origin) in enumerate(zip(edges, poses.position, strict=True)):
        own = (view.part == part) & np.isfinite(view.observed)
        if not own.any():
            systems.append(None)
            continue
        depth, ray = view.depth[own], view.rays[own]
        error, sd = view.observed[own] - depth, tracked.noise(depth, part)
        weights = equations.tukey(error, np.maximum(TUKEY * sd, width)) / sd**2
        inner, size = interior[own], np.abs(error) / sd
        if min(inner.sum(), (~inner).sum()) >= FEWEST_PIXELS:
            inside, outside = np.median(size[inner]), np.median(size[~inner])
            if inside < min(outside, RIGHT):  # edges are blurred
                weights[~inner] *= (inside / outside) ** 2
        points = np.array(tracked.camera.position) + ray * depth[:, None]
        slopes = equations.depth_slopes(points, view.normal[own], ray, origin)
        surface = equations.make_equations(slopes, error, weights)
        known = surface.information / (1.0 if alike is None else alike[part])
        known = known + (edge.information if alike is None else edge.known) / lines
        information = surface.information + edge.information
        systems.append(PoseEquations(information, surface.gradient + edge.gradient, known))
    return systems


def _interior(view: View) -> Bools:
    """Return which pixels (h, w) are away from edges, which cameras blur."""
    edge = view.part < 0
    for axis in (0, 1):
        jump = np.diff(view.part, axis=axis) != 0
        jump |= np.abs(np.diff(view.normal, axis=axis)).max(axis=-1) > _CREASE
        np.moveaxis(edge, axis, 0)[1:] |= np.moveaxis(jump, axis, 0)
    return ~np.asarray(ndimage.binary_dilation(edge, iterations=_BLURRED), bool)


def _outline_equations(
    tracked: TrackedParts, poses: Poses, view: View, reach: int
) -> list[PoseEquations]:
    """Return the equations of the outlines of each part."""
    settings, count = tracked.settings, len(poses.position)
    if not settings.outlines or min(view.part.shape) < 2:
        return [NOTHING_KNOWN] * count
    near = np.where(view.part >= 0, view.depth, 0.0)
    gap = np.maximum(0.02, TUKEY * tracked.noise(near, view.part))
    outline = outlines.find_outlines(view, tracked.camera, poses.position, reach, gap)
    variance = settings.outline_sd_px**2 + outline.ambiguity**2
    weights = equations.tukey(outline.offset, reach) / variance
    result = []
    for own in (outline.part == part for part in range(count)):
        offset, weight = outline.offset[own], weights[own]
        equation = equations.make_equations(outline.slopes[own], offset, weight)
        misfit = max(float(np.sum(weight * offset**2)) / max(len(offset), 1), 1.0)
        result.append(equation._replace(known=equation.information / misfit))
    return result


def _assess(tracked: TrackedParts, view: View, window: Window) -> Evidence:
    """Return how well an image agrees with what is rendered."""
    behind = tracked.background.crop(window)
    count = len(tracked.shapes)
    fits, visible, ratio, gain = np.zeros(count), np.zeros(count), np.ones(count), np.zeros(count)
    for part in range(count):
        own = (view.part == part) & np.isfinite(view.observed)
        depth, observed = view.depth[own], view.observed[own]
        sd = tracked.noise(depth, part)
        error, other = (observed - depth) / sd, (observed - behind[own]) / sd
        right = np.abs(error) < RIGHT
        counted = right | (error >= RIGHT)  # what is nearer hides the part
        visible[part] = counted.sum()
        if right.any():
            fits[part] = right.sum() / visible[part]
            ratio[part] = np.interp(np.median(np.abs(error[right])), _MEDIANS, _RATIOS)
            better = np.minimum(other**2, RIGHT**2) - np.minimum(error**2, RIGHT**2)
            gain[part] = better[counted].mean()
    return Evidence(fits, visible, ratio, gain)


def align(tracked: TrackedParts, placement: P, image: Array, least_reach: float = 0.0) -> P:
    """
    Return the parts after steps of alignment with what is in front of the background.

    Points count up to a distance [m] from the parts: `reach_m` of the settings, or more.
    """
    reach = max(tracked.settings.reach_m, least_reach)
    points, sd = _foreground(tracked, placement.poses, image, reach)
    for i in range(tracked.settings.alignment_steps if len(points) else 0):
        systems = _alignment(tracked, placement.poses, points, sd, reach * _NARROWER**i)
        placement, moved = placement.moved(tracked, systems)
        if moved < _ALIGNED:
            break
    return placement


def _alignment(
    tracked: TrackedParts, poses: Poses, points: Array, sd: Array, reach: float
) -> list[PoseEquations | None]:
    """
    Return the equations of point-to-plane alignment of parts with points (n, 3) of an image.

    Each point with standard deviation `sd` (n,) belongs to the part that is nearest, at most
    `reach` [m] away. Parts with too few points have no equations.
    """
    distance, index = np.full((2, len(tracked.surfaces), len(points)), np.inf)
    for part, surface in enumerate(tracked.surfaces):
        local = (points - poses.position[part]) @ poses.rotation[part]
        distance[part], index[part] = surface.tree.query(local, distance_upper_bound=reach)
    nearest = np.argmin(distance, axis=0)
    systems: list[PoseEquations | None] = []
    for part, surface in enumerate(tracked.surfaces):
        own = (nearest == part) & np.isfinite(distance[part])
        if own.sum() < _FEWEST_POINTS:
            systems.append(None)
            continue
        match = index[part, own].astype(int)
        turn, origin = poses.rotation[part], poses.position[part]
        place = origin + surface.points[match] @ turn.T
        normal = surface.normals[match] @ turn.T
        error = np.sum((points[own] - place) * normal, axis=1)
        slopes = equations.surface_motion(place, normal, origin)
        weights = equations.tukey(error, reach) / sd[own] ** 2
        systems.append(equations.make_equations(slopes, error, weights))
    return systems


def _foreground(
    tracked: TrackedParts, poses: Poses, image: Array, reach: float
) -> tuple[Array, Array]:
    """Return points (n, 3) near parts that are in front of the background, and their noise."""
    tracked.renderer.place(poses)
    window = tracked.renderer.window(1, reach)
    observed = image[window.slices]
    front = tracked.is_foreground(observed, tracked.background.crop(window))
    depth = observed[front]
    rays = tracked.rays[window.slices][front]
    points = np.array(tracked.camera.position) + rays * depth[:, None]
    thin = max(len(points) // _ALIGNED_POINTS, 1)
    return points[::thin], tracked.noise(depth)[::thin]
