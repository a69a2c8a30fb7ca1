"""Fit poses of parts to one depth image, by Gauss-Newton steps on the rendered depth."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations, outlines, surfaces
from emppi_ros.tracking.equations import Displacement, PoseEquations
from emppi_ros.tracking.outlines import View
from emppi_ros.tracking.parts import TUKEY, TrackedParts
from emppi_ros.tracking.renderer import NOTHING, RenderedDepth, Window

NOTHING_KNOWN = PoseEquations(np.zeros((6, 6)), np.zeros(6))
RIGHT = 3.0  # standard deviations: 99.7 % of normal errors
_ALIGNED_POINTS = 700  # at most
_CONVERGED = 5e-5  # m
ALIGNED = 10.0 * _CONVERGED
NARROWER = 0.7  # reach of alignment from one step to the next


class Evidence(NamedTuple):
    """
    How well an image agrees with poses.

    Attributes
    ----------
    fits : (B,) array
        Shares of visible pixels that have the right depth.
    visible : (B,) array
        Numbers of pixels that show the part, or something behind it.
    scale : (B,) array
        Squared errors of depth relative to what the noise says, at least 1.
    gain : (B,) array
        Mean over these pixels of how much less the squared errors of depth, in units of noise, are
        than those of the background.

    """

    fits: Array
    visible: Array
    scale: Array
    gain: Array


class PartEquations(NamedTuple):
    """
    Equations of a part that an image shows.

    Attributes
    ----------
    step : PoseEquations
        Whose solution is the step of the pose.
    known : (6, 6) array
        How well the pose is known: information, where errors of neighbours are correlated.

    """

    step: PoseEquations
    known: Array


class Fit(NamedTuple):
    """Poses that were fitted to an image, with the last step of each part that is seen."""

    poses: Poses
    steps: list[Displacement | None]
    evidence: Evidence


class Linearization(NamedTuple):
    """What an image shows of parts at some poses: equations, None of parts that are not seen."""

    equations: list[PartEquations | None]
    rendered: RenderedDepth
    window: Window


def fit(tracked: TrackedParts, poses: Poses, image: Array, farther: int = 1) -> Fit:
    """
    Return the poses after Gauss-Newton steps; `image` has NaN where there is no depth.

    Outlines are searched `farther` away than the settings say, by this factor.
    """
    moved = np.inf
    for i in range(tracked.settings.iterations + 1):
        shown = linearize(tracked, poses, image, i, farther)
        steps = _solve(tracked, poses, shown.equations)
        if is_last(tracked, i, moved):
            break
        poses, moved = _move(tracked, poses, steps)
    return Fit(poses, steps, assess(tracked, image, shown))


def is_last(tracked: TrackedParts, iteration: int, moved: float) -> bool:
    """Return whether no more steps are taken, after one that moved surfaces by `moved` [m]."""
    return iteration == tracked.settings.iterations or moved < _CONVERGED


def linearize(
    tracked: TrackedParts, poses: Poses, image: Array, iteration: int, farther: int
) -> Linearization:
    """Return what an image shows of parts in an iteration: errors are larger at first."""
    width = 0.5 * tracked.settings.reach_m * 0.5**iteration
    reach = farther * tracked.settings.outline_reach_px
    rendered, window = render(tracked, poses, reach)
    found = _part_equations(tracked, poses, image, rendered, window, width, reach)
    return Linearization(found, rendered, window)


def render(tracked: TrackedParts, poses: Poses, margin: int = 0) -> tuple[RenderedDepth, Window]:
    """Return what is seen of parts, and of the background, in a window with a margin [px]."""
    tracked.renderer.place(poses)
    window = tracked.renderer.window(margin + 2)
    rendered = tracked.renderer.render(window)
    behind = tracked.background.crop(window)
    hidden = behind < rendered.depth
    return (
        RenderedDepth(
            np.minimum(rendered.depth, behind),
            np.where(hidden, NOTHING, rendered.part),
            rendered.normal,
        ),
        window,
    )


def _part_equations(
    tracked: TrackedParts, poses: Poses, image: Array, rendered: RenderedDepth, window: Window,
    width: float, reach: int,
) -> list[PartEquations | None]:  # fmt: skip
    """Return Gauss-Newton's equations; errors of depth count up to a width [m] or more."""
    settings, count = tracked.settings, len(poses.position)
    observed, rays = image[window.slices], tracked.rays[window.slices]
    found: list[PoseEquations | None] = [None] * count
    for part in range(count):
        own = (rendered.part == part) & np.isfinite(observed)
        if not own.any():
            continue
        depth, ray = rendered.depth[own], rays[own]
        error, sd = observed[own] - depth, tracked.noise(depth)
        weights = equations.tukey(error, np.maximum(TUKEY * sd, width)) / sd**2
        points = np.array(tracked.camera.position) + ray * depth[:, None]
        slopes = equations.depth_slopes(points, rendered.normal[own], ray, poses.position[part])
        found[part] = equations.make_equations(slopes, error, weights)
    view = View(observed, *rendered, rays)
    outline = _outline_equations(tracked, poses, view, reach)
    return [
        None
        if one is None
        else PartEquations(one + edge, one.information + edge.information / settings.outline_lines)
        for one, edge in zip(found, outline, strict=True)
    ]


def _solve(
    tracked: TrackedParts, poses: Poses, found: Sequence[PartEquations | None]
) -> list[Displacement | None]:
    """Return the step of each part."""
    steps: list[Displacement | None] = []
    for part, one in enumerate(found):
        shape = tracked.shapes[part]
        centre = poses.rotation[part] @ shape.centre
        steps.append(one and equations.solve(one.step, one.known, centre, shape.radius))
    return steps


def _outline_equations(
    tracked: TrackedParts, poses: Poses, view: View, reach: int
) -> list[PoseEquations]:
    """Return the equations of the outlines of each part."""
    settings, count = tracked.settings, len(poses.position)
    if not settings.outlines or min(view.part.shape) < 2:
        return [NOTHING_KNOWN] * count
    near = np.where(view.part >= 0, view.depth, 0.0)
    gap = np.maximum(0.02, TUKEY * tracked.noise(near))
    found = outlines.find_outlines(view, tracked.camera, poses.position, reach, gap)
    variance = settings.outline_sd_px**2 + found.ambiguity**2
    weights = equations.tukey(found.offset, reach) / variance
    return [
        equations.make_equations(found.slopes[own], found.offset[own], weights[own])
        for own in (found.part == part for part in range(count))
    ]


def _move(
    tracked: TrackedParts, poses: Poses, steps: Sequence[Displacement | None]
) -> tuple[Poses, float]:
    """Return the poses after a step, and how far it moved the surface of any part [m]."""
    position, rotation, most = poses.position.copy(), poses.rotation.copy(), 0.0
    for part, one in enumerate(steps):
        if one is not None:
            position[part], rotation[part] = equations.displace(
                position[part], rotation[part], one.step
            )
            turned = tracked.shapes[part].radius * np.linalg.norm(one.step[3:])
            most = max(most, float(np.linalg.norm(one.step[:3])), float(turned))
    return Poses(position, rotation), most


def assess(tracked: TrackedParts, image: Array, shown: Linearization) -> Evidence:
    """Return how well an image agrees with what is rendered."""
    rendered, window = shown.rendered, shown.window
    observed, behind = image[window.slices], tracked.background.crop(window)
    count = len(tracked.shapes)
    fits, visible, scale, gain = np.zeros(count), np.zeros(count), np.ones(count), np.zeros(count)
    for part in range(count):
        own = (rendered.part == part) & np.isfinite(observed)
        depth = rendered.depth[own]
        sd = tracked.noise(depth)
        error, other = (observed[own] - depth) / sd, (observed[own] - behind[own]) / sd
        right = np.abs(error) < RIGHT
        counted = right | (error >= RIGHT)  # what is nearer hides the part
        visible[part] = counted.sum()
        if right.any():
            fits[part] = right.sum() / visible[part]
            scale[part] = max(1.0, float(np.median(np.abs(error[right])) / 0.6745) ** 2)
            better = np.minimum(other**2, RIGHT**2) - np.minimum(error**2, RIGHT**2)
            gain[part] = better[counted].mean()
    return Evidence(fits, visible, scale, gain)


def align(tracked: TrackedParts, poses: Poses, image: Array, least_reach: float = 0.0) -> Poses:
    """
    Return poses after steps of alignment with what is in front of the background.

    Points count up to a distance [m] from the parts: `reach_m` of the settings, or more.
    """
    reach = max(tracked.settings.reach_m, least_reach)
    points, sd = foreground(tracked, poses, image, reach)
    for i in range(tracked.settings.alignment_steps if len(points) else 0):
        found = alignment_equations(tracked, poses, points, sd, reach * NARROWER**i)
        poses, moved = _move(tracked, poses, _solve(tracked, poses, found))
        if moved < ALIGNED:
            break
    return poses


def alignment_equations(
    tracked: TrackedParts, poses: Poses, points: Array, sd: Array, reach: float
) -> list[PartEquations | None]:
    """Return the equations of a step of alignment with points (n, 3) within a distance [m]."""
    found = surfaces.alignment_equations(tracked.surfaces, poses, points, sd, reach)
    return [
        PartEquations(found[part], found[part].information) if part in found else None
        for part in range(len(tracked.shapes))
    ]


def foreground(
    tracked: TrackedParts, poses: Poses, image: Array, reach: float
) -> tuple[Array, Array]:
    """Return points (n, 3) near parts that are in front of the background, and their noise."""
    tracked.renderer.place(poses)
    window = tracked.renderer.window(1, reach)
    observed = image[window.slices]
    front = tracked.is_foreground(observed, tracked.background.crop(window))
    depth = observed[front]
    points = (
        np.array(tracked.camera.position) + tracked.rays[window.slices][front] * depth[:, None]
    )
    thin = max(len(points) // _ALIGNED_POINTS, 1)
    return points[::thin], tracked.noise(depth)[::thin]
