"""The side panel of a video: the belief and the error at one moment, drawn quickly."""

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BLUE, ORANGE, RED
from emppi_ros.viz.report import plots
from emppi_ros.viz.report.recording import RunRecord

Array = npt.NDArray[np.float64]
Image = npt.NDArray[np.uint8]
_DPI = 100
_BINS = 40


class BeliefPanel:
    """Static axes, drawn once, and the artists on them that are redrawn for every frame."""

    def __init__(self, task: Task, record: RunRecord, width: int, height: int) -> None:
        """Lay out the panel and draw its static part."""
        self._task, self._record = task, record
        with plots.styled():
            figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, layout='constrained')
            figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
            self._canvas = FigureCanvasAgg(figure)
            learning = len(task.parameters) > 0 and len(record.belief_times) > 0
            ratios = [2.0, 1.0] if learning else [1.0]
            axes = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
            self._moving: list[Artist] = self._start_error(axes[-1])
            self._pair = len(task.parameters) > 1
            if learning:
                start = self._start_pair if self._pair else self._start_single
                self._moving += start(axes[0])
            self._learning = learning
            for artist in self._moving:
                artist.set_animated(True)
            self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(figure.bbox)
        self._axes: Sequence[Axes] = list(axes)

    def draw(self, now: float) -> Image:
        """Return the panel (height, width, 3) at a time [s]."""
        record = self._record
        past = record.times <= now + 1e-9
        self._line.set_data(record.times[past], record.error[past])
        if self._learning:
            row = max(int(np.searchsorted(record.belief_times, now, side='right')) - 1, 0)
            self._show(record.belief_theta[row], record.belief_weights[row])
            self._clock.set_text(f't = {now:4.1f} s')
        self._canvas.restore_region(self._background)
        for artist in self._moving:
            artist.axes.draw_artist(artist)
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()

    def _start_error(self, axis: Axes) -> list[Artist]:
        plots.error(axis, self._task, self._record)
        self._line = axis.lines[0]
        axis.set_xlim(0, max(float(self._record.times[-1]), 0.1))
        return [self._line]

    def _start_pair(self, axis: Axes) -> list[Artist]:
        """Lay out a scatter plot of the first two parameters."""
        truth = self._record.truth
        axis.set(xlabel=plots.label(self._task, 0), ylabel=plots.label(self._task, 1))
        axis.set_title('Belief: particles')
        for set_limits, i in ((axis.set_xlim, 0), (axis.set_ylim, 1)):
            set_limits(*self._range(i))
        axis.plot(*truth[:2], marker='+', markersize=20, markeredgewidth=3, color=RED,
                  linestyle='', label='true value', zorder=5)  # fmt: skip
        self._dots = axis.scatter([], [], color=BLUE, alpha=0.5, linewidths=0,
                                  label='particles')  # fmt: skip
        (self._mean,) = axis.plot([], [], marker='o', markersize=9, color=ORANGE,
                                  linestyle='', label='mean')  # fmt: skip
        axis.legend(loc='upper right')
        self._clock = axis.text(0.03, 0.95, '', transform=axis.transAxes, va='top')
        return [self._dots, self._mean, self._clock]

    def _start_single(self, axis: Axes) -> list[Artist]:
        """Lay out a histogram of the single parameter."""
        self._edges = np.linspace(*self._range(0), _BINS + 1)
        axis.set(
            xlabel=plots.label(self._task, 0), ylabel='weight', xlim=self._range(0), ylim=(0, 1)
        )
        axis.set_title('Belief')
        axis.axvline(self._record.truth[0], color=RED, linestyle='--', label='true value')
        self._bars = axis.stairs(np.zeros(_BINS), self._edges, fill=True, color=BLUE)
        axis.legend(loc='upper right')
        self._clock = axis.text(0.03, 0.95, '', transform=axis.transAxes, va='top')
        return [self._bars, self._clock]

    def _show(self, theta: Array, weight: Array) -> None:
        if self._pair:
            self._dots.set_offsets(theta[:, :2])
            self._dots.set_sizes(10.0 + 40.0 * np.sqrt(weight / weight.max()))
            self._mean.set_data(*(weight @ theta[:, :2])[:, None])
        else:
            self._bars.set_data(np.histogram(theta[:, 0], self._edges, weights=weight)[0])

    def _range(self, index: int) -> tuple[float, float]:
        """Return limits that hold the true value and nearly all particles of the run."""
        values, truth = self._record.belief_theta[..., index], self._record.truth[index]
        low, high = np.percentile(values, [0.5, 99.5])
        low, high = min(low, truth), max(high, truth)
        margin = 0.08 * (high - low) + 1e-6
        return low - margin, high + margin
