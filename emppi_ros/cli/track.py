"""`emppi track`: poses of parts in a depth video."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np

from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.core.pose import Pose
from emppi_ros.pipeline import video_tracks
from emppi_ros.pipeline.video_tracks import TrackedImage
from emppi_ros.recordings import tables
from emppi_ros.recordings.depth_bag import DepthTopics
from emppi_ros.tracking.depth_video import DepthVideo
from emppi_ros.tracking.tracker import LOST
from emppi_ros.viz import depth_overlay

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
    parser.set_defaults(execute=run)


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


def run(options: argparse.Namespace) -> None:
    """Track the parts, write the table and pictures, and print a summary."""
    tables.check_writable('--out', options.out)
    _check_picture('--picture', options.picture, ('.png',))
    _check_picture('--overlay', options.overlay, ('.mp4', '.gif'))
    pose = options.camera_pose
    given = None if pose is None else Pose(np.array(pose[:3]), np.array(pose[3:]))
    topics = DepthTopics(options.image_topic, options.info_topic, options.frame, given)
    video = video_tracks.read_video(
        options.video, options.parts, options.joints, topics, options.namespace
    )
    names, count = video.parts.names, len(video.video.time)
    shown = set(np.linspace(0, count - 1, min(count, _PICTURES)).astype(int).tolist())
    near, far = depth_overlay.depth_range(video.video.image(0))
    pictures = []
    with (
        output.progress('track', count, 'images') as advance,
        _writer(options.overlay, video.video) as film,
    ):

        def watch(one: TrackedImage) -> None:
            is_shown = options.picture is not None and one.number in shown
            if film is not None or is_shown:
                picture = depth_overlay.draw(
                    one.tracker.tracked, names, one.time, one.image, one.estimates, near, far
                )
                if film is not None:
                    film.append_data(picture)
                if is_shown:
                    pictures.append(picture)
            pairs = zip(names, one.estimates, strict=True)
            lost = [name for name, estimate in pairs if estimate.status == LOST]
            advance(one.number + 1, f'lost: {", ".join(lost)}' if lost else '')

        tracked = video_tracks.track(
            video, model=options.model, smooth=options.smooth, watch=watch
        )
    tables.write(options.out, tracked.signals())
    if options.picture is not None:
        with paths.replacing(options.picture) as temporary:
            imageio.imwrite(temporary, depth_overlay.strip(pictures))
    summary = {
        'out': str(options.out),
        'images': count,
        'ms_per_image': tracked.ms_per_image,
        'parts': tracked.summary(),
    }
    output.show(summary, options.json)
    output.warn(list(tracked.notes))


def _check_picture(option: str, path: Path | None, suffixes: tuple[str, ...]) -> None:
    if path is None:
        return
    if path.suffix not in suffixes:
        raise ConfigError(f'{option} {path}: expected a name that ends in {" or ".join(suffixes)}')
    paths.check_output(option, path)


def _writer(path: Path | None, video: DepthVideo) -> Any:
    """Return a context with a writer of a video in real time; None without a path."""
    if path is None:
        return nullcontext()
    steps = np.diff(video.time)
    rate = 1.0 / float(np.median(steps)) if len(steps) else 1.0
    if path.suffix == '.gif':
        return imageio.get_writer(path, duration=1e3 / rate, loop=0)
    return imageio.get_writer(path, fps=rate, macro_block_size=2)
