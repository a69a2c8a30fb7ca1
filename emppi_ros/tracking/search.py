"""Search parts that were lost among what is in front of the background."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from scipy.spatial.transform import Rotation

from emppi_ros.tracking import fitting
from emppi_ros.tracking.fitting import Fit
from emppi_ros.tracking.parts import FAR, TUKEY, Bools, TrackedParts
from emppi_ros.tracking.renderer import Placement

Array = npt.NDArray[np.float64]
TRACKED, HIDDEN, LOST = 'tracked', 'hidden', 'lost'
_FEWEST_PIXELS = 25
_HYPOTHESES = 12  # rotations that are tried for a lost part
_CLUSTERS = 3
_JUMP_M = 0.1  # of depth from one pixel to the next, which separates clusters
_ENOUGH = 0.6  # share of pixels on which part and cluster agree


def judge(tracked: TrackedParts, fitted: Fit) -> tuple[str, ...]:
    """Return the status of each part."""
    return tuple(
        HIDDEN
        if seen < _FEWEST_PIXELS
        else LOST
        if share < tracked.settings.lost_below
        else TRACKED
        for seen, share in zip(fitted.visible, fitted.fits, strict=True)
    )


class Cluster(NamedTuple):
    """Pixels (h, w) that belong together, and the median (3,) of their points [m]."""

    pixels: Bools
    centre: Array


def find_again(
    tracked: TrackedParts, fitted: Fit, status: tuple[str, ...], image: Array
) -> tuple[Fit, tuple[str, ...]]:
    """
    Search parts that are not tracked among what no part explains; return poses that fit.

    A pose counts if it has the right depths and explains most of a cluster of pixels: what moves
    in front of a part, such as a robot, is not taken for it.
    """
    for part, what in enumerate(status):
        if what == TRACKED:
            continue
        best, poses, where = 0.0, None, None
        for cluster in _unexplained(tracked, fitted, status, image):
            for turn in _rotations(fitted.poses.rotation[part]):
                moved = _candidate(tracked, fitted.poses, part, cluster.centre, turn, image)
                score = _score(tracked, moved, part, cluster, image)
                if score > best:
                    best, poses, where = score, moved, cluster
        if poses is None or where is None:
            continue
        again = fitting.fit(tracked, poses, image)
        if _score(tracked, again.poses, part, where, image) > _ENOUGH:
            fitted, status = again, judge(tracked, again)
    return fitted, status


def _candidate(
    tracked: TrackedParts, poses: Placement, part: int, centre: Array, turn: Array, image: Array
) -> Placement:
    """Return the poses after a part is put with its centre at a place, and aligned."""
    position, rotation = poses.position.copy(), poses.rotation.copy()
    rotation[part] = turn
    position[part] = centre - turn @ tracked.shapes[part].centre
    aligned = fitting.align(tracked, Placement(position, rotation), image)
    # the others stay where they are
    position[part], rotation[part] = aligned.position[part], aligned.rotation[part]
    return Placement(position, rotation)


def _score(
    tracked: TrackedParts, poses: Placement, part: int, cluster: Cluster, image: Array
) -> float:
    """Return the share of pixels of part and cluster on which both agree."""
    rendered, window = fitting.render(tracked, poses)
    observed, pixels = image[window.slices], cluster.pixels[window.slices]
    own = (rendered.part == part) & np.isfinite(observed)
    with np.errstate(invalid='ignore'):
        error = observed - rendered.depth
        sd = tracked.noise(rendered.depth)
        right = own & pixels & (np.abs(error) < TUKEY * sd)
        wrong = own & (error > TUKEY * sd)
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
    front = tracked.is_foreground(image, tracked.background)
    rendered, window = fitting.render(tracked, fitted.poses)
    known = np.isin(rendered.part, [i for i, one in enumerate(status) if one == TRACKED])
    with np.errstate(invalid='ignore'):
        error = np.abs(image[window.slices] - rendered.depth)
        known &= error < TUKEY * tracked.noise(rendered.depth)
    front[window.slices] &= ~known
    depth = ndimage.median_filter(np.where(front, image, FAR), 3)
    jump = ndimage.maximum_filter(depth, 3) - ndimage.minimum_filter(depth, 3)
    labels, count = ndimage.label(front & (jump < _JUMP_M))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    clusters = []
    for label in np.argsort(-sizes)[:_CLUSTERS]:
        own = labels == label + 1
        if sizes[label] < _FEWEST_PIXELS:
            break
        points = np.array(tracked.camera.position) + tracked.rays[own] * image[own][:, None]
        clusters.append(Cluster(own, np.median(points, axis=0)))
    return clusters
