"""The belief over time as a picture: a histogram at each moment, the darker the likelier."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.task import Task
from emppi_ros.viz.report import plots
from emppi_ros.viz.shapes.histograms import scalars
from emppi_ros.viz.web.history import SPAN_S, STEP_S, History

Array = npt.NDArray[np.float64]
_BINS, _COLUMNS, _DPI = 40, round(SPAN_S / STEP_S), 100
_WIDTH, _ROW, _FOOT = 4.2, 1.05, 0.25  # inches
_MOST_ROWS = 8


class Beliefs:
    """A row of the picture for each of the first few parameters that are numbers by themselves."""

    def __init__(self, task: Task, theta: Array | None) -> None:
        """Lay the picture out; true parameters (P,) are shown where they are known."""
        self._task, self._theta = task, theta
        self.columns = scalars(task)[:_MOST_ROWS]

    def draw(self, history: History) -> npt.NDArray[np.uint8]:
        """Return the picture (height, width, 3) of the last half minute."""
        rows = len(self.columns)
        with plots.styled():
            figure = Figure(figsize=(_WIDTH, rows * _ROW + _FOOT), dpi=_DPI, layout='constrained')
            canvas = FigureCanvasAgg(figure)
            axes = figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]
            for axis, column in zip(axes, self.columns, strict=True):
                self._row(axis, column, history)
            canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()

    def _row(self, axis: plots.Axes, column: int, history: History) -> None:
        low, high = history.extent(column, *self._task.prior.range[:, column])
        axis.set(xlim=(-SPAN_S, 0.0), ylim=(low, high))
        axis.set_title(plots.label(self._task, column), loc='left', fontsize=10)
        axis.grid(visible=False)
        if self._theta is not None:
            axis.axhline(self._theta[column], color=plots.RED, linestyle='--', linewidth=1.2)
        if not history.moments:
            return
        times = history.times
        found = history.histograms(column, _BINS, low, high)
        shade = found / np.maximum(found.max(axis=1, keepdims=True), 1e-300)
        edges = np.append(times, times[-1] + STEP_S) - STEP_S
        axis.pcolormesh(
            edges, np.linspace(low, high, _BINS + 1), shade.T, cmap='Blues', vmin=0.0, vmax=1.0
        )
        axis.plot(times, history.means(column), color=plots.ORANGE, linewidth=1.6)
