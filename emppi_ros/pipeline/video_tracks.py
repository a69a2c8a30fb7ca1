"""Poses of parts in a whole depth video."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from dataclasses import dataclass
from pathlib import Path
import time
from typing import Any, NamedTuple

import mujoco
import numpy as np

from emppi_ros.articulation import tracks
from emppi_ros.articulation.tracks import Tracks
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, prefix_errors
from emppi_ros.model import scene
from emppi_ros.recordings import camera_bag, tables
from emppi_ros.recordings.camera_bag import CameraTopics
from emppi_ros.recordings.signals import UNITS, Signal, covariance_triangles
from emppi_ros.recordings.sqlite_bag import is_recorded, open_bag
from emppi_ros.tracking import camera_video, loss, smoothing, standing
from emppi_ros.tracking import parts as parts_files
from emppi_ros.tracking.camera_video import CameraVideo
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.jointed_parts import JointedParts, JointTracker
from emppi_ros.tracking.parts import PartsFile
from emppi_ros.tracking.planar_tracker import PlanarTracker
from emppi_ros.tracking.tracker import HIDDEN, LOST, TRACKED, PartEstimate, PartTracker

_TOPICS = CameraTopics()


class VideoOfParts(NamedTuple):
    """A video, and what to track in it."""

    parts: PartsFile
    video: CameraVideo
    # times [s] and positions [rad or m] of joints of the scene, such as those of a robot, and
    # where these are from, for errors
    joints: Mapping[str, tuple[Array, Array]]
    joints_from: str = ''
    notes: Sequence[str] = ()  # what a reader of the results must know


class TrackedImage(NamedTuple):
    """An image by its number, as of `CameraVideo`, and the estimates in it."""

    number: int
    time: float
    image: Any
    tracker: PartTracker | JointTracker | PlanarTracker
    estimates: list[PartEstimate]


@dataclass(frozen=True)
class VideoTracks:
    """
    Poses of parts in all images of a video.

    Attributes
    ----------
    names : tuple of str
        Names of the B parts.
    time : (T,) array
        Times of the images [s].
    estimates : list
        Estimates (T, B).
    joints : list of Signal
        Positions of the hinges and slides of `model`; empty for free parts.
    ms_per_image : float
        Median of the time that an image took.
    notes : tuple of str
        When parts were lost and why, and what the video says.

    """

    names: tuple[str, ...]
    time: Array
    estimates: list[list[PartEstimate]]
    joints: list[Signal]
    ms_per_image: float
    notes: tuple[str, ...]

    @property
    def tracks(self) -> Tracks:
        """The poses of each part over time, for `articulate`."""
        return tracks.from_estimates(self.names, self.time, self.estimates)

    def signals(self) -> list[Signal]:
        """Return poses and covariances in images in which parts are tracked, and joints."""
        signals = []
        for part in self.tracks.parts:
            if part.seen.any():
                clock, poses = self.time[part.seen], part.poses.at(part.seen).rows
                triangles = covariance_triangles(part.covariance[part.seen])
                for kind, values in (('pose', poses), ('covariance', triangles)):
                    signals.append(Signal(kind, part.name, UNITS[kind][0], clock, values, 'track'))
        if not signals:
            raise ConfigError(f'no part is seen in any image: {"; ".join(self.notes)}')
        return [*signals, *self.joints]

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return in how many images each part is tracked, hidden or lost, and how well."""
        summary: dict[str, dict[str, Any]] = {}
        for name, images in zip(self.names, zip(*self.estimates, strict=True), strict=True):
            status = [estimate.status for estimate in images]
            summary[name] = {word: status.count(word) for word in (TRACKED, HIDDEN, LOST)}
            if TRACKED in status:
                covariance = np.array(
                    [estimate.covariance for estimate in images if estimate.status == TRACKED]
                )
                sds = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
                summary[name]['sd_mm'] = 1e3 * float(np.median(np.linalg.norm(sds[:, :3], axis=1)))
                variances = np.linalg.eigvalsh(covariance[:, 3:, 3:])
                summary[name]['rotations_seen'] = int(np.median(np.sum(variances < 1.0, axis=1)))
        return summary


def read_video(
    path: Path,
    parts: Path | PartsFile | None = None,
    joints: Path | None = None,
    topics: CameraTopics = _TOPICS,
    namespace: str | None = None,
) -> VideoOfParts:
    """
    Return a video with its parts: an NPZ file, a folder of images, or a bag.

    `parts` are those of a file, by default the tracked objects of the task of a bag. `joints` is a
    table with positions of joints of the scene, by default the joint states of a bag. ConfigError
    names what is missing.
    """
    file = parts_files.load_parts(parts) if isinstance(parts, Path) else parts
    recorded, notes = dict[str, tuple[Array, Array]](), list[str]()
    is_depth = file is None or file.plane is None
    if is_recorded(path):
        bag = camera_bag.read(open_bag(path, namespace), topics, is_depth)
        video, notes = bag.video, list(bag.notes)
        if file is None:
            if bag.task is None:
                raise ConfigError(f'--parts: missing; {path} has no task on emppi/task')
            file = parts_files.of_task(bag.task, TrackerConfig())
        names = scene.names(file.model, 'joint')
        scalar = {n for i, n in enumerate(names) if scene.is_scalar(file.model, i)}
        recorded = {name: track for name, track in bag.joints.items() if name in scalar}
    elif file is None:
        raise ConfigError('--parts: missing; only a bag with a task goes without it')
    else:
        video = camera_video.read(path, is_depth)
        if topics.pose is not None:
            video = dataclasses.replace(video, camera=video.camera.at(topics.pose))
    if joints is None:
        return VideoOfParts(file, video, recorded, str(path), notes)
    if file.background == 'none':
        raise ConfigError('--joints: `background: none` in --parts leaves out the whole scene')
    signals = [signal for signal in tables.read(joints) if signal.kind == 'position']
    if not signals:
        raise ConfigError(f"--joints {joints}: no column such as 'position/elbow [rad]'")
    recorded = {signal.of: (signal.time, signal.values) for signal in signals}
    return VideoOfParts(file, video, recorded, f'--joints {joints}', notes)


def track(
    video: VideoOfParts | Path | str,
    parts: Path | str | None = None,
    *,
    model: Path | str | None = None,
    smooth: bool = False,
    init: bool = False,
    watch: Callable[[TrackedImage], None] = lambda _: None,
) -> VideoTracks:
    """
    Return the poses of rigid parts in each image of a video.

    Parameters
    ----------
    video : path or VideoOfParts
        An NPZ file, a folder of images or a bag, or what `read_video` returns.
    parts : path
        File of the parts, by default the tracked objects of the task of a bag.
    model : path
        MJCF file whose joints are tracked in place of free parts.
    smooth : bool
        Whether poses are smoothed over time; not with `model`.
    init : bool
        Whether the first image shows where parts stand on a table, and where the camera is.
    watch : function
        Called with each image and its estimates.

    """
    if smooth and model is not None:
        raise ConfigError(
            '--smooth: not with --model: errors of the joints are those of all images, and do not '
            'become less'
        )
    if not isinstance(video, VideoOfParts):
        video = read_video(Path(video), None if parts is None else Path(parts))
    if init and video.parts.plane is None:
        video = _with_start(video)
    file, images = video.parts, video.video
    tracker = _make_tracker(file, images, model, smooth)
    estimates: list[list[PartEstimate]] = []
    causes: dict[int, str] = {}  # by part, why it was not found for the first time
    durations, qpos = [], []
    for i, moment in enumerate(images.time.tolist()):
        image, mask = images.image(i), None if images.mask is None else images.mask(i)
        began = time.perf_counter()
        if video.joints:
            joints = {k: float(np.interp(moment, *samples)) for k, samples in video.joints.items()}
            prefix_errors(video.joints_from, tracker.tracked.move_robot, joints)
        first = tracker.poses
        estimates.append(tracker.track(moment, image, mask))
        missing = [k for k, estimate in enumerate(estimates[-1]) if estimate.status != TRACKED]
        if set(missing) - set(causes):
            if isinstance(tracker, PlanarTracker):
                texts = tracker.explain_losses(first, moment, image)
            else:
                whole = tracker.tracked.prepare(-np.inf, moment, image, mask)
                texts = loss.explain_losses(tracker.tracked, file.names, first, whole)
            causes = {k: texts[k] for k in missing} | causes
        durations.append(time.perf_counter() - began)
        is_tracked = any(estimate.status == TRACKED for estimate in estimates[-1])
        if isinstance(tracker, JointTracker) and is_tracked:
            qpos.append((moment, tracker.qpos))
        watch(TrackedImage(i, moment, image, tracker, estimates[-1]))
    if smooth:
        estimates = smoothing.smooth_estimates(images.time, estimates, tracker.tracked.shapes)
    positions = [] if model is None else _joint_signals(scene.load_scene(Path(model)), qpos)
    rarely = [
        causes[part]
        for part, images_of_part in enumerate(zip(*estimates, strict=True))
        if 2 * sum(estimate.status == TRACKED for estimate in images_of_part) < len(images_of_part)
    ]
    notes = (*video.notes, *_losses(file.names, images.time, estimates), *dict.fromkeys(rarely))
    if isinstance(tracker, PlanarTracker):
        notes += tracker.notes
    return VideoTracks(
        file.names, images.time, estimates, positions, 1e3 * float(np.median(durations)), notes
    )


def _make_tracker(
    file: PartsFile, images: CameraVideo, model: Path | str | None, smooth: bool
) -> PartTracker | JointTracker | PlanarTracker:
    """Return a tracker of free parts, of parts in a plane, or of the joints of a model."""
    if file.plane is not None:
        if model is not None or smooth:  # errors of silhouettes are alike from image to image
            raise ConfigError('--model, --smooth: not with `plane` in --parts, without depths')
        return PlanarTracker(file, images.camera)
    tracked = parts_files.prepare_parts(file, images.camera)
    if model is None:
        return PartTracker(tracked, file.start)
    loaded = scene.load_scene(Path(model))
    jointed = prefix_errors(f'--model {model}', JointedParts, loaded, file.names)
    return JointTracker(tracked, jointed)


def _with_start(video: VideoOfParts) -> VideoOfParts:
    """Return a video with the poses of parts, and of the camera, that its first image shows."""
    images, file = video.video, video.parts
    camera, poses, _ = standing.find_start(file, images.camera, images.image(0))
    row = np.round([*camera.position, *camera.quaternion], 5).tolist()
    notes = [f'--init: --camera-pose {" ".join(map(str, row))}']
    for name, row in zip(file.names, np.round(poses.rows, 5).tolist(), strict=True):
        notes.append(f'--init: {name}: position: {row[:3]}, quaternion: {row[3:]}')
    return video._replace(
        parts=file._replace(start=poses),
        video=dataclasses.replace(images, camera=camera),
        notes=[*video.notes, *notes],
    )


def _joint_signals(model: mujoco.MjModel, rows: Sequence[tuple[float, Array]]) -> list[Signal]:
    """Return the positions of hinges and slides from times and positions (nq,) of all joints."""
    if not rows:
        return []
    clock, qpos = (np.array(column) for column in zip(*rows, strict=True))
    signals = []
    for joint, name in enumerate(scene.names(model, 'joint')):
        if scene.is_scalar(model, joint):
            is_slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
            values = qpos[:, model.jnt_qposadr[joint]]
            unit = UNITS['position'][int(is_slide)]
            signals.append(Signal('position', name, unit, clock, values, 'track'))
    return signals


def _losses(
    names: Sequence[str], times: Array, estimates: Sequence[Sequence[PartEstimate]]
) -> list[str]:
    """Return when each part was lost and found again, one sentence each."""
    sentences = []
    for part, name in enumerate(names):
        lost = np.array([images[part].status == LOST for images in estimates])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]])))
        for begin, end in edges.reshape(-1, 2):
            if end < len(times):
                sentences.append(f'{name}: lost from {times[begin]:.2f} s to {times[end]:.2f} s')
            else:
                sentences.append(f'{name}: lost at {times[begin]:.2f} s, and not found again')
    return sentences
