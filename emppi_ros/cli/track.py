"""`emppi track`: poses of parts in a video."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np

from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.core.pose import Pose
from emppi_ros.pipeline import video_tracks
from emppi_ros.pipeline.video_tracks import TrackedImage
from emppi_ros.recordings import tables
from emppi_ros.recordings.camera_bag import CameraTopics
from emppi_ros.tracking.camera_video import CameraVideo
from emppi_ros.tracking.tracker import LOST
from emppi_ros.viz import depth_overlay

_PICTURES = 6


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    command, default = Subcommand(commands, 'track', run), CameraTopics()
    add = command.option
    add('video', 'NPZ file, folder, or bag', Path, 'VIDEO')
    text = 'scene, parts and their first poses (of a bag: the tracked objects of its task)'
    add('--parts', text, Path, 'FILE.yaml')
    add('--out', 'table (.csv, .parquet)', Path, 'FILE', required=True)
    text = (
        'table with positions of joints of the scene (`position/NAME [rad]`) on the clock of the '
        'video, as of a robot that moves in it, so that it is not taken for a part; default, for '
        'a bag: its joint states'
    )
    add('--joints', text, Path, 'FILE')
    bags = command.parser.add_argument_group('bags')
    add('--image-topic', 'images', str, 'T', default.image, bags)
    add('--info-topic', 'intrinsics', str, 'T', default.info, bags)
    add('--namespace', 'namespace of the robot', str, 'NS', group=bags)
    text = "frame of the scene's world in /tf (of the robot of the bag's task, or `world`)"
    add('--frame', text, str, 'F', '', bags)
    text = "pose of the camera's optical frame in the scene, in place of that of the video"
    pose = 'X', 'Y', 'Z', 'QW', 'QX', 'QY', 'QZ'
    add('--camera-pose', text, float, pose, nargs=7)
    add('--rectified', 'images are rectified, whatever the name of their topic', group=bags)
    text = (
        'track the joints of this MJCF file, such as `emppi articulate` writes from a first pass, '
        'in place of free parts; its bodies have the names of the parts. The table also has '
        'positions of joints'
    )
    add('--model', text, Path, 'FILE.xml')
    text = (
        'smooth the poses over time: more accurate, but errors of neighbouring images are alike, '
        'which `emppi articulate` and --model do not expect'
    )
    add('--smooth', text)
    text = (
        'search the parts in the first image, where they stand on a table, and the pose of the '
        'camera if the scene is not where that of the video says'
    )
    add('--init', text)
    add('--picture', 'draw outlines of parts into some images', Path, 'F.png')
    add('--overlay', 'the same as a video (.mp4, .gif)', Path, 'F.mp4')
    add('--json', 'print one JSON object')


def run(options: argparse.Namespace) -> None:
    """
    Find the poses of parts in a video of depths, or, in a plane, of colours or labels.

    The parts are rigid, and their shapes are known. Poses in each image, with covariances, become
    a table, which `emppi articulate` reads. Rows are empty for a part while it is hidden or lost.

    VIDEO is an NPZ file, as `emppi run --depth` writes it, a folder of PNG files with a
    `camera.yaml`, or a bag (MCAP) with images, their intrinsics and joint states, as `emppi record
    --depth` writes it.
    """
    tables.check_writable('--out', options.out)
    output.check_path('--picture', options.picture, '.png')
    output.check_path('--overlay', options.overlay, '.mp4', '.gif')
    pose = options.camera_pose
    at = None if pose is None else Pose(np.array(pose[:3]), np.array(pose[3:]))
    topics = CameraTopics(
        options.image_topic, options.info_topic, options.frame, at, options.rectified
    )
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

        def watch(frame: TrackedImage) -> None:
            is_shown = options.picture is not None and frame.number in shown
            if film is not None or is_shown:
                picture = depth_overlay.draw(
                    frame.tracker.tracked, names, frame.time, frame.image, frame.estimates,
                    near, far,
                )  # fmt: skip
                if film is not None:
                    film.append_data(picture)
                if is_shown:
                    pictures.append(picture)
            pairs = zip(names, frame.estimates, strict=True)
            lost = [name for name, estimate in pairs if estimate.status == LOST]
            advance(frame.number + 1, f'lost: {", ".join(lost)}' if lost else '')

        tracked = video_tracks.track(
            video, model=options.model, smooth=options.smooth, init=options.init, watch=watch
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


def _writer(path: Path | None, video: CameraVideo) -> Any:
    """Return a context with a writer of a video in real time; None without a path."""
    if path is None:
        return nullcontext()
    steps = np.diff(video.time)
    rate = 1.0 / float(np.median(steps)) if len(steps) else 1.0
    if path.suffix == '.gif':
        return imageio.get_writer(path, duration=1e3 / rate, loop=0)
    return imageio.get_writer(path, fps=rate, macro_block_size=2)
