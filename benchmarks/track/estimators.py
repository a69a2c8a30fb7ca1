"""
Estimators of poses that are compared, and their errors; to add one, add a line to TRACKERS.

Each gets the true poses at the first image. Iterative closest points (ICP) also gets the true
segmentation of each image, which inverse rendering does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mujoco
import numpy as np
from scipy import stats
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from benchmarks.filmed_parts import parts_of
from benchmarks.track.videos import CAMERA, RATE_HZ, MadeVideo
from emppi_ros.articulation import mjcf, topology, tracks
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import BenchError, import_optional
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations, smoothing, surfaces
from emppi_ros.tracking.jointed_parts import JointedParts, JointTracker
from emppi_ros.tracking.parts import prepare_parts
from emppi_ros.tracking.surfaces import Surface
from emppi_ros.tracking.tracker import PartEstimate, PartTracker

OURS, SMOOTHED, JOINTED = 'rendering', 'rendering-smoothed', 'rendering-joints'
_REACH_M = 0.1  # beyond which points do not match
_ITERATIONS, _CONVERGED = 30, 1e-5
_POINTS = 1500  # of a part in an image, at most
_SEEN_RAD = 0.5  # standard deviation, times the size of a part: what counts as seen


class EstimatedPoses(NamedTuple):
    """Poses of all parts in an image, covariances (B, 6, 6) if there are any, and which count."""

    poses: Poses
    covariance: Array | None
    tracked: tuple[bool, ...]


class ComparedTracker(Protocol):
    """Something that estimates poses image by image."""

    def track(self, index: int) -> EstimatedPoses:
        """Return the poses in an image; images come in order."""
        ...


class RenderingTracker:
    """This package."""

    def __init__(self, video: MadeVideo) -> None:
        """Start at the true poses."""
        self._video = video
        self.parts = parts_of(video.model, video.bodies, video.poses[0], CAMERA)
        tracked = prepare_parts(self.parts, video.camera)
        self.tracker: PartTracker | JointTracker = PartTracker(tracked, self.parts.start)
        self.estimates: list[list[PartEstimate]] = []

    def track(self, index: int) -> EstimatedPoses:
        """Return the poses in an image."""
        estimates = self.tracker.track(index / RATE_HZ, self._video.images[index])
        self.estimates.append(estimates)
        return _as_poses(estimates)


class SmoothedTracker(RenderingTracker):
    """This package, with a smoother over all images."""

    def smooth(self) -> list[EstimatedPoses]:
        """Return the poses in all images, after `track` of each."""
        times = np.arange(len(self.estimates)) / RATE_HZ
        smoothed = smoothing.smooth_estimates(times, self.estimates, self.tracker.tracked.shapes)
        return [_as_poses(estimates) for estimates in smoothed]


class JointedTracker(RenderingTracker):
    """This package, in a second pass: on the joints that a first pass of the video showed."""

    def __init__(self, video: MadeVideo) -> None:
        """Track free parts from their true poses, and infer their joints."""
        super().__init__(video)
        for index in range(len(video.images)):
            self.track(index)
        names = self.parts.names
        time = np.arange(len(self.estimates)) / RATE_HZ
        tree = topology.infer(tracks.from_estimates(names, time, self.estimates))
        jointed = JointedParts(mujoco.MjModel.from_xml_string(mjcf.to_text(tree)), names)
        self.tracker = JointTracker(self.tracker.tracked, jointed)


def _as_poses(estimates: Sequence[PartEstimate]) -> EstimatedPoses:
    return EstimatedPoses(
        Poses(
            np.array([estimate.position for estimate in estimates]),
            np.array([estimate.rotation for estimate in estimates]),
        ),
        np.array([estimate.covariance for estimate in estimates]),
        tuple(estimate.status == 'tracked' for estimate in estimates),
    )


class IterativeClosestPoints:
    """Registration of the points of each part, from its last pose."""

    def __init__(self, video: MadeVideo, register: Callable[[Surface, Array], Array]) -> None:
        """Start at the true poses; `register` takes points in the frame of a part to its model."""
        self._video, self._register = video, register
        self._surfaces = surfaces.sample_surfaces(video.model, video.bodies, 3000)
        self._rays = video.camera.rays()
        self._poses = video.poses[0]

    def track(self, index: int) -> EstimatedPoses:
        """Return the poses in an image."""
        image, labels = self._video.images[index], self._video.labels[index]
        position, rotation = self._poses.position.copy(), self._poses.rotation.copy()
        for part, surface in enumerate(self._surfaces):
            own = (labels == part) & np.isfinite(image)
            points = np.array(self._video.camera.position) + self._rays[own] * image[own][:, None]
            points = points[:: max(len(points) // _POINTS, 1)]
            if len(points) < 10:
                continue
            motion = self._register(surface, (points - position[part]) @ rotation[part])
            # points move to the model by it, so the model moves to the points by its inverse
            turn = rotation[part] @ motion[:3, :3].T
            position[part] = position[part] - turn @ motion[:3, 3]
            rotation[part] = turn
        self._poses = Poses(position, rotation)
        return EstimatedPoses(self._poses, None, (True,) * len(position))


def register_to_model(surface: Surface, points: Array) -> Array:
    """Return the motion (4, 4) of points (n, 3) to a model, by point-to-point ICP."""
    return _closest_points(points, surface.points, surface.tree)


def register_from_model(surface: Surface, points: Array) -> Array:
    """Return the same, with a point of the image for each point of the model, as in the paper."""
    motion = _closest_points(surface.points, points, cKDTree(points))
    return np.asarray(np.linalg.inv(motion), dtype=np.float64)


def _closest_points(points: Array, targets: Array, tree: cKDTree) -> Array:
    """Return the motion (4, 4) of points (n, 3) to targets (k, 3), which are in a tree."""
    motion = np.eye(4)
    for _ in range(_ITERATIONS):
        moved = points @ motion[:3, :3].T + motion[:3, 3]
        distance, index = tree.query(moved, distance_upper_bound=_REACH_M)
        near = np.isfinite(distance)
        if near.sum() < 3:
            break
        step = _rigid(moved[near], targets[index[near]])
        motion = step @ motion
        if np.abs(step - np.eye(4)).max() < _CONVERGED:
            break
    return motion


def _rigid(points: Array, targets: Array) -> Array:
    """Return the rigid motion (4, 4) that takes points (n, 3) best to targets (n, 3)."""
    middle, target = points.mean(axis=0), targets.mean(axis=0)
    turn, _ = Rotation.align_vectors(targets - target, points - middle)
    motion = np.eye(4)
    motion[:3, :3] = turn.as_matrix()
    motion[:3, 3] = target - motion[:3, :3] @ middle
    return motion


def _small_gicp(kind: str) -> Callable[[Surface, Array], Array]:
    """Return registration by small_gicp: `ICP` (point to point) or `GICP`."""

    def register(surface: Surface, points: Array) -> Array:
        library = import_optional(
            'small_gicp',
            lambda _: 'small_gicp is not installed: pip install small_gicp',
            BenchError,
        )
        registration = library.align(
            surface.points, points, registration_type=kind, downsampling_resolution=0.004,
            max_correspondence_distance=_REACH_M, max_iterations=_ITERATIONS, num_threads=1,
        )  # fmt: skip
        return np.asarray(registration.T_target_source)

    return register


TRACKERS: dict[str, Callable[[MadeVideo], ComparedTracker]] = {
    OURS: RenderingTracker,
    SMOOTHED: SmoothedTracker,
    JOINTED: JointedTracker,
    'icp': lambda video: IterativeClosestPoints(video, register_to_model),
    'icp-from-model': lambda video: IterativeClosestPoints(video, register_from_model),
    'small-gicp-icp': lambda video: IterativeClosestPoints(video, _small_gicp('ICP')),
    'small-gicp': lambda video: IterativeClosestPoints(video, _small_gicp('GICP')),
}
OWN: Sequence[str] = (OURS, SMOOTHED, JOINTED, 'icp', 'icp-from-model')  # need no other package


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
    video: MadeVideo, estimates: Sequence[EstimatedPoses], part: int, shape: equations.Shape,
    axes: Sequence[int],
) -> PartErrors:  # fmt: skip
    """Return the errors of a part; those of images in which it is lost count, too."""
    rows = range(1, len(estimates))
    true = [video.poses[i] for i in rows]
    position = np.array([estimates[i].poses.position[part] for i in rows])
    rotation = np.array([estimates[i].poses.rotation[part] for i in rows])
    true_position = np.array([poses.position[part] for poses in true])
    true_rotation = np.array([poses.rotation[part] for poses in true])
    centre = position + rotation @ shape.centre - true_position - true_rotation @ shape.centre
    cosine = np.sum(rotation * true_rotation, axis=1)[:, list(axes)]
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).max(axis=1)
    turn = Rotation.from_matrix(rotation @ np.swapaxes(true_rotation, 1, 2)).as_rotvec()
    errors = np.concatenate([position - true_position, turn], axis=1)
    distance = 1e3 * np.linalg.norm(centre, axis=1)
    tracked = np.array([estimates[i].tracked[part] for i in rows])
    squares = inside = None
    if estimates[1].covariance is not None:
        covariance = np.array([_covariances(estimates[i])[part] for i in rows])
        arms = true_rotation @ shape.centre
        judged = [
            _judge(errors[i], covariance[i], arms[i], shape.radius)
            for i in np.flatnonzero(tracked)
        ]
        if judged:
            squares = float(np.mean([values[0] for values in judged]))
            inside = float(np.mean([values[1] for values in judged]))
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
