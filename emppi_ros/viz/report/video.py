"""Videos and stills of a run: the scene with the belief drawn in it, and a panel beside it."""

from collections.abc import Callable
from pathlib import Path

import imageio.v2 as imageio
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.task import Task
from emppi_ros.viz.mujoco_overlay import draw_in
from emppi_ros.viz.renderer import Renderer, task_camera
from emppi_ros.viz.report.belief_panel import BeliefPanel
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.shapes import histograms, joint_axes, objects
from emppi_ros.viz.shapes.scene_extent import UP, scene_extent
from emppi_ros.viz.shapes.shapes import Label, Lines, Shape, Shapes, Triangles

Array = npt.NDArray[np.float64]
ShapesAt = Callable[[float], Shapes]  # shapes that are drawn in the scene at a time [s]

SUFFIXES = ('.mp4', '.gif')
SCENE, PANEL, HEIGHT = 816, 464, 720  # px: widths, together 1280, and height
_FPS = {'.mp4': 25, '.gif': 10}
_STILL_S = 1.0  # how long the last frame stays
_GIF_SHRINK = 2  # a GIF has half the width and height
_SMALLER, _LIFT = 0.7, 0.15  # histograms beside rviz's: size; how much higher, of the extent
_MAX_LABELS = 4


def true_model(task: Task, record: RunRecord) -> mujoco.MjModel:
    """Return the model with the true parameters: the one that the record's states belong to."""
    return with_parameters(task.visual_model(), task.parameters, record.truth)


class BeliefOverlay:
    """Draws the belief of a record into its scene, at any time."""

    def __init__(self, task: Task, record: RunRecord) -> None:
        """Build the model that the record's states belong to."""
        known = bool(np.isfinite(record.truth).all())
        model = with_parameters(task.model, task.parameters, record.truth) if known else task.model
        self._task, self._record, self._data = task, record, mujoco.MjData(model)
        self._extent = scene_extent(task)

    def shapes(self, now: float) -> Shapes:
        """
        Return tracked objects and the belief at a time [s]; none if the task learns nothing.

        Before the first belief, that one is shown. Histograms stay where they are at the start:
        following an object, they would leave the picture.
        """
        record, extent = self._record, self._extent
        if not self._task.parameters or not len(record.belief_times):
            return []
        row = min(int(np.searchsorted(record.times, now)), len(record.times) - 1)
        last = max(int(np.searchsorted(record.belief_times, now, side='right')) - 1, 0)
        with np.errstate(divide='ignore'):  # a weight of 0 is a log weight of -inf
            belief = Belief(record.belief_theta[last], np.log(record.belief_weights[last]))
        smaller = extent._replace(size=_SMALLER * extent.size)
        numbers = histograms.shapes(self._task, smaller, self._place(0), belief)
        if sum(isinstance(shape, Label) for shape in numbers) > _MAX_LABELS:  # illegible
            numbers = [shape for shape in numbers if not isinstance(shape, Label)]
        data = self._place(row)
        tracked = objects.shapes(self._task, extent, data)
        return [
            *(shape for shape in tracked if not isinstance(shape, Triangles)),  # they are solid
            *joint_axes.shapes(self._task, extent, data, belief),
            *(_raised(shape, _LIFT * extent.size) for shape in numbers),
        ]

    def _place(self, row: int) -> mujoco.MjData:
        """Return the kinematics of a row of the record."""
        self._data.qpos[:] = self._record.qpos[row]
        mujoco.mj_kinematics(self._data.model, self._data)
        mujoco.mj_camlight(self._data.model, self._data)
        return self._data


def _raised(shape: Shape, by: float) -> Shape:
    """Return a part of a histogram higher up [m]; of its text only the parameter's name."""
    if isinstance(shape, Lines):
        return shape._replace(ends=shape.ends + by * UP)
    if isinstance(shape, Triangles):
        return shape._replace(corners=shape.corners + by * UP)
    if isinstance(shape, Label):
        return shape._replace(position=shape.position + by * UP, text=shape.text.split('\n')[0])
    return shape._replace(centres=shape.centres + by * UP)


def count_frames(record: RunRecord, suffix: str = '.mp4') -> int:
    """Return the number of frames of a video."""
    if len(record.times) == 0:
        raise ConfigError('the record has no states: there is nothing to show')
    return int((record.times[-1] + _STILL_S) * _FPS[suffix]) + 1


def write_still(task: Task, record: RunRecord, path: Path, shapes: ShapesAt) -> None:
    """Write a picture (.png) of the scene at the start and at the end of a record."""
    model = true_model(task, record)
    renderer = Renderer(model, SCENE, HEIGHT)
    free = renderer.camera
    try:
        frames = []
        for row in (0, len(record.times) - 1):
            renderer.camera = task_camera(task, model, record.qpos[row]) or free
            frames.append(draw_in(renderer, record.qpos[row], shapes(record.times[row])))
        imageio.imwrite(path, np.hstack(frames))
    finally:
        renderer.close()


def write(
    task: Task,
    record: RunRecord,
    path: Path,
    progress: Callable[[float], None] = lambda _: None,
    shapes: ShapesAt = lambda _: (),
) -> None:
    """Write a video (.mp4 or .gif) in real time; `progress` gets the number of frames done."""
    fps, is_gif = _FPS[path.suffix], path.suffix == '.gif'
    count = count_frames(record, path.suffix)
    model = true_model(task, record)
    renderer = Renderer(model, SCENE, HEIGHT)
    free = renderer.camera
    panel = BeliefPanel(task, record, PANEL, HEIGHT)
    options = (
        {'loop': 0, 'duration': 1e3 / fps}
        if is_gif
        else {'fps': fps, 'macro_block_size': 8, 'quality': 7}
    )
    try:
        with imageio.get_writer(path, **options) as writer:
            for i in range(count):
                now = i / fps
                row = min(np.searchsorted(record.times, now), len(record.times) - 1)
                renderer.camera = task_camera(task, model, record.qpos[row]) or free
                scene = draw_in(renderer, record.qpos[row], shapes(now))
                frame = np.hstack([scene, panel.draw(now)])
                writer.append_data(_shrink(frame, _GIF_SHRINK) if is_gif else frame)
                progress(i + 1)
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None
    finally:
        renderer.close()


def _shrink(frame: np.ndarray, factor: int) -> np.ndarray:
    """Return a smaller frame: each pixel is the mean of factor x factor pixels."""
    rows, columns = (size // factor for size in frame.shape[:2])
    blocks = frame[: rows * factor, : columns * factor].reshape(rows, factor, columns, factor, 3)
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)
