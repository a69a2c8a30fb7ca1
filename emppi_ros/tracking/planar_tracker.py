"""Poses of parts that move in a plane, from silhouettes in images of colours or labels."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from emppi_ros.core.arrays import Bools, Ints
from emppi_ros.core.errors import ConfigError
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import silhouettes
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.fitting import FEWEST_PIXELS
from emppi_ros.tracking.parts import PartsFile, prepare_parts
from emppi_ros.tracking.planar_fitting import PlanarFit, PlanarPart, Silhouette
from emppi_ros.tracking.renderer import NOTHING, PartRenderer
from emppi_ros.tracking.tracker import HIDDEN, LOST, TRACKED, PartEstimate

_NEAR_PX = 3.0, 1.0  # blurs of a fit from where a part should be
_FAR_PX, _FAR, _BLURS = 10.0, 0.35, 6  # and from elsewhere; relative to its size; down to 1 px
_ANGLES = 8  # of a search
_WELL = 0.95  # agreement with which a fit is not tried from elsewhere
_LARGE = 0.1  # of the largest piece of a silhouette: smaller ones are noise
_ALIKE, _OTHER_RAD = 0.03, 0.3  # overlaps that are as good, of orientations that differ
_EDGE_PX = 2  # about other parts, where colours mix
_FLATTEST = 0.2  # sine of the angle between a plane and the optical axis


class PlanarTracker:
    """Tracks parts image by image, each in a plane; `poses` (B) are those that were seen last."""

    def __init__(self, file: PartsFile, camera: Camera) -> None:
        """Prepare parts with a normal and marks; ConfigError if these do not fit."""
        assert file.plane is not None
        normal = np.array(file.plane) / max(float(np.linalg.norm(file.plane)), 1e-9)
        silhouettes.check_marks(file.names, file.marks, file.tracker.hue_tolerance_deg)
        self.tracked, self.poses, self._file = prepare_parts(file, camera), file.start, file
        if not abs(float(camera.matrix[:, 2] @ normal)) > _FLATTEST:
            raise ConfigError(
                f'plane: found {list(file.plane)}, expected the normal of a plane that the '
                'camera sees, and not from the side: check it, and the pose of the camera'
            )
        heights, self._parts = [], []
        for part, (body, shape) in enumerate(zip(file.bodies, self.tracked.shapes, strict=True)):
            renderer = PartRenderer(file.model, [body], camera)
            self._parts.append(PlanarPart(self.tracked, renderer, shape, normal))
            place, turn = self.poses.at(part)
            points = place + self.tracked.surfaces[part].points @ turn.T - camera.position
            heights.append(np.abs(points @ normal))
        # (B, B), whether one may cover another: heights above the camera do not change
        self._covers = np.less.outer([h.min() for h in heights], [h.max() for h in heights])
        self._velocity, self._seen_at = np.zeros((len(self._parts), 3)), [np.nan] * len(heights)
        self._time, self._alike = np.nan, set[str]()

    @property
    def notes(self) -> tuple[str, ...]:
        """Which parts look alike in other orientations."""
        text = 'looks alike in another orientation: the nearest to its pose before, or in --parts'
        return tuple(f'{name}: {text}' for name in sorted(self._alike))

    def track(
        self, time: float, image: npt.NDArray[Any], mask: Bools | None = None
    ) -> list[PartEstimate]:
        """
        Return the poses of all parts in an image of colours (h, w, 3) or labels (h, w).

        `mask` (h, w) is true where parts may be. PoseError if the image does not fit.
        """
        self.tracked.check_image(self._time, time, image, mask)
        labels, estimates = self._segment(image), list[PartEstimate]()
        if mask is not None:
            labels = np.where(mask, labels, NOTHING)
        dt = 0.0 if np.isnan(self._time) else time - self._time
        position, rotation = self.poses.position.copy(), self.poses.rotation.copy()
        for part, shape in enumerate(self._parts):
            seen, last = self._silhouette(labels, part), self.poses.at([part])
            guess = shape.moved(last, dt * self._velocity[part])
            fit = self._find(part, guess, seen)
            status, pose = self._judge(fit, seen), fit.poses.at(0)
            covariance = shape.covariance(fit, status == TRACKED)
            estimates.append(PartEstimate(*pose, covariance, status, fit.agreement))
            self._velocity[part] = 0.0
            if status == TRACKED:
                step = shape.step(last, fit.poses) / (time - self._seen_at[part])
                self._velocity[part], self._seen_at[part] = np.nan_to_num(step), time
                position[part], rotation[part] = pose
        self._time, self.poses = time, Poses(position, rotation)
        return estimates

    def explain_losses(self, poses: Poses, time: float, image: npt.NDArray[Any]) -> list[str]:
        """Return a sentence for each part that says what an image shows of it."""
        labels, sentences = self._segment(image), []
        for part, (name, mark) in enumerate(zip(self._file.names, self._file.marks, strict=True)):
            seen = self._silhouette(labels, part)
            visible = self._parts[part].compare(poses.at([part]), seen)[2]
            what = f'label {mark.label}' if mark.color is None else f'color {list(mark.color)}'
            sentences.append(
                f'{name}: {int(seen.own.sum())} px have its {what} at {time:.6g} s, and its shape '
                f'has about {visible}: check these, its first pose, `plane`, and the camera pose'
            )
        return sentences

    def _segment(self, image: npt.NDArray[Any]) -> Ints:
        return silhouettes.segment(image, self._file.marks, self._file.tracker.hue_tolerance_deg)

    def _silhouette(self, labels: Ints, part: int) -> Silhouette:
        """Return what an image shows of a part, which others may cover."""
        covering = np.flatnonzero(self._covers[:, part])
        covers = np.isin(labels, covering[covering != part])
        own = labels == part
        return Silhouette(own, own | ~ndimage.binary_dilation(covers, iterations=_EDGE_PX))

    def _judge(self, fit: PlanarFit, seen: Silhouette) -> str:
        """Return the status of a part."""
        if max(fit.visible, int(seen.own.sum())) < FEWEST_PIXELS:
            return HIDDEN
        agrees = fit.agreement >= self._file.tracker.lost_below
        return TRACKED if agrees and fit.visible >= FEWEST_PIXELS else LOST

    def _find(self, part: int, guess: Poses, seen: Silhouette) -> PlanarFit:
        """Return the fit of a part from where it should be, or of a search in the whole image."""
        shape = self._parts[part]
        current = shape.fit(guess, seen, _NEAR_PX)
        is_new, is_good = np.isnan(self._seen_at[part]), current.agreement > _WELL
        is_good &= self._judge(current, seen) == TRACKED
        if (is_good and not is_new) or np.sum(seen.own) < FEWEST_PIXELS:
            return current
        pieces, _ = ndimage.label(seen.own, np.ones((3, 3)))
        sizes = np.bincount(pieces[seen.own])
        large = seen.own & (sizes[pieces] >= _LARGE * sizes.max())
        blurs = np.geomspace(max(_FAR_PX, _FAR * np.sqrt(large.sum())), 1.0, _BLURS).tolist()
        current = max(current, shape.fit(guess, seen, blurs), key=lambda fit: fit.agreement)
        if self._judge(current, seen) == TRACKED and not is_new:
            return current
        turns = np.linspace(0.0, 2.0 * np.pi * shape.radius, _ANGLES, endpoint=False)
        poses = [shape.moved(guess, np.array([0.0, 0.0, turn])) for turn in turns]
        fits = [current, *(shape.fit(shape.put_on(pose, large), seen, blurs) for pose in poses)]
        best = max(fits, key=lambda fit: fit.overlap)
        if self._judge(best, seen) != TRACKED:
            return current
        # of orientations that look the same, that which is nearest to where it should be
        fits = [fit for fit in fits if fit.overlap > best.overlap - _ALIKE]
        angles = [abs(shape.step(guess, fit.poses)[2]) / shape.radius for fit in fits]
        if best.covariance[2, 2] < shape.radius**2 and np.ptp(angles) > _OTHER_RAD:
            self._alike.add(self._file.names[part])
        return fits[int(np.argmin(angles))]
