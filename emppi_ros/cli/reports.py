"""Reports of runs: plots, summary and video, for several commands."""

from collections.abc import Mapping
import json
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.tasks.task import Task
from emppi_ros.viz.renderer import RenderError, check_renderer
from emppi_ros.viz.report import plots, video
from emppi_ros.viz.report.recording import RunRecord


def check_video(path: Path | None) -> Path | None:
    """
    Return the path of a video, or None with a warning if this machine cannot render it.

    Call this before any work; a path that cannot be written is an error.
    """
    output.check_path('--video', path, *video.SUFFIXES)
    try:
        if path is not None:
            check_renderer()
    except RenderError as error:
        output.warn([f'no video: {error}'])
        return None
    return path


def write_plots(task: Task, record: RunRecord, summary: Mapping[str, Any], folder: Path) -> None:
    """Write all plots and summary.json into a folder, which is created."""
    _create(folder)
    written = plots.write_all(task, record, folder)
    if np.isfinite(record.truth).all() and len(record.times):  # unknown for a real robot
        try:
            video.write_still(task, record, folder / 'scene.png')
            written.append(folder / 'scene.png')
        except RenderError as error:
            print(f'no picture of the belief in the scene: {error}', file=sys.stderr)
    for path in written:
        print(f'wrote {path}', file=sys.stderr)
    text = json.dumps(output.plain(summary), indent=2, allow_nan=False)
    paths.replace_text(folder / 'summary.json', text + '\n')


def write_video(task: Task, record: RunRecord, path: Path) -> None:
    """Write a video of the motion and the belief."""
    _create(path.parent)
    count = video.count_frames(record, path.suffix)
    with output.progress('video', count, 'frames') as advance:
        video.write(task, record, path, advance)
    print(f'wrote {path}', file=sys.stderr)


def _create(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f'{folder}: cannot be created: {error.strerror}') from None
