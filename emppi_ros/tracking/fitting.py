"""Fit poses of parts to one depth image, by Gauss-Newton steps on the rendered depth."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.tracking import equations, outlines, surfaces
from emppi_ros.tracking.equations import Displacement, PoseEquations
from emppi_ros.tracking.outlines import View
from emppi_ros.tracking.parts import TUKEY, TrackedParts
from emppi_ros.tracking.renderer import NOTHING, Placement, RenderedDepth, Window

Array = npt.NDArray[np.float64]
NOTHING_KNOWN = PoseEquations(np.zeros((6, 6)), np.zeros(6))
RIGHT = 3.0  # standard deviations: 99.7 % of normal errors
_ALIGNED_POINTS = 700  # at most
_CONVERGED = 5e-5  # m
_NARROWER = 0.7  # reach of alignment from one step to the next


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


class Fit(NamedTuple):
    """Poses that were fitted to an image, with the last step of each part that is seen."""

    poses: Placement
    steps: list[Displacement | None]
    evidence: Evidence


def fit(tracked: TrackedParts, poses: Placement, image: Array, farther: int = 1) -> Fit:
    """
    Return the poses after Gauss-Newton steps; `image` has NaN where there is no depth.

    Outlines are searched `farther` away than the settings say, by this factor.
    """
    iterations = tracked.settings.iterations
    moved, reach = np.inf, farther * tracked.settings.outline_reach_px
    for i in range(iterations + 1):
        # errors of poses are larger than noise at first
        width = 0.5 * tracked.settings.reach_m * 0.5**i
        rendered, window = render(tracked, poses, reach)
        steps = _steps(tracked, poses, image, rendered, window, width, reach)
        last = i == iterations or moved < _CONVERGED
        if last:
            break
        poses, moved = _move(tracked, poses, steps)
    return Fit(poses, steps, assess(tracked, image, rendered, window))


def render(
    tracked: TrackedParts, poses: Placement, margin: int = 0
) -> tuple[RenderedDepth, Window]:
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


def _steps(
    tracked: TrackedParts, poses: Placement, image: Array, rendered: RenderedDepth, window: Window,
    width: float,
    reach: int,
) -> list[Displacement | None]:  # fmt: skip
    """Return Gauss-Newton's step of each part; errors of depth count up to a width [m] or more."""
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
    steps: list[Displacement | None] = []
    for part, one in enumerate(found):
        if one is None:
            steps.append(None)
            continue
        shape = tracked.shapes[part]
        known = one.information + outline[part].information / settings.outline_lines
        centre = poses.rotation[part] @ shape.centre
        steps.append(equations.solve(one + outline[part], known, centre, shape.radius))
    return steps


def _outline_equations(
    tracked: TrackedParts, poses: Placement, view: View, reach: int
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
    tracked: TrackedParts, poses: Placement, steps: Sequence[Displacement | None]
) -> tuple[Placement, float]:
    """Return the poses after a step, and how far it moved the surface of any part [m]."""
    position, rotation, most = poses.position.copy(), poses.rotation.copy(), 0.0
    for part, one in enumerate(steps):
        if one is not None:
            position[part], rotation[part] = equations.displace(
                position[part], rotation[part], one.step
            )
            turned = tracked.shapes[part].radius * np.linalg.norm(one.step[3:])
            most = max(most, float(np.linalg.norm(one.step[:3])), float(turned))
    return Placement(position, rotation), most


def assess(
    tracked: TrackedParts, image: Array, rendered: RenderedDepth, window: Window
) -> Evidence:
    """Return how well an image agrees with what is rendered."""
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


def align(
    tracked: TrackedParts, poses: Placement, image: Array, least_reach: float = 0.0
) -> Placement:
    """
    Return poses after steps of alignment with what is in front of the background.

    Points count up to a distance [m] from the parts: `reach_m` of the settings, or more.
    """
    if not tracked.settings.alignment_steps:
        return poses
    reach = max(tracked.settings.reach_m, least_reach)
    tracked.renderer.place(poses)
    window = tracked.renderer.window(1, reach)
    points, sd = _foreground(tracked, image, window)
    return _align_with(tracked, poses, points, sd, reach)


def _align_with(
    tracked: TrackedParts, poses: Placement, points: Array, sd: Array, farthest: float
) -> Placement:
    if not len(points):
        return poses
    thin = max(len(points) // _ALIGNED_POINTS, 1)
    points, sd = points[::thin], sd[::thin]
    for i in range(tracked.settings.alignment_steps):
        reach = farthest * _NARROWER**i
        found = surfaces.alignment_equations(tracked.surfaces, poses, points, sd, reach)
        moves: list[Displacement | None] = [None] * len(tracked.shapes)
        for part, one in found.items():
            shape = tracked.shapes[part]
            centre = poses.rotation[part] @ shape.centre
            moves[part] = equations.solve(one, one.information, centre, shape.radius)
        poses, moved = _move(tracked, poses, moves)
        if moved < 10.0 * _CONVERGED:
            break
    return poses


def _foreground(tracked: TrackedParts, image: Array, window: Window) -> tuple[Array, Array]:
    """Return points (n, 3) of a window that are in front of the background, and their noise."""
    observed = image[window.slices]
    front = tracked.is_foreground(observed, tracked.background.crop(window))
    depth = observed[front]
    points = (
        np.array(tracked.camera.position) + tracked.rays[window.slices][front] * depth[:, None]
    )
    return points, tracked.noise(depth)
