"""`emppi track`: poses of parts in a depth video."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
import time
from typing import Any, NamedTuple

import imageio.v2 as imageio
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, prefix_errors
from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.recordings import depth_bag, tables
from emppi_ros.recordings.bag_reader import SUFFIX, Bag
from emppi_ros.recordings.depth_bag import DepthTopics
from emppi_ros.recordings.signals import UNITS, Signal, covariance_triangles
from emppi_ros.tracking import (
    depth_video,
    joint_tracker,
    parts_file,
    smoothing,
    task_parts,
    tracker,
)
from emppi_ros.tracking.background import MovingBackground
from emppi_ros.tracking.depth_video import DepthVideo
from emppi_ros.tracking.jointed_parts import JointedParts
from emppi_ros.tracking.parts import Bools, TrackedParts, TrackerConfig
from emppi_ros.tracking.parts_file import PartsFile
from emppi_ros.tracking.search import LOST, TRACKED
from emppi_ros.tracking.tracker import PartEstimate
from emppi_ros.viz import depth_overlay

Array = npt.NDArray[np.float64]
_PICTURES = 6
DESCRIPTION = """
Find the poses of rigid parts, whose shapes are known, in each image of a depth video, and write
them with their covariances as a table, which `emppi articulate` reads.

VIDEO is an NPZ file, as `emppi run --depth` writes it, a folder of 16-bit PNG files with a
`camera.yaml`, or a bag (MCAP) with depth images, their intrinsics and joint states, as `emppi
record --depth` writes it. Rows of the table are empty for a part while it is hidden or lost.
"""


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'track',
        help='find the poses of parts in a depth video',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('video', metavar='VIDEO', type=Path, help='NPZ file, folder, or bag')
    parser.add_argument(
        '--parts',
        metavar='FILE.yaml',
        type=Path,
        help='scene, parts, and where they are in the first image; default, for a bag: the '
        'tracked objects of its task, where the task starts',
    )
    parser.add_argument(
        '--out', metavar='FILE', type=Path, required=True, help='table (.csv, .parquet)'
    )
    parser.add_argument(
        '--joints',
        metavar='FILE',
        type=Path,
        help='table with positions of joints of the scene (`position/NAME [rad]`) on the clock of '
        'the video, as of a robot that moves in it, so that it is not taken for a part; default, '
        'for a bag: its joint states',
    )
    _add_bag_options(parser)
    parser.add_argument(
        '--model',
        metavar='FILE.xml',
        type=Path,
        help='track the joints of this MJCF file, such as `emppi articulate` writes from a first '
        'pass, in place of free parts; its bodies have the names of the parts. The table also '
        'has positions of joints',
    )
    parser.add_argument(
        '--smooth',
        action='store_true',
        help='smooth the poses over time: more accurate, from all images of the video together. '
        'Errors of neighbouring images are then alike; `emppi articulate` and --model need poses '
        'without it',
    )
    parser.add_argument(
        '--picture', metavar='F.png', type=Path, help='draw outlines of parts into some images'
    )
    parser.add_argument(
        '--overlay', metavar='F.mp4', type=Path, help='the same as a video (.mp4, .gif)'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=track)


def _add_bag_options(parser: Any) -> None:
    """Add what says where a bag has its images."""
    default = DepthTopics()
    group = parser.add_argument_group('bags')
    group.add_argument(
        '--image-topic', metavar='T', default=default.image, help=f'images ({default.image})'
    )
    group.add_argument(
        '--info-topic', metavar='T', default=default.info, help=f'intrinsics ({default.info})'
    )
    group.add_argument('--namespace', metavar='NS', help='namespace of the robot')
    group.add_argument(
        '--frame',
        metavar='F',
        default='',
        help="frame of the scene's world in /tf_static (the frame of the robot of the bag's task, "
        'or `world`)',
    )
    group.add_argument(
        '--camera-pose',
        metavar=('X', 'Y', 'Z', 'QW', 'QX', 'QY', 'QZ'),
        nargs=7,
        type=float,
        help="pose of the camera's optical frame in this frame, in place of /tf_static",
    )


def track(options: argparse.Namespace) -> None:
    """Track the parts, write the table and pictures, and print a summary."""
    tables.check_writable('--out', options.out)
    _check_picture('--picture', options.picture, ('.png',))
    _check_picture('--overlay', options.overlay, ('.mp4', '.gif'))
    if options.smooth and options.model is not None:
        raise ConfigError(
            '--smooth: not with --model: errors of the joints are those of all images, and do not '
            'become less'
        )
    given = _read(options)
    file, video = given.file, given.video
    tracked = parts_file.prepare_parts(file, video.camera)
    times, count = video.time.tolist(), len(video.time)
    background = _recorded_robot(options, given)
    followed = (
        _FreeParts(tracked, file)
        if options.model is None
        else _Joints(tracked, file, options.model)
    )
    estimates: list[list[PartEstimate]] = []
    durations, pictures = [], []
    shown = set(np.linspace(0, count - 1, min(count, _PICTURES)).astype(int).tolist())
    near, far = depth_overlay.depth_range(video.image(0))
    with (
        output.progress('track', count, 'images') as advance,
        _writer(options.overlay, video) as film,
    ):
        for i in range(count):
            image = video.image(i)
            mask = None if video.mask is None else video.mask(i)
            began = time.perf_counter()
            if background is not None:
                background.move(times[i])
                tracked.background = background.behind
            found = followed.track(times[i], image, mask)
            durations.append(time.perf_counter() - began)
            estimates.append(found)
            if film is not None or (options.picture is not None and i in shown):
                picture = depth_overlay.draw(
                    tracked, file.names, times[i], image, found, near, far
                )
                if film is not None:
                    film.append_data(picture)
                if i in shown:
                    pictures.append(picture)
            lost = [n for n, one in zip(file.names, found, strict=True) if one.status == LOST]
            advance(i + 1, f'lost: {", ".join(lost)}' if lost else '')
    if options.smooth:
        estimates = smoothing.smooth_estimates(times, estimates, tracked.shapes)
    tables.write(options.out, [*signals(file.names, times, estimates), *followed.signals()])
    if options.picture is not None:
        with paths.replacing(options.picture) as temporary:
            imageio.imwrite(temporary, depth_overlay.strip(pictures))
    summary = {
        'out': str(options.out),
        'images': count,
        'ms_per_image': 1e3 * float(np.median(durations)),
        'parts': summarize(tracked, file.names, times, estimates),
    }
    output.show(summary, options.json)
    output.warn([*given.notes, *_warnings(file.names, times, estimates)])


class _TrackInput(NamedTuple):
    """What to track: parts, video, positions of joints by name, and notes about the video."""

    file: PartsFile
    video: DepthVideo
    joints: Mapping[str, tuple[Array, Array]]  # times [s] and positions [rad or m]
    notes: list[str]


def _read(options: argparse.Namespace) -> _TrackInput:
    """Return the input in a bag, or in files."""
    if not _is_bag(options.video):
        if options.parts is None:
            raise ConfigError('--parts: missing; only a bag with a task goes without it')
        file = parts_file.load_parts(options.parts)
        return _TrackInput(file, depth_video.read(options.video), {}, [])
    pose = options.camera_pose
    given = None if pose is None else Pose(np.array(pose[:3]), np.array(pose[3:]))
    topics = DepthTopics(options.image_topic, options.info_topic, options.frame, given)
    bag = depth_bag.read(Bag(options.video, options.namespace), topics)
    if options.parts is not None:
        file = parts_file.load_parts(options.parts)
    elif bag.task is not None:
        file = task_parts.of_task(bag.task, TrackerConfig())
    else:
        raise ConfigError(f'--parts: missing; {options.video} has no task on emppi/task')
    names = scene.names(file.model, 'joint')
    known = {n for i, n in enumerate(names) if scene.is_scalar(file.model, i)}
    joints = {name: track for name, track in bag.joints.items() if name in known}
    return _TrackInput(file, bag.video, joints, [bag.cut] if bag.cut else [])


def _is_bag(path: Path) -> bool:
    """Return whether a video is a bag."""
    return path.suffix.lower() == SUFFIX or (path.is_dir() and any(path.glob(f'*{SUFFIX}')))


def _recorded_robot(options: argparse.Namespace, given: _TrackInput) -> '_RecordedRobot | None':
    """Return the robot of --joints, or else of the bag, if there is one."""
    joints, unknown = given.joints, given.file.settings.background == 'none'
    if options.joints is not None:
        if unknown:
            raise ConfigError('--joints: `background: none` in --parts leaves out the whole scene')
        recorded = [one for one in tables.read(options.joints) if one.kind == 'position']
        if not recorded:
            raise ConfigError(
                f"--joints {options.joints}: no column such as 'position/elbow [rad]'"
            )
        joints = {one.of: (one.time, one.values) for one in recorded}
    if unknown or not joints:
        return None
    where = str(options.video) if options.joints is None else f'--joints {options.joints}'
    return _RecordedRobot(where, joints, given.file, given.video)


class _FreeParts:
    """Parts that move freely."""

    def __init__(self, tracked: TrackedParts, file: PartsFile) -> None:
        self._tracked, self._state = tracked, tracker.start(tracked, file.start)

    def track(self, time_s: float, image: Array, mask: Bools | None) -> list[PartEstimate]:
        """Return the poses in an image."""
        self._state, found = tracker.track(self._tracked, self._state, time_s, image, mask)
        return found

    def signals(self) -> list[Signal]:
        """Return what was found besides poses."""
        return []


class _Joints:
    """Parts on the joints of a model."""

    def __init__(self, tracked: TrackedParts, file: PartsFile, path: Path) -> None:
        self._tracked = tracked
        model = scene.load_scene(path)
        self._jointed = prefix_errors(f'--model {path}', JointedParts, model, file.names)
        self._state = joint_tracker.start(self._jointed)
        self._rows: list[tuple[float, Array]] = []

    def track(self, time_s: float, image: Array, mask: Bools | None) -> list[PartEstimate]:
        """Return the poses in an image."""
        self._state, found = joint_tracker.track(
            self._tracked, self._jointed, self._state, time_s, image, mask
        )
        if any(one.status == TRACKED for one in found.parts):
            self._rows.append((time_s, found.qpos))
        return found.parts

    def signals(self) -> list[Signal]:
        """Return the positions of hinges and slides."""
        model = self._jointed.model
        if not self._rows:
            return []
        clock, rows = (np.array(one) for one in zip(*self._rows, strict=True))
        names, found = scene.names(model, 'joint'), []
        for joint, name in enumerate(names):
            if scene.is_scalar(model, joint):
                is_slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
                unit = UNITS['position'][int(is_slide)]
                values = rows[:, model.jnt_qposadr[joint]]
                found.append(Signal('position', name, unit, clock, values, 'track'))
        return found


class _RecordedRobot:
    """The scene without the parts, with joints at recorded positions."""

    def __init__(
        self, where: str, recorded: Mapping[str, tuple[Array, Array]], file: PartsFile,
        video: DepthVideo,
    ) -> None:  # fmt: skip
        self._recorded = recorded
        self.behind: MovingBackground = prefix_errors(
            where, MovingBackground, file.model, file.bodies, tuple(recorded), video.camera
        )

    def move(self, time_s: float) -> None:
        """Move the robot to where it was at a time [s]; before and after that it rests."""
        self.behind.move(
            {name: float(np.interp(time_s, *track)) for name, track in self._recorded.items()}
        )


def signals(
    names: Sequence[str], times: Sequence[float], estimates: Sequence[Sequence[PartEstimate]]
) -> list[Signal]:
    """Return poses and covariances of parts in the images in which they are tracked."""
    found = []
    for part, name in enumerate(names):
        rows = [i for i, one in enumerate(estimates) if one[part].status == TRACKED]
        own = [estimates[i][part] for i in rows]
        if not own:
            continue
        clock = np.array([times[i] for i in rows])
        poses = np.array([one.row for one in own])
        triangles = covariance_triangles(np.array([one.covariance for one in own]))
        for kind, values in (('pose', poses), ('covariance', triangles)):
            found.append(Signal(kind, name, UNITS[kind][0], clock, values, 'track'))
    if not found:
        raise ConfigError(
            'no part is seen in any image: check the camera pose of the video, and the scene and '
            'the start poses of --parts'
        )
    return found


def summarize(
    tracked: TrackedParts,
    names: Sequence[str],
    times: Sequence[float],
    estimates: Sequence[Sequence[PartEstimate]],
) -> dict[str, dict[str, Any]]:
    """Return in how many images each part is tracked, hidden or lost, and how well it is known."""
    summary: dict[str, dict[str, Any]] = {}
    for part, name in enumerate(names):
        own = [one[part] for one in estimates]
        seen = [one for one in own if one.status == TRACKED]
        counts = {status: sum(one.status == status for one in own) for status in ('hidden', LOST)}
        entry: dict[str, Any] = {'tracked': len(seen), **counts}
        if seen:
            sds = np.array([np.sqrt(np.diag(one.covariance)) for one in seen])
            entry['sd_mm'] = 1e3 * float(np.median(np.linalg.norm(sds[:, :3], axis=1)))
            worst = [np.sqrt(np.linalg.eigvalsh(one.covariance[3:, 3:])) for one in seen]
            entry['rotations_seen'] = int(np.median(np.sum(np.array(worst) < 1.0, axis=1)))
        summary[name] = entry
    return summary


def _warnings(
    names: Sequence[str], times: Sequence[float], estimates: Sequence[Sequence[PartEstimate]]
) -> list[str]:
    """Return when each part was lost and found again, one sentence each."""
    warnings = []
    for part, name in enumerate(names):
        since = None
        for when, one in zip(times, estimates, strict=True):
            is_lost = one[part].status == LOST
            if is_lost and since is None:
                since = when
            elif not is_lost and since is not None:
                warnings.append(f'{name}: lost from {since:.2f} s to {when:.2f} s')
                since = None
        if since is not None:
            warnings.append(f'{name}: lost at {since:.2f} s, and not found again')
    return warnings


def _check_picture(option: str, path: Path | None, suffixes: tuple[str, ...]) -> None:
    if path is None:
        return
    if path.suffix not in suffixes:
        raise ConfigError(f'{option} {path}: expected a name that ends in {" or ".join(suffixes)}')
    paths.check_output(option, path)


def _writer(path: Path | None, video: depth_video.DepthVideo) -> Any:
    """Return a context with a writer of a video in real time; None without a path."""
    if path is None:
        return nullcontext()
    steps = np.diff(video.time)
    rate = 1.0 / float(np.median(steps)) if len(steps) else 1.0
    if path.suffix == '.gif':
        return imageio.get_writer(path, duration=1e3 / rate, loop=0)
    return imageio.get_writer(path, fps=rate, macro_block_size=2)
