"""`emppi track`: poses of parts in a depth video."""

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
import time
from typing import Any

import imageio.v2 as imageio
import numpy as np

from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, prefix_errors
from emppi_ros.identify.common import tables
from emppi_ros.identify.common.signals import UNITS, Signal, covariance_triangles
from emppi_ros.tracking import depth_video, parts_file, tracker
from emppi_ros.tracking.background import MovingBackground
from emppi_ros.tracking.parts import TrackedParts
from emppi_ros.tracking.search import LOST, TRACKED
from emppi_ros.tracking.tracker import PartEstimate
from emppi_ros.viz import depth_overlay

_PICTURES = 6
DESCRIPTION = """
Find the poses of rigid parts, whose shapes are known, in each image of a depth video, and write
them with their covariances as a table, which `emppi articulate` reads.

VIDEO is an NPZ file, as `emppi run --depth` writes it, or a folder of 16-bit PNG files with a
`camera.yaml`. Rows of the table are empty for a part while it is hidden or lost.
"""


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'track',
        help='find the poses of parts in a depth video',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('video', metavar='VIDEO', type=Path, help='NPZ file, or folder')
    parser.add_argument(
        '--parts',
        metavar='FILE.yaml',
        type=Path,
        required=True,
        help='scene, parts, and where they are in the first image',
    )
    parser.add_argument(
        '--out', metavar='FILE', type=Path, required=True, help='table (.csv, .parquet)'
    )
    parser.add_argument(
        '--joints',
        metavar='FILE',
        type=Path,
        help='table with positions of joints of the scene (`position/NAME [rad]`) on the clock of '
        'the video, as of a robot that moves in it, so that it is not taken for a part',
    )
    parser.add_argument(
        '--picture', metavar='F.png', type=Path, help='draw outlines of parts into some images'
    )
    parser.add_argument(
        '--overlay', metavar='F.mp4', type=Path, help='the same as a video (.mp4, .gif)'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=track)


def track(options: argparse.Namespace) -> None:
    """Track the parts, write the table and pictures, and print a summary."""
    tables.check_writable('--out', options.out)
    _check_picture('--picture', options.picture, ('.png',))
    _check_picture('--overlay', options.overlay, ('.mp4', '.gif'))
    file = parts_file.load_parts(options.parts)
    video = depth_video.read(options.video)
    tracked = parts_file.prepare_parts(file, video.camera)
    times, count = video.time.tolist(), len(video.time)
    background = None if options.joints is None else _RecordedRobot(options.joints, file, video)
    state = tracker.start(tracked, file.start)
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
            state, found = tracker.track(tracked, state, times[i], image, mask)
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
    tables.write(options.out, signals(file.names, times, estimates))
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
    output.warn(_warnings(file.names, times, estimates))


class _RecordedRobot:
    """The scene without the parts, with joints at recorded positions."""

    def __init__(
        self, path: Path, file: parts_file.PartsFile, video: depth_video.DepthVideo
    ) -> None:
        if file.settings.background == 'none':
            raise ConfigError('--joints: `background: none` in --parts leaves out the whole scene')
        recorded = [one for one in tables.read(path) if one.kind == 'position']
        if not recorded:
            raise ConfigError(f"--joints {path}: no column such as 'position/elbow [rad]'")
        self._recorded = {one.of: one for one in recorded}
        self.behind: MovingBackground = prefix_errors(
            f'--joints {path}', MovingBackground, file.model, file.bodies,
            tuple(self._recorded), video.camera,
        )  # fmt: skip

    def move(self, time_s: float) -> None:
        """Move the robot to where it was at a time [s]; before and after that it rests."""
        self.behind.move(
            {
                name: float(np.interp(time_s, one.time, one.values))
                for name, one in self._recorded.items()
            }
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
