"""Search parts that were lost among what is in front of the background."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from scipy.spatial.transform import Rotation

from emppi_ros.core.pose import Poses
from emppi_ros.tracking import fitting
from emppi_ros.tracking.fitting import Evidence, Fit
from emppi_ros.tracking.parts import FAR, Bools, TrackedParts
from emppi_ros.tracking.renderer import Window

Array = npt.NDArray[np.float64]
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
