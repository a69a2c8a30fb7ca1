"""
Fit the pose of a part that moves in a plane to its silhouette, by Gauss-Newton steps.

Errors are those of the pixels that show the part against those of its rendering, both blurred.
Pixels that other parts cover do not count. Slopes are differences of renderings on both sides, so
that a motion that changes no pixel, such as the rotation of a disc, is one that is not seen.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations
from emppi_ros.tracking.equations import UNSEEN_RAD, Displacement, PoseEquations, Shape
from emppi_ros.tracking.fitting import TrackedParts
from emppi_ros.tracking.renderer import PartRenderer, Window

_REACHES = 3  # standard deviations of the blur, about a part
_ALIKE_PX = 3.0  # standard deviation of the kernel over which errors of pixels are alike
_ROUNDING = 1.0 / 12.0  # px^2, variance of an edge that is rounded to whole pixels
_LEAST = 1e-3  # variance of the gradient along a coordinate, relative to that along all
_CONVERGED_PX, _MORE = 0.02, 3  # of a step; steps at most after those of all blurs
_MARGIN_PX = 4
_BESIDE = np.ones((3, 3), bool)  # a pixel and its neighbours
_IN_PLANE = np.ix_([0, 1, 5], [0, 1, 5])  # of displacements and rotations along three axes


class Silhouette(NamedTuple):
    """What an image shows of a part."""

    own: Bools  # (h, w), pixels that show the part
    counted: Bools  # (h, w), pixels that would show it if it were there


class PlanarFit(NamedTuple):
    """A pose (1) of a part, its uncertainty, and how well its silhouette agrees."""

    poses: Poses
    covariance: Array  # (3, 3), of the coordinates
    agreement: float  # share of the pixels of part and silhouette that are beside those of both
    overlap: float  # share of the pixels of part or silhouette, anywhere, that are of both
    visible: int  # pixels of the rendered part that count


class PlanarPart:
    """
    A part that moves in a plane, as a camera sees it.

    Its coordinates are displacements of its centre along two axes of the plane, and its rotation
    about the normal times its radius, all in m.
    """

    def __init__(
        self, tracked: TrackedParts, renderer: PartRenderer, shape: Shape, normal: Array
    ) -> None:
        """Take a renderer of this part alone, and the unit normal (3,) of the plane."""
        self._tracked, self._renderer, self._centre = tracked, renderer, shape.centre
        self._axes = np.vstack([np.linalg.svd(normal[None])[2][1:], normal])
        self.radius = shape.radius

    def moved(self, poses: Poses, step: Array) -> Poses:
        """Return a pose (1) after a step (3,)."""
        turn = Rotation.from_rotvec(self._axes[2] * step[2] / self.radius).as_matrix()
        rotation = turn @ poses.rotation
        centre = self._centre_of(poses) + step[:2] @ self._axes[:2]
        return Poses(centre - rotation @ self._centre, rotation)

    def step(self, first: Poses, second: Poses) -> Array:
        """Return the step (3,) from a pose (1) to another one."""
        turn = Rotation.from_matrix(second.rotation[0] @ first.rotation[0].T).as_rotvec()
        shift = self._axes[:2] @ (self._centre_of(second) - self._centre_of(first))[0]
        return np.append(shift, self.radius * float(self._axes[2] @ turn))

    def _centre_of(self, poses: Poses) -> Array:
        return np.asarray(poses.position + poses.rotation @ self._centre)

    def covariance(self, fit: PlanarFit, is_tracked: bool) -> Array:
        """Return the covariance (6, 6) of a pose; nothing is known unless the part is tracked."""
        known = fit.covariance if is_tracked else (UNSEEN_RAD * self.radius) ** 2 * np.eye(3)
        # what is assumed off the plane counts as known as well as what is known best in it
        local = np.linalg.eigvalsh(known)[0] * np.eye(6)
        local[_IN_PLANE] = known
        centred = equations.centred(fit.poses.rotation[0] @ self._centre, self.radius)
        lifted = centred @ np.kron(np.eye(2), self._axes.T)
        return np.asarray(lifted @ local @ lifted.T)

    def put_on(self, poses: Poses, own: Bools) -> Poses:
        """Return a pose (1) moved so that its silhouette has the middle of pixels (h, w)."""
        eye, target = np.array(self._tracked.camera.position), np.argwhere(own).mean(axis=0)
        for _ in range(2):  # its centre first, if it is not yet in the image
            window, shape, *_ = self._look(poses, Silhouette(own, own), 2)
            is_seen, centre = bool(shape.any()), self._centre_of(poses)[0] - eye
            middle = np.argwhere(shape).mean(axis=0) + window[::2] if is_seen else target
            pixels = np.round([middle, target]).astype(int)
            rays = self._tracked.rays[tuple(pixels.T)]
            points = rays * (centre @ self._axes[2] / (rays @ self._axes[2]))[:, None]
            shift = points[1] - (points[0] if is_seen else centre)
            poses = self.moved(poses, np.append(self._axes[:2] @ shift, 0.0))
        return poses

    def fit(self, poses: Poses, seen: Silhouette, blurs: Sequence[float]) -> PlanarFit:
        """Return the pose (1) after a step for each blur [px], and more of the last one."""
        for number, blur in enumerate([*blurs, *[blurs[-1]] * _MORE]):
            step = self._solve(poses, seen, blur).step
            poses = self.moved(poses, step)
            if number >= len(blurs) and np.linalg.norm(step) < _CONVERGED_PX * self._pixel(poses):
                break
        covariance = self._solve(poses, seen, blurs[-1], is_last=True).covariance
        return PlanarFit(poses, covariance, *self.compare(poses, seen))

    def compare(self, poses: Poses, seen: Silhouette) -> tuple[float, float, int]:
        """Return agreement, overlap and visible pixels of a pose (1), as of `PlanarFit`."""
        _, shape, own, counted = self._look(poses, seen, _MARGIN_PX)
        shape, own = shape & counted, own & counted
        far = own & ~ndimage.binary_dilation(shape, _BESIDE)
        wrong = int(np.sum(far) + np.sum(shape & ~ndimage.binary_dilation(own, _BESIDE)))
        visible = int(shape.sum())
        agreement = 1.0 - wrong / max(visible + int(far.sum()), 1)
        both = int(np.sum(shape & own))
        return agreement, both / max(visible + int(seen.own.sum()) - both, 1), visible

    def _look(
        self, poses: Poses, seen: Silhouette, margin: int
    ) -> tuple[Window, Bools, Bools, Bools]:
        """Return a window about a pose (1), its silhouette there, and what an image shows."""
        self._renderer.place(poses)
        window = self._renderer.window(margin)
        depth = self._renderer.render(window).depth
        shape = np.isfinite(depth)
        hidden = shape & (self._tracked.background.crop(window) < depth)
        return window, shape, seen.own[window.slices], seen.counted[window.slices] & ~hidden

    def _silhouette(self, poses: Poses, window: Window) -> Array:
        self._renderer.place(poses)
        return np.isfinite(self._renderer.render(window).depth).astype(float)

    def _pixel(self, poses: Poses) -> float:
        """Return the size of a pixel at a pose (1) [m]."""
        view = self._tracked.camera
        return float(np.linalg.norm(self._centre_of(poses) - view.position)) / view.fx

    def _solve(
        self, poses: Poses, seen: Silhouette, blur: float, is_last: bool = False
    ) -> Displacement:
        """Return the step that a blur [px] shows; with its covariance if it `is_last`."""
        window, shape, own, counted = self._look(poses, seen, int(np.ceil(_REACHES * blur)) + 2)
        error = counted * (own.astype(float) - shape)
        slopes, width = np.zeros((*shape.shape, 3)), max(blur, 1.0) * self._pixel(poses)
        for k, step in enumerate(width * np.eye(3)):
            ahead, back = (self._silhouette(self.moved(poses, s), window) for s in (step, -step))
            slopes[..., k] = counted * (ahead - back) / (2.0 * width)
        smooth = ndimage.gaussian_filter(slopes, blur, axes=(0, 1))
        information = np.einsum('hwi,hwj->ij', smooth, smooth)
        gains = ndimage.gaussian_filter(smooth, blur, axes=(0, 1))
        gradient = np.einsum('hwi,hw->i', gains, error)
        # variance of the gradient: edges are rounded to pixels, and errors nearby are alike
        edges = shape & counted
        spread = _ROUNDING * (_rounded(edges, gains) + _rounded(edges.T, gains.swapaxes(0, 1)))
        if is_last:  # before, errors are those of a part that is not yet in place
            sums = ndimage.gaussian_filter(gains * error[..., None], _ALIKE_PX, axes=(0, 1))
            spread += 4.0 * np.pi * _ALIKE_PX**2 * np.einsum('hwi,hwj->ij', sums, sums)
        spread += max(_LEAST * np.trace(spread), 1e-300) * np.eye(3)
        known = information @ np.linalg.solve(spread, information)
        return equations.solve_along(
            PoseEquations(information, gradient, known), np.eye(3), self.radius
        )


def _rounded(shape: Bools, gains: Array) -> Array:
    """Return squares (3, 3) of gains (h, w, 3) of edges between rows, which are off as a whole."""
    labels, count = ndimage.label(shape[1:] != shape[:-1], [[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    middles = np.moveaxis(0.5 * (gains[1:] + gains[:-1]), -1, 0)
    sums = np.array(
        [np.bincount(labels.ravel(), middle.ravel(), count + 1)[1:] for middle in middles]
    )
    return np.asarray(sums @ sums.T)
