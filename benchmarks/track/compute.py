"""The runs of the benchmark: an estimator on a video with a seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import functools
import hashlib
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.spatial.transform import Rotation

from benchmarks.options import check_names
from benchmarks.track.estimators import (
    JOINTED,
    OWN,
    SMOOTHED,
    TRACKERS,
    EstimatedPoses,
    SmoothedTracker,
)
from benchmarks.track.videos import IMAGES, VIDEOS, MadeVideo, make
from emppi_ros.calibration import hardware
from emppi_ros.core import paths
from emppi_ros.tracking import equations, surfaces

Array = npt.NDArray[np.float64]
SEEDS = range(100, 120)  # settings were chosen with others
QUICK_IMAGES = 12
_SMOOTHER = ('kalman_smoother.py', 'smoothing.py')
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


@dataclass(frozen=True)
class TrackRow:
    """The result of a cell."""

    video: str
    tracker: str
    seed: int
    digest: str
    parts: Mapping[str, PartErrors]
    ms_p50: float  # processor time of an image
    ms_p95: float
    compute_s: float
    made_by: str

    @property
    def key(self) -> tuple[object, ...]:
        """The cell that this is the result of."""
        return self.video, self.tracker, self.seed


@dataclass(frozen=True)
class TrackCell:
    """An estimator on a video with a seed."""

    video: str
    tracker: str
    seed: int
    images: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies the cell."""
        return self.video, self.tracker, self.seed

    @property
    def digest(self) -> str:
        """Identifies the video, and the code that makes it and tracks."""
        return f'{code_digest(self.tracker)}-{self.images}'


@functools.cache
def code_digest(tracker: str) -> str:
    """Return a digest of the code of a tracker, of the videos and of the scenes."""
    folders = ['tracking', 'articulation'] if tracker == JOINTED else ['tracking']
    files = [file for one in folders for file in sorted((paths.PACKAGE / one).glob('*.py'))]
    if tracker != SMOOTHED:
        files = [file for file in files if file.name not in _SMOOTHER]
    names = ('videos.py', 'estimators.py', 'compute.py')
    files += [paths.PACKAGE.parent / 'benchmarks' / 'track' / name for name in names]
    files += [paths.ASSETS / video.file for video in VIDEOS.values()]
    return hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:16]


def make_cells(
    videos: Sequence[str] = tuple(VIDEOS),
    trackers: Sequence[str] = OWN,
    seeds: Sequence[int] = SEEDS,
    images: int = IMAGES,
) -> list[TrackCell]:
    """Return all cells, seed by seed; ConfigError if a name is unknown."""
    check_names('--videos', 'video', videos, VIDEOS)
    check_names('--trackers', 'tracker', trackers, TRACKERS)
    return [
        TrackCell(video, name, seed, images)
        for seed in seeds
        for video in videos
        for name in trackers
    ]


class Estimates(NamedTuple):
    """Estimates in each image, and their processor times [s]."""

    found: list[EstimatedPoses]
    seconds: list[float]


def compute(cell: TrackCell) -> TrackRow:
    """Return the row of a cell; BenchError if a package is missing."""
    began = time.perf_counter()
    video = make(cell.video, cell.seed, cell.images)
    compared = TRACKERS[cell.tracker](video)
    estimates = Estimates([], [])
    for i in range(cell.images):
        start = time.process_time()
        estimates.found.append(compared.track(i))
        estimates.seconds.append(time.process_time() - start)
    if isinstance(compared, SmoothedTracker):
        start = time.process_time()
        smoothed = compared.smooth()
        share = (time.process_time() - start) / cell.images
        estimates = Estimates(smoothed, [one + share for one in estimates.seconds])
    shapes = [one.shape for one in surfaces.sample_surfaces(video.model, video.bodies)]
    parts = {
        name: _errors(video, estimates.found, part, shapes[part], axes)
        for part, (name, axes) in enumerate(VIDEOS[cell.video].parts.items())
    }
    low, high = 1e3 * np.quantile(estimates.seconds[1:], [0.5, 0.95])
    return TrackRow(
        *cell.key,
        cell.digest, parts, float(low), float(high), time.perf_counter() - began, hardware.label(),
    )  # fmt: skip


def _errors(
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
