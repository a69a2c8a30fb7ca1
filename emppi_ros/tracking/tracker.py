"""
Poses of rigid parts in depth images, by inverse rendering.

The poses whose rendered depth fits an image best are found by Gauss-Newton steps, from where the
parts would be at constant velocity. Where that fits badly, a few steps of point-to-plane
alignment, which converge from farther away, come first. Errors have robust weights, in units of
noise that grows with the square of depth. Directions that the image does not show, such as the
roll of a cylinder, stay as they were and get a large covariance. A part that seems to have turned
abruptly, as into an orientation that looks alike, is fitted again from the rotation that was
predicted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations, fitting
from emppi_ros.tracking.fitting import NOTHING_KNOWN, Evidence, Fit
from emppi_ros.tracking.parts import FAR, TrackedParts
from emppi_ros.tracking.renderer import Window

TRACKED, HIDDEN, LOST = 'tracked', 'hidden', 'lost'
FEWEST_PIXELS = 25
_HYPOTHESES = 12  # rotations that are tried for a lost part
_CLUSTERS = 3
_BETTER = 0.03  # score by which another rotation is better: parts may be symmetric
_SEARCH_RADII = 2.0  # reach of alignment, in radii: its rotation may be far from any tried
_SPEED = 1.0  # m/s: how fast the place of a lost part becomes uncertain
_JUMP_M = 0.1  # of depth from one pixel to the next, which separates clusters
_ENOUGH = 0.7  # share of pixels on which part and cluster agree
_MISFIT = 4.0  # squared errors in units of the noise: another shape
_GAIN = 0.5  # squared errors that a part explains better than the background, per pixel
_GOOD = 2.0  # the same, for a part that is found again
_WELL = 0.95  # share of visible pixels with the right depth
FARTHER = 3  # reach of outlines for a part that fits badly
_JUMP_RAD = 0.3  # from the prediction: three times the largest standard deviation that is seen
_JUMP_GAIN = FEWEST_PIXELS * fitting.RIGHT**2  # squared errors that it must explain


class PartEstimate(NamedTuple):
    """
    Pose of a part in one image.

    Attributes
    ----------
    position : (3,) array
        Origin of the part in the world [m].
    rotation : (3, 3) array
        Rotation matrix.
    covariance : (6, 6) array
        Of the position and of a rotation about the axes of the world.
    status : str
        `tracked`, `hidden` behind something else or outside of the image, or `lost`.
    fit : float
        Share of visible pixels that have the right depth.

    """

    position: Array
    rotation: Array
    covariance: Array
    status: str
    fit: float

    @property
    def row(self) -> Array:
        """Position and quaternion wxyz (7,)."""
        return Poses(self.position[None], self.rotation[None]).rows[0]


class TrackerState(NamedTuple):
    """
    What the tracker remembers from one image to the next.

    Attributes
    ----------
    time : float
        Of the last image [s]; NaN before the first.
    poses : Poses
        Poses in which the parts were tracked last.
    velocity : (B, 6) array
        Of the centres of the parts [m/s], and angular [rad/s].
    status : tuple
        Status of each part.
    seen_at : (B,) array
        Times at which they were tracked last [s]; NaN before the first image.

    """

    time: float
    poses: Poses
    velocity: Array
    status: tuple[str, ...]
    seen_at: Array


def start(tracked: TrackedParts, poses: Poses | None = None) -> TrackerState:
    """Return the state before the first image, with the parts at rest at given poses."""
    poses = tracked.initial if poses is None else poses
    count = len(poses.position)
    return TrackerState(
        np.nan, poses, np.zeros((count, 6)), (TRACKED,) * count, np.full(count, np.nan)
    )


def track(
    tracked: TrackedParts,
    state: TrackerState,
    time: float,
    image: Array,
    mask: Bools | None = None,
) -> tuple[TrackerState, list[PartEstimate]]:
    """
    Return the state and the poses of all parts after an image.

    `image` (h, w) are depths [m], NaN or 0 where there is none; `mask` (h, w) is true where parts
    may be. PoseError if sizes or times do not fit.
    """
    image = prepare(tracked, state.time, time, image, mask)
    guess = _predict(tracked, state, time)
    fitted = _fit_from(tracked, guess, image)
    status = judge(tracked, fitted.evidence)
    if set(status) != {TRACKED}:
        missing_s = np.nan_to_num(time - state.seen_at)
        fitted, status = find_again(tracked, fitted, status, image, state.poses, missing_s)
    fitted, status = _reject_jumps(tracked, guess, fitted, status, image)
    estimates = [
        PartEstimate(
            fitted.poses.position[part],
            fitted.poses.rotation[part],
            _covariance(tracked, fitted, part, status[part]),
            status[part],
            float(fitted.evidence.fits[part]),
        )
        for part in range(len(status))
    ]
    velocity = _velocity(tracked, state, fitted, status, time)
    is_seen = np.array([one == TRACKED for one in status])
    poses = fitted.poses.where(is_seen, state.poses)
    seen_at = np.where(is_seen, time, state.seen_at)
    return TrackerState(time, poses, velocity, status, seen_at), estimates


def prepare(
    tracked: TrackedParts, last: float, time: float, image: Array, mask: Bools | None
) -> Array:
    """Return an image with NaN where there is no depth; PoseError if it does not fit."""
    shape = tracked.camera.height, tracked.camera.width
    if image.shape != shape or (mask is not None and mask.shape != shape):
        other = image if image.shape != shape else mask
        assert other is not None
        raise PoseError(
            f'image at {time:.6g} s: found {other.shape[1]} x {other.shape[0]} px, expected '
            f'{shape[1]} x {shape[0]}, as the intrinsics say'
        )
    if time <= last:
        raise PoseError(f'image at {time:.6g} s: not after the one before, at {last:.6g} s')
    image = np.where((image > 0.0) & np.isfinite(image), image, np.nan)
    return image if mask is None else np.where(mask, image, FAR)


def _fit_from(tracked: TrackedParts, guess: Poses, image: Array) -> Fit:
    """
    Return the fit from a guess; parts that fit badly are aligned first, if that is better.

    Alignment converges from farther away, but takes what is beside a part for the part.
    """
    fitted = fitting.fit(tracked, guess, image)
    evidence = fitted.evidence
    bad = fits_badly(evidence)
    if not bad.any() or not tracked.settings.alignment_steps:
        return fitted
    aligned = fitting.align(tracked, guess, image)
    poses = aligned.where(bad, fitted.poses)
    wide = fitting.fit(tracked, poses, image, FARTHER)
    other = fitting.fit(tracked, wide.poses, image)
    return other if quality(other.evidence, bad) > quality(evidence, bad) else fitted


def fits_badly(evidence: Evidence) -> Bools:
    """Return which parts (B,) fit so badly that alignment may help."""
    return (evidence.fits < _WELL) & (evidence.visible >= FEWEST_PIXELS)


def quality(evidence: Evidence, parts: Bools) -> float:
    """Return how many more pixels have the right depth than a wrong one, relative to noise."""
    return float(np.sum((evidence.visible * (2.0 * evidence.fits - 1.0) / evidence.scale)[parts]))


def _reject_jumps(
    tracked: TrackedParts, guess: Poses, fitted: Fit, status: tuple[str, ...], image: Array
) -> tuple[Fit, tuple[str, ...]]:
    """
    Return fit and status after parts that turned abruptly are fitted from the guessed rotation.

    Where this ends in another orientation, the jump has to explain the image better: several
    orientations may look alike, and a part that is nearly hidden may fit in many.
    """
    for part in np.flatnonzero(_angles(guess, fitted.poses) > _JUMP_RAD):
        if status[part] != TRACKED:
            continue
        position, rotation = fitted.poses.position.copy(), fitted.poses.rotation.copy()
        rotation[part] = guess.rotation[part]
        centre = tracked.shapes[part].centre
        position[part] += (fitted.poses.rotation[part] - rotation[part]) @ centre
        other = fitting.fit(tracked, Poses(position, rotation), image)
        is_other = _angles(other.poses, fitted.poses)[part] > _JUMP_RAD
        least = _gain(fitted) - (_JUMP_GAIN if is_other else 0.0)
        judged = judge(tracked, other.evidence)
        if judged[part] == TRACKED and _gain(other) > least:
            fitted, status = other, judged
    return fitted, status


def _angles(first: Poses, second: Poses) -> Array:
    """Return by which angles (B,) the parts are turned from some poses to others."""
    turns = Rotation.from_matrix(first.rotation @ np.swapaxes(second.rotation, 1, 2))
    return np.asarray(turns.magnitude(), np.float64)


def _gain(fitted: Fit) -> float:
    """Return how much less the squared errors, in units of noise, are than without the parts."""
    return float(fitted.evidence.gain @ fitted.evidence.visible)


def _covariance(tracked: TrackedParts, fitted: Fit, part: int, status: str) -> Array:
    """Return the covariance (6, 6) of a pose."""
    step = fitted.steps[part]
    if step is None or status != TRACKED:
        centre = fitted.poses.rotation[part] @ tracked.shapes[part].centre
        radius = tracked.shapes[part].radius
        return equations.solve(NOTHING_KNOWN, np.zeros((6, 6)), centre, radius).covariance
    return step.covariance * fitted.evidence.scale[part]


def _predict(tracked: TrackedParts, state: TrackerState, time: float) -> Poses:
    """Return where the parts are at a time, at constant velocity of their centres."""
    dt = 0.0 if np.isnan(state.time) else time - state.time
    position, rotation = state.poses.position.copy(), state.poses.rotation.copy()
    for part, shape in enumerate(tracked.shapes):
        linear, angular = np.split(dt * state.velocity[part], 2)
        centre = position[part] + rotation[part] @ shape.centre + linear
        rotation[part] = Rotation.from_rotvec(angular).as_matrix() @ rotation[part]
        position[part] = centre - rotation[part] @ shape.centre
    return Poses(position, rotation)


def _velocity(
    tracked: TrackedParts, state: TrackerState, fitted: Fit, status: Sequence[str], time: float
) -> Array:
    """Return velocities (B, 6) of the parts, along directions that the image shows."""
    velocity = np.zeros_like(state.velocity)
    if np.isnan(state.time):
        return velocity
    for part, shape in enumerate(tracked.shapes):
        step = fitted.steps[part]
        if status[part] != TRACKED or state.status[part] != TRACKED or step is None:
            continue
        old, new = state.poses.rotation[part], fitted.poses.rotation[part]
        turn = Rotation.from_matrix(new @ old.T).as_rotvec()
        shift = fitted.poses.position[part] - state.poses.position[part]
        seen = step.seen @ np.concatenate([shift, turn])
        arm = new @ shape.centre
        linear = seen[:3] + np.cross(seen[3:], arm)
        velocity[part] = np.concatenate([linear, seen[3:]]) / (time - state.time)
    return velocity


def judge(tracked: TrackedParts, evidence: Evidence) -> tuple[str, ...]:
    """Return the status of each part."""
    lost = evidence.fits < tracked.settings.lost_below
    lost |= (evidence.scale > _MISFIT) | (evidence.gain < _GAIN)
    hidden = evidence.visible < FEWEST_PIXELS
    return tuple(
        HIDDEN if out_of_sight else LOST if wrong else TRACKED
        for out_of_sight, wrong in zip(hidden, lost, strict=True)
    )


class Cluster(NamedTuple):
    """Pixels (h, w) that belong together, and the median (3,) of their points [m]."""

    pixels: Bools
    centre: Array


def find_again(
    tracked: TrackedParts,
    fitted: Fit,
    status: tuple[str, ...],
    image: Array,
    last: Poses,
    missing_s: Array,
) -> tuple[Fit, tuple[str, ...]]:
    """
    Search parts that are not tracked among what no part explains; return poses that fit.

    They are searched where they may have moved since they were seen at the poses `last`, which was
    `missing_s` (B,) ago.

    A pose counts if it has the right depths and explains most of a cluster of pixels: what moves
    in front of a part, such as a robot, is not taken for it.
    """
    for part, what in enumerate(status):
        if what == TRACKED:
            continue
        best, poses, where = 0.0, None, None
        shape = tracked.shapes[part]
        centre = last.position[part] + last.rotation[part] @ shape.centre
        farthest = tracked.settings.reach_m + shape.radius + _SPEED * missing_s[part]
        for cluster in _unexplained(tracked, fitted, status, image):
            if np.linalg.norm(cluster.centre - centre) > farthest:
                continue
            for turn in _rotations(last.rotation[part]):
                moved = _candidate(tracked, fitted.poses, part, cluster.centre, turn, image)
                score = _score(tracked, moved, part, cluster, image)
                if score > best + _BETTER:
                    best, poses, where = score, moved, cluster
        if poses is None or where is None:
            continue
        again = fitting.fit(tracked, poses, image)
        score = _score(tracked, again.poses, part, where, image)
        if score > _ENOUGH and again.evidence.scale[part] < _GOOD:
            fitted, status = again, judge(tracked, again.evidence)
    return fitted, status


def _candidate(
    tracked: TrackedParts, poses: Poses, part: int, centre: Array, turn: Array, image: Array
) -> Poses:
    """Return the poses after a part is put with its centre at a place, and aligned."""
    position, rotation = poses.position.copy(), poses.rotation.copy()
    rotation[part] = turn
    position[part] = centre - turn @ tracked.shapes[part].centre
    reach = _SEARCH_RADII * tracked.shapes[part].radius
    aligned = fitting.align(tracked, Poses(position, rotation), image, reach)
    # the others stay where they are
    position[part], rotation[part] = aligned.position[part], aligned.rotation[part]
    return Poses(position, rotation)


def _score(
    tracked: TrackedParts, poses: Poses, part: int, cluster: Cluster, image: Array
) -> float:
    """Return the share of pixels of part and cluster on which both agree."""
    rendered, window = fitting.render(tracked, poses)
    observed, pixels = image[window.slices], cluster.pixels[window.slices]
    own = (rendered.part == part) & np.isfinite(observed)
    with np.errstate(invalid='ignore'):
        error = observed - rendered.depth
        sd = tracked.noise(rendered.depth)
        right = own & pixels & (np.abs(error) < fitting.RIGHT * sd)
        wrong = own & (error > fitting.RIGHT * sd)
    either = int(cluster.pixels.sum()) + int(wrong.sum())
    return float(right.sum()) / max(either, 1)


def _rotations(last: Array) -> list[Array]:
    """Return rotations to try: the last one, and others spread over all."""
    others = Rotation.random(_HYPOTHESES, random_state=np.random.default_rng(0)).as_matrix()
    return [last, *others]


def _unexplained(
    tracked: TrackedParts, fitted: Fit, status: Sequence[str], image: Array
) -> list[Cluster]:
    """Return the largest clusters in front that no tracked part explains."""
    behind = tracked.background.crop(Window(0, image.shape[0], 0, image.shape[1]))
    front = tracked.is_foreground(image, behind)
    rendered, window = fitting.render(tracked, fitted.poses)
    known = np.isin(rendered.part, [i for i, one in enumerate(status) if one == TRACKED])
    with np.errstate(invalid='ignore'):
        error = np.abs(image[window.slices] - rendered.depth)
        known &= error < fitting.RIGHT * tracked.noise(rendered.depth)
    front[window.slices] &= ~known
    depth = ndimage.median_filter(np.where(front, image, FAR), 3)
    jump = ndimage.maximum_filter(depth, 3) - ndimage.minimum_filter(depth, 3)
    labels, count = ndimage.label(front & (jump < _JUMP_M))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    clusters = []
    for label in np.argsort(-sizes)[:_CLUSTERS]:
        own = labels == label + 1
        if sizes[label] < FEWEST_PIXELS:
            break
        points = np.array(tracked.camera.position) + tracked.rays[own] * image[own][:, None]
        clusters.append(Cluster(own, np.median(points, axis=0)))
    return clusters
