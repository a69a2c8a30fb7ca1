"""Videos and stills of a run: the scene with the belief drawn in it, and a panel beside it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
import mujoco
import numpy as np
import PIL.Image

from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError
from emppi_ros.model import scene
from emppi_ros.model.parameters import with_parameters
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task
from emppi_ros.viz.mujoco_overlay import draw_in
from emppi_ros.viz.palette import BLUE, GREEN, ORANGE, RED
from emppi_ros.viz.renderer import Image, Renderer, framing_camera, task_camera
from emppi_ros.viz.report import plots
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.shapes import histograms, joint_axes, objects
from emppi_ros.viz.shapes.scene_extent import scene_extent
from emppi_ros.viz.shapes.shapes import Label, Shapes, Triangles

_DPI, _BINS = 100, 40  # of the belief panel
SUFFIXES = ('.mp4', '.gif')
SCENE, PANEL, HEIGHT = 816, 464, 720  # px: widths, together 1280, and height
CAPTION = 40  # px: height of the caption of a still
_FPS = {'.mp4': 25, '.gif': 10}
_STILL_S = 1.0  # how long the last frame stays
_SMALLER, _LIFT = 0.7, 0.15  # histograms beside rviz's: size; how much higher, of the extent
_MAX_LABELS = 4


class BeliefPanel:
    """Static axes, drawn once, and the artists on them that are redrawn for every frame."""

    def __init__(self, task: Task, record: RunRecord, width: int, height: int) -> None:
        """Lay out the panel and draw its static part."""
        self._task, self._record = task, record
        with plots.styled():
            layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
            figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, layout=layout)
            canvas: Any = FigureCanvasAgg(figure)
            learning = len(task.parameters) > 0 and len(record.belief_times) > 0
            ratios = [2.0, 1.0] if learning else [1.0]
            axes = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
            self._moving: list[Artist] = self._start_error(axes[-1])
            self._pair = len(task.parameters) > 1
            if learning:
                start = self._start_pair if self._pair else self._start_single
                self._moving += start(axes[0])
                axes[0].legend(loc='upper right')
                self._clock = axes[0].text(0.03, 0.95, '', transform=axes[0].transAxes, va='top')
                self._moving.append(self._clock)
            self._learning = learning
            for artist in self._moving:
                artist.set_animated(True)
            canvas.draw()
        self._background = canvas.copy_from_bbox(figure.bbox)
        self._figure, self._canvas = figure, canvas

    def draw(self, now: float) -> Image:
        """Return the panel (height, width, 3) at a time [s]."""
        record = self._record
        past = record.times <= now + 1e-9
        self._line.set_data(record.times[past], record.error[past])
        reached = record.success_s is not None and now >= record.success_s - 1e-9
        self._caption.set_text(f'success at {record.success_s:.1f} s' if reached else '')
        if self._learning:
            self._show(record.belief_at(now), record.truth_at(now))
            self._clock.set_text(f't = {now:4.1f} s')
        self._canvas.restore_region(self._background)
        for artist in self._moving:
            self._figure.draw_artist(artist)
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()

    def _start_error(self, axis: Axes) -> list[Artist]:
        plots.error(axis, self._task, self._record)
        self._line = axis.lines[0]
        axis.set_xlim(0, max(float(self._record.times[-1]), 0.1))
        self._caption = axis.text(
            0.97, 0.95, '', transform=axis.transAxes, ha='right', va='top', color=GREEN,
            weight='bold',
        )  # fmt: skip
        return [self._line, self._caption]

    def _start_pair(self, axis: Axes) -> list[Artist]:
        """Lay out a scatter plot of the first two parameters."""
        axis.set(xlabel=plots.label(self._task, 0), ylabel=plots.label(self._task, 1))
        axis.set_title('Belief: particles')
        axis.set(xlim=self._range(0), ylim=self._range(1))
        (self._truth,) = axis.plot([], [], marker='+', markersize=20, markeredgewidth=3, color=RED,
                                   linestyle='', label='true value')  # fmt: skip
        self._dots = axis.scatter([], [], color=BLUE, alpha=0.5, linewidths=0,
                                  label='particles')  # fmt: skip
        (self._mean,) = axis.plot([], [], marker='o', markersize=9, color=ORANGE,
                                  linestyle='', label='mean')  # fmt: skip
        return [self._truth, self._dots, self._mean]

    def _start_single(self, axis: Axes) -> list[Artist]:
        """Lay out a histogram of the single parameter."""
        self._edges = np.linspace(*self._range(0), _BINS + 1)
        axis.set(
            xlabel=plots.label(self._task, 0), ylabel='weight', xlim=self._range(0), ylim=(0, 1)
        )
        axis.set_title('Belief')
        self._truth = axis.axvline(0.0, color=RED, linestyle='--', label='true value')
        self._bars = axis.stairs(np.zeros(_BINS), self._edges, fill=True, color=BLUE)
        return [self._truth, self._bars]

    def _show(self, belief: Belief, truth: Array) -> None:
        theta, weight = belief.theta, np.exp(belief.log_weights)
        if self._pair:
            self._truth.set_data(*truth[:2, None])
            self._dots.set_offsets(theta[:, :2])
            self._dots.set_sizes(10.0 + 40.0 * np.sqrt(weight / weight.max()))
            self._mean.set_data(*(weight @ theta[:, :2])[:, None])
        else:
            self._truth.set_xdata([truth[0], truth[0]])
            self._bars.set_data(np.histogram(theta[:, 0], self._edges, weights=weight)[0])

    def _range(self, index: int) -> tuple[float, float]:
        """Return limits that hold the true value and nearly all particles of the run."""
        truths = self._record.truths[:, index]
        low, high = np.percentile(self._record.belief_theta[..., index], [0.5, 99.5])
        low, high = min(low, truths.min()), max(high, truths.max())
        margin = 0.08 * (high - low) + 1e-6
        return low - margin, high + margin


def true_model(task: Task, record: RunRecord) -> mujoco.MjModel:
    """Return the model with the true parameters: the one that the record's states belong to."""
    return with_parameters(task.visual_model(), task.parameters, record.truth)


def belief_shapes(task: Task, record: RunRecord, model: mujoco.MjModel, now: float) -> Shapes:
    """
    Return tracked objects and the belief at a time [s]; none if the task learns nothing.

    `model` is the task's with the true parameters. Before the first belief, that one is shown.
    Histograms stay where they are at the start: following an object, they would leave the picture.
    """
    if not task.parameters or not len(record.belief_times):
        return []
    extent, row = scene_extent(task), record.row_at(now)
    belief = record.belief_at(now)
    smaller = extent._replace(size=_SMALLER * extent.size)
    start, data = (scene.kinematics(model, record.qpos[i]) for i in (0, row))
    numbers = histograms.shapes(task, smaller, start, belief, _LIFT * extent.size)
    labels = [
        shape._replace(text=shape.text.split('\n')[0])  # of a parameter only its name
        for shape in numbers
        if isinstance(shape, Label)
    ]
    return [
        *(s for s in objects.shapes(task, extent, data) if not isinstance(s, Triangles)),
        *joint_axes.shapes(task, extent, data, belief),
        *(shape for shape in numbers if not isinstance(shape, Label)),
        *(labels if len(labels) <= _MAX_LABELS else ()),  # more are illegible
    ]


def count_frames(record: RunRecord, suffix: str = '.mp4') -> int:
    """Return the number of frames of a video."""
    if len(record.times) == 0:
        raise ConfigError('the record has no states: there is nothing to show')
    return int((record.times[-1] + _STILL_S) * _FPS[suffix]) + 1


def write_still(task: Task, record: RunRecord, path: Path) -> None:
    """Write a picture (.png) of the scene at the start and at the end of a record."""
    with _scenes(task, record) as draw:
        picture = np.hstack([draw(record.times[row]) for row in (0, -1)])
    picture = np.vstack([_captions(record, picture.shape[1]), picture])
    with paths.replacing(path) as temporary:
        imageio.imwrite(temporary, picture)


def _captions(record: RunRecord, width: int) -> Image:
    """Return the captions (CAPTION, width, 3) of the pictures of start and end."""
    figure = Figure(figsize=(width / _DPI, CAPTION / _DPI), dpi=_DPI)
    end = f'end: {record.times[-1]:.1f} s'
    if record.success_s is not None:
        end = f'success at {record.success_s:.1f} s'
    for x, text in ((0.01, 'start'), (0.51, end)):
        figure.text(x, 0.5, text, va='center')
    return plots.rasterize(figure)


@contextmanager
def _scenes(task: Task, record: RunRecord) -> Iterator[Callable[[float], Image]]:
    """Yield a function that returns a picture of the scene at a time [s], with the belief."""
    model = true_model(task, record)
    planned = with_parameters(task.model, task.parameters, record.truth)
    free = framing_camera(task, model, SCENE / HEIGHT)
    with closing(Renderer(model, SCENE, HEIGHT, free)) as renderer:

        def draw(now: float) -> Image:
            qpos = record.qpos[record.row_at(now)]
            renderer.camera = task_camera(task, model, qpos) or free
            return draw_in(renderer, qpos, belief_shapes(task, record, planned, now))

        yield draw


def write(task: Task, record: RunRecord, path: Path, progress: Callable[[float], None]) -> None:
    """Write a video (.mp4 or .gif) in real time; `progress` gets the number of frames done."""
    fps, is_gif = _FPS[path.suffix], path.suffix == '.gif'
    count = count_frames(record, path.suffix)
    panel = BeliefPanel(task, record, PANEL, HEIGHT)
    settings: dict[str, Any] = {'fps': fps, 'macro_block_size': 8, 'quality': 7}
    if is_gif:
        settings = {'loop': 0, 'duration': 1e3 / fps}
    with (
        paths.replacing(path) as temporary,
        _scenes(task, record) as draw,
        # closed after errors, too, which the writer's own context manager does not do
        closing(imageio.get_writer(temporary, **settings)) as writer,
    ):
        for i in range(count):
            frame = np.hstack([draw(i / fps), panel.draw(i / fps)])
            if is_gif:
                frame = np.asarray(PIL.Image.fromarray(frame).reduce(2))
            writer.append_data(frame)
            progress(i + 1)
