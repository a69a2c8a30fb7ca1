"""
Poses of rigid parts in depth images, by inverse rendering (docs/tracking.md).

Directions that an image does not show, such as the roll of a cylinder, stay as they were and get a
large covariance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations, fitting
from emppi_ros.tracking.equations import NOTHING_KNOWN, Displacement
from emppi_ros.tracking.fitting import FAR, FEWEST_PIXELS, Evidence, Fit, FreeParts, TrackedParts
from emppi_ros.tracking.renderer import Window

TRACKED, HIDDEN, LOST = 'tracked', 'hidden', 'lost'
_HYPOTHESES = 12  # rotations that are tried for a lost part
_CLUSTERS = 3
_BETTER = 0.03  # score by which another rotation is better: parts may be symmetric
_SEARCH_RADII = 2.0  # reach of alignment, in radii: its rotation may be far from any tried
_SPEED = 1.0  # m/s: how fast the place of a lost part becomes uncertain
_JUMP_M = 0.1  # of depth from one pixel to the next, which separates clusters
_ENOUGH = 0.7  # share of pixels on which part and cluster agree
_MISFIT = 10.5  # squared errors in units of the noise: another shape
_GAIN = 0.5  # squared errors that a part explains better than the background, per pixel
_GOOD = 2.2  # the same, for a part that is found again
_LEARNING = 0.2  # weight of an image in the noise that is learned, after the first one
_REFITS = 2  # to the first image, with its noise
_MORE = 1.2  # times a noise, which is worth another fit
_JUMP_RAD = 0.3  # from the prediction: three times the largest standard deviation that is seen
_JUMP_GAIN = FEWEST_PIXELS * fitting.RIGHT**2  # squared errors that it must explain


class PartEstimate(NamedTuple):
    """Pose of a part in one image."""

    position: Array  # (3,), of its origin in the world [m]
    rotation: Array  # (3, 3)
    covariance: Array  # (6, 6), of the position and of a rotation about the axes of the world
    status: str  # `tracked`, `hidden` behind something else or outside of the image, or `lost`
    fit: float  # share of visible pixels that have the right depth

    @property
    def row(self) -> Array:
        """Position and quaternion wxyz (7,)."""
        return Poses(self.position[None], self.rotation[None]).rows[0]


class PartTracker:
    """
    Tracks parts image by image as free bodies, from given poses.

    `poses` (B) are those in which they were tracked last, and `velocity` (B, 6) is of their
    centres [m/s], and angular [rad/s]; `time` [s] is that of the last image, NaN before the first.
    """

    def __init__(self, tracked: TrackedParts, start: Poses) -> None:
        self.tracked, self.poses = tracked, start
        self.restart()

    def restart(self) -> None:
        """Forget time and velocities, as after the clock was set back."""
        count = len(self.poses.position)
        self.time, self.velocity = np.nan, np.zeros((count, 6))
        self._status = (TRACKED,) * count
        self._seen_at = np.full(count, np.nan)  # s, when the parts were tracked last

    def track(
        self,
        time: float,
        image: Array,
        mask: Bools | None = None,
        joints: Mapping[str, float] | None = None,
    ) -> list[PartEstimate]:
        """
        Return the poses of all parts in an image (h, w) of depths [m], NaN or 0 where is none.

        `mask` (h, w) is true where parts may be; `joints` are measured positions [rad or m] of
        joints of the scene, such as those of a robot, which is then no part. PoseError if sizes or
        times do not fit; SceneError for an unknown joint.
        """
        tracked = self.tracked
        if joints:
            tracked.move_robot(joints)
        image = tracked.prepare(self.time, time, image, mask)
        guess = FreeParts(self._predict(time))
        missing_s = np.nan_to_num(time - self._seen_at)

        def find() -> Fit[FreeParts]:
            fitted = fitting.fit_widely(tracked, guess, image)
            fitted = _find_again(tracked, fitted, image, self.poses, missing_s)
            return _reject_jumps(tracked, guess.poses, fitted, image)

        fitted, status = fit_with_noise(tracked, find, guess.poses)
        poses = fitted.placement.poses
        steps = fitted.placement.steps(tracked, fitted.equations)
        self.velocity = self._velocity(poses, steps, status, time)
        is_seen = np.array([word == TRACKED for word in status])
        self._seen_at = np.where(is_seen, time, self._seen_at)
        self.time, self.poses, self._status = time, poses.where(is_seen, self.poses), status
        covariances, fits = [], fitted.evidence.fits.tolist()
        for part, (step, what) in enumerate(zip(steps, status, strict=True)):
            if step is None or what != TRACKED:
                shape = tracked.shapes[part]
                arm = poses.rotation[part] @ shape.centre
                covariances.append(equations.solve(NOTHING_KNOWN, arm, shape.radius).covariance)
            else:
                covariances.append(step.covariance * fitted.evidence.scale[part])
        return list(map(PartEstimate, *poses, covariances, status, fits))

    def _predict(self, time: float) -> Poses:
        """Return where the parts are at a time, at constant velocity of their centres."""
        dt = 0.0 if np.isnan(self.time) else time - self.time
        position, rotation = self.poses.position.copy(), self.poses.rotation.copy()
        for part, shape in enumerate(self.tracked.shapes):
            linear, angular = np.split(dt * self.velocity[part], 2)
            centre = position[part] + rotation[part] @ shape.centre + linear
            rotation[part] = Rotation.from_rotvec(angular).as_matrix() @ rotation[part]
            position[part] = centre - rotation[part] @ shape.centre
        return Poses(position, rotation)

    def _velocity(
        self, poses: Poses, steps: list[Displacement | None], status: Sequence[str], time: float
    ) -> Array:
        """Return velocities (B, 6) of the parts, along directions that the image shows."""
        velocity = np.zeros_like(self.velocity)
        if np.isnan(self.time):
            return velocity
        for part, (shape, step) in enumerate(zip(self.tracked.shapes, steps, strict=True)):
            if step is None or not status[part] == self._status[part] == TRACKED:
                continue
            old, new = self.poses.rotation[part], poses.rotation[part]
            turn = Rotation.from_matrix(new @ old.T).as_rotvec()
            shift = poses.position[part] - self.poses.position[part]
            seen = step.seen @ np.concatenate([shift, turn])
            linear = seen[:3] + np.cross(seen[3:], new @ shape.centre)
            velocity[part] = np.concatenate([linear, seen[3:]]) / (time - self.time)
        return velocity


def judge(tracked: TrackedParts, evidence: Evidence) -> tuple[str, ...]:
    """Return the status of each part."""
    lost = evidence.fits < tracked.settings.lost_below
    lost |= (evidence.scale > _MISFIT) | (evidence.gain < _GAIN)
    status = np.where(lost, LOST, TRACKED)
    return tuple(np.where(evidence.visible < FEWEST_PIXELS, HIDDEN, status).tolist())


def fit_with_noise(
    tracked: TrackedParts, find: Callable[[], Fit[fitting.P]], poses: Poses
) -> tuple[Fit[fitting.P], tuple[str, ...]]:
    """
    Return the fit that `find` finds, and the status of each part; learn the noise from it.

    A part that was never tracked and is lost is tried with more noise, up to a share of its size.
    `poses` (B) are about where the parts are.
    """
    new, largest, start = ~tracked.is_learned, tracked.largest_excess(poses), tracked.excess
    fitted = find()
    status = np.array(judge(tracked, fitted.evidence))
    for level in (0.5, 1.0):
        retried = new & (status == LOST) & (largest > _MORE)
        if not retried.any():
            break
        tracked.excess = np.where(retried, largest**level, tracked.excess)
        fitted = find()
        status = np.array(judge(tracked, fitted.evidence))
    tracked.excess = np.where(new & (status != TRACKED), start, tracked.excess)
    for _ in range(_REFITS):
        before, ratio = tracked.excess, fitted.evidence.ratio
        learned = before * np.where(new, ratio, ratio**_LEARNING)
        tracked.excess = np.where(status == TRACKED, np.clip(learned, 1.0, largest), before)
        if not np.any(new & (np.abs(np.log(tracked.excess / before)) > np.log(_MORE))):
            break
        fitted = find()
        status = np.array(judge(tracked, fitted.evidence))
    tracked.is_learned |= status == TRACKED
    return fitted, tuple(status.tolist())


def _reject_jumps(
    tracked: TrackedParts, guess: Poses, fitted: Fit[FreeParts], image: Array
) -> Fit[FreeParts]:
    """Return the fit after parts that turned abruptly are fitted from the guessed rotation."""
    for part in np.flatnonzero(_angles(guess, fitted.placement.poses) > _JUMP_RAD).tolist():
        if judge(tracked, fitted.evidence)[part] != TRACKED:
            continue
        poses = fitted.placement.poses
        turn, centre = guess.rotation[part], tracked.shapes[part].centre
        place = poses.position[part] + (poses.rotation[part] - turn) @ centre
        other = fitting.fit(tracked, FreeParts(_with_part(poses, part, place, turn)), image)
        is_other = _angles(other.placement.poses, poses)[part] > _JUMP_RAD
        least = _gain(fitted) - (_JUMP_GAIN if is_other else 0.0)
        if judge(tracked, other.evidence)[part] == TRACKED and _gain(other) > least:
            fitted = other
    return fitted


def _angles(first: Poses, second: Poses) -> Array:
    """Return by which angles (B,) the parts are turned from some poses to others."""
    turns = Rotation.from_matrix(first.rotation @ np.swapaxes(second.rotation, 1, 2))
    return np.asarray(turns.magnitude(), np.float64)


def _gain(fitted: Fit[FreeParts]) -> float:
    """Return how much less the squares of independent errors are than without the parts."""
    return float(fitted.evidence.gain @ (fitted.evidence.visible / fitted.alike))


def _with_part(poses: Poses, part: int, place: Array, turn: Array) -> Poses:
    """Return poses of which one is another position (3,) and rotation (3, 3)."""
    position, rotation = poses.position.copy(), poses.rotation.copy()
    position[part], rotation[part] = place, turn
    return Poses(position, rotation)


class Cluster(NamedTuple):
    """Pixels (h, w) that belong together, and the median (3,) of their points [m]."""

    pixels: Bools
    centre: Array


def _find_again(
    tracked: TrackedParts, fitted: Fit[FreeParts], image: Array, last: Poses, missing_s: Array
) -> Fit[FreeParts]:
    """
    Search parts that are not tracked among what no part explains; return poses that fit.

    They may have moved since they were seen at poses `last`, `missing_s` (B,) ago. A pose counts
    if it explains most of a cluster: what moves in front of a part is not taken for it.
    """
    turns = Rotation.random(_HYPOTHESES, random_state=np.random.default_rng(0)).as_matrix()
    for part, status in enumerate(judge(tracked, fitted.evidence)):
        if status == TRACKED:
            continue
        best, poses, where = 0.0, None, None
        shape = tracked.shapes[part]
        centre = last.position[part] + last.rotation[part] @ shape.centre
        farthest = tracked.settings.reach_m + shape.radius + _SPEED * missing_s[part]
        for cluster in _unexplained(tracked, fitted, image):
            if np.linalg.norm(cluster.centre - centre) > farthest:
                continue
            for turn in (last.rotation[part], *turns):
                place = cluster.centre - turn @ shape.centre
                moved = _with_part(fitted.placement.poses, part, place, turn)
                reach = _SEARCH_RADII * shape.radius
                aligned = fitting.align(tracked, FreeParts(moved), image, reach).poses
                # the others stay where they are
                moved = _with_part(moved, part, aligned.position[part], aligned.rotation[part])
                share = score(tracked, moved, part, cluster, image)
                if share > best + _BETTER:
                    best, poses, where = share, moved, cluster
        if poses is None or where is None:
            continue
        again = fitting.fit(tracked, FreeParts(poses), image)
        share = score(tracked, again.placement.poses, part, where, image)
        if share > _ENOUGH and again.evidence.scale[part] < _GOOD:
            fitted = again
    return fitted


def score(tracked: TrackedParts, poses: Poses, part: int, cluster: Cluster, image: Array) -> float:
    """Return the share of pixels of part and cluster on which both agree."""
    view, window = fitting.look(tracked, poses, image)
    own = (view.part == part) & np.isfinite(view.observed)
    with np.errstate(invalid='ignore'):
        error, limit = view.observed - view.depth, fitting.RIGHT * tracked.noise(view.depth, part)
        right = own & cluster.pixels[window.slices] & (np.abs(error) < limit)
        wrong = own & (error > limit)
    either = int(cluster.pixels.sum()) + int(wrong.sum())
    return float(right.sum()) / max(either, 1)


def _unexplained(tracked: TrackedParts, fitted: Fit[FreeParts], image: Array) -> list[Cluster]:
    """Return the largest clusters in front that no tracked part explains."""
    behind = tracked.background.crop(Window(0, image.shape[0], 0, image.shape[1]))
    front = tracked.is_foreground(image, behind)
    view, window = fitting.look(tracked, fitted.placement.poses, image)
    status = judge(tracked, fitted.evidence)
    known = np.isin(view.part, [i for i, word in enumerate(status) if word == TRACKED])
    with np.errstate(invalid='ignore'):
        error = np.abs(view.observed - view.depth)
        known &= error < fitting.RIGHT * tracked.noise(view.depth, view.part)
    front[window.slices] &= ~known
    depth = ndimage.median_filter(np.where(front, image, FAR), 3)
    jump = ndimage.maximum_filter(depth, 3) - ndimage.minimum_filter(depth, 3)
    return list(islice(clusters(tracked, front & (jump < _JUMP_M), image), _CLUSTERS))


def clusters(tracked: TrackedParts, pixels: Bools, image: Array) -> Iterator[Cluster]:
    """Yield the clusters of some pixels (h, w), the largest first."""
    labels, count = ndimage.label(pixels)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    for label in np.argsort(-sizes)[: int(np.sum(sizes >= FEWEST_PIXELS))]:
        own = labels == label + 1
        points = np.array(tracked.camera.position) + tracked.rays[own] * image[own][:, None]
        yield Cluster(own, np.median(points, axis=0))
