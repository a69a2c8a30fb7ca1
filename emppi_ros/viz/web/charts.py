"""Plots over the last half minute: line charts (uPlot, drawn by the browser) and the belief."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import GREEN, GRID, INK, ORANGE, RED, SERIES
from emppi_ros.viz.report import plots
from emppi_ros.viz.report.canvas import Image, make_canvas, pixels
from emppi_ros.viz.shapes.histograms import scalar_columns
from emppi_ros.viz.web.history import SPAN_S, STEP_S, History

_AXIS = {'grid': {'stroke': GRID, 'width': 1}, 'stroke': INK}
_DATED, _UNDATED = {'size': 26}, {'size': 6, 'values': []}
_LINE_WIDTH, _HEIGHT = 2, 88  # px
_PADDING = 2, 16, 0, 0  # px
_BINS, _COLUMNS, _DPI = 40, round(SPAN_S / STEP_S), 100
_WIDTH, _ROW, _FOOT = 4.2, 1.05, 0.25  # inches, of the belief image
_MAX_ROWS = 8


class Chart:
    """A line chart of a few series over the same times."""

    def __init__(
        self,
        gui: Any,
        title: str,
        names: tuple[str, ...],
        top: float | None = None,
        dated: bool = False,
    ) -> None:
        """Lay out the chart: y from 0 to `top` or automatic; `dated` shows the time axis."""
        self.names = names
        series: list[dict[str, str | int]] = [{'label': 's'}]
        for i, name in enumerate(names):
            series.append({'label': name, 'stroke': SERIES[i % len(SERIES)], 'width': _LINE_WIDTH})
        vertical: dict[str, Any] = {'auto': True} if top is None else {'range': (0.0, top)}
        nothing = np.zeros(1)
        self._chart = gui.add_uplot(
            (nothing, *(nothing for _ in names)),
            tuple(series),
            title=title,
            scales={'x': {'time': False, 'range': (-SPAN_S, 0.0)}, 'y': vertical},
            axes=(_AXIS | (_DATED if dated else _UNDATED), _AXIS | {'size': 50}),
            legend={'show': len(names) > 1, 'live': False},
            cursor={'show': True},
            height=_HEIGHT,
            padding=_PADDING,
        )

    def show(self, times: Array, values: Mapping[str, Array]) -> None:
        """Show series (n,) at times (n,) [s]; NaN leaves a gap."""
        self._chart.data = (times, *(values[name] for name in self.names))


class BeliefImage:
    """The belief over time as an image: one row of histograms for each scalar parameter."""

    def __init__(self, task: Task) -> None:
        """Choose the first few parameters; their true values are drawn if they are known."""
        self._task = task
        self.columns = scalar_columns(task)[:_MAX_ROWS]

    def draw(self, history: History) -> Image:
        """Return the image (height, width, 3) of the last half minute: darker is more probable."""
        rows = len(self.columns)
        with plots.styled():
            figure = Figure(figsize=(_WIDTH, rows * _ROW + _FOOT), dpi=_DPI, layout='constrained')
            canvas = make_canvas(figure)
            axes = figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]
            for axis, column in zip(axes, self.columns, strict=True):
                self._row(axis, column, history)
            canvas.draw()
        return pixels(canvas)

    def _row(self, axis: Axes, column: int, history: History) -> None:
        low, high = history.extent(column, *self._task.prior.range[:, column])
        axis.set(xlim=(-SPAN_S, 0.0), ylim=(low, high))
        axis.set_title(plots.label(self._task, column), loc='left', fontsize=10)
        axis.grid(visible=False)
        if not history.rows:
            return
        times = history.times
        counts = history.histograms(column, _BINS, low, high)
        shade = counts / np.maximum(counts.max(axis=1, keepdims=True), 1e-300)
        edges = np.append(times, times[-1] + STEP_S) - STEP_S
        axis.pcolormesh(
            edges, np.linspace(low, high, _BINS + 1), shade.T, cmap='Blues', vmin=0.0, vmax=1.0
        )
        truths = history.truths(column)
        axis.step(
            [-SPAN_S, *times], [truths[0], *truths],
            where='post', color=RED, linestyle='--', linewidth=1.2,
        )  # fmt: skip
        axis.plot(times, history.means(column), color=ORANGE, linewidth=1.6)
        for time in history.changes(self._task.parameters[column].name):
            if time >= -SPAN_S:
                axis.axvline(time, color=GREEN, linestyle=':', linewidth=1.6)
