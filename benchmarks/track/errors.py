"""Errors of a part over a video, and whether covariances are right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.spatial.transform import Rotation

from benchmarks.track.estimators import EstimatedPoses
from benchmarks.track.videos import MadeVideo
from emppi_ros.core.arrays import Array
from emppi_ros.tracking import equations

_SEEN_RAD = 0.5  # standard deviation, times the size of a part: what counts as seen


@dataclass(frozen=True)
class PartErrors:
    """
    Errors of a part over a video, without the first image.

    Covariances are judged along the directions that the estimator says are seen: `squares` is the
    mean squared error in units of the covariance per direction, which is 1 if it is right, and
    `inside` the share of images in which the error is in the 90 % region.
    """

    centre_p50_mm: float
    centre_p95_mm: float
    axis_p50_deg: float  # the largest of the axes that images show
    axis_p95_deg: float
    mean_absolute: float  # of three coordinates of position [m] and three of rotation [rad]
    tracked: float  # share of images
    squares: float | None
    inside: float | None


def errors_of(
    video: MadeVideo, found: Sequence[EstimatedPoses], part: int, shape: equations.Shape,
    axes: Sequence[int],
) -> PartErrors:  # fmt: skip
    """Return the errors of a part; those of images in which it is lost count, too."""
    rows = range(1, len(found))
    true = [video.poses[i] for i in rows]
    position = np.array([found[i].poses.position[part] for i in rows])
    rotation = np.array([found[i].poses.rotation[part] for i in rows])
    true_position = np.array([one.position[part] for one in true])
    true_rotation = np.array([one.rotation[part] for one in true])
    centre = position + rotation @ shape.centre - true_position - true_rotation @ shape.centre
    cosine = np.sum(rotation * true_rotation, axis=1)[:, list(axes)]
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).max(axis=1)
    turn = Rotation.from_matrix(rotation @ np.swapaxes(true_rotation, 1, 2)).as_rotvec()
    errors = np.concatenate([position - true_position, turn], axis=1)
    distance = 1e3 * np.linalg.norm(centre, axis=1)
    tracked = np.array([found[i].tracked[part] for i in rows])
    squares = inside = None
    if found[1].covariance is not None:
        covariance = np.array([_covariances(found[i])[part] for i in rows])
        arms = true_rotation @ shape.centre
        judged = [
            _judge(errors[i], covariance[i], arms[i], shape.radius)
            for i in np.flatnonzero(tracked)
        ]
        if judged:
            squares = float(np.mean([one[0] for one in judged]))
            inside = float(np.mean([one[1] for one in judged]))
    return PartErrors(
        float(np.quantile(distance, 0.5)), float(np.quantile(distance, 0.95)),
        float(np.quantile(angle, 0.5)), float(np.quantile(angle, 0.95)),
        float(np.mean(np.abs(errors))), float(tracked.mean()), squares, inside,
    )  # fmt: skip


def _covariances(estimate: EstimatedPoses) -> Array:
    assert estimate.covariance is not None
    return estimate.covariance


def _judge(error: Array, covariance: Array, arm: Array, radius: float) -> tuple[float, bool]:
    """Return the squared error per seen direction, and whether it is in the 90 % region."""
    to_centre = np.linalg.inv(equations.centred(arm, radius))
    values, vectors = np.linalg.eigh(to_centre @ covariance @ to_centre.T)
    seen = values < (_SEEN_RAD * radius) ** 2
    square = float(np.sum((vectors[:, seen].T @ (to_centre @ error)) ** 2 / values[seen]))
    count = max(int(seen.sum()), 1)
    return square / count, square < float(stats.chi2.ppf(0.9, count))
