"""Plots of the last half minute: line charts (uPlot, drawn by the browser) and the belief."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import GREEN, GRID, INK, ORANGE, RED, SERIES
from emppi_ros.viz.renderer import Image
from emppi_ros.viz.report import plots
from emppi_ros.viz.web.robot_source import Snapshot

SPAN_S, STEP_S = 30.0, 0.2
MAX_ROWS = round(SPAN_S / STEP_S) + 1
_GAP_S = 2.0  # after a longer gap without a viewer, older rows are dropped
_AXIS = {'grid': {'stroke': GRID, 'width': 1}, 'stroke': INK}
_DATED, _UNDATED = {'size': 26}, {'size': 6, 'values': []}
_LINE_WIDTH, _HEIGHT = 2, 88  # px
_PADDING = 2, 16, 0, 0  # px
_BINS, _DPI = 40, 100
_WIDTH, _ROW, _FOOT = 4.2, 1.05, 0.25  # inches, of the belief image
MAX_PARAMETERS = 8  # in the image


class HistoryRow(NamedTuple):
    """The plotted values of one time."""

    clock: float
    belief: Belief
    theta: Array | None  # (P,) true parameters; None if unknown
    series: Mapping[str, Mapping[str, float]]  # chart -> name -> value


class History:
    """The rows of one run, oldest first."""

    def __init__(self) -> None:
        self.rows: deque[HistoryRow] = deque(maxlen=MAX_ROWS)
        self._run = -1
        self._changes: list[tuple[float, str]] = []

    def append(self, snapshot: Snapshot, terms: dict[str, float]) -> bool:
        """Add a row if the last one is old enough; return whether one was added."""
        last = self.rows[-1].clock if self.rows else -np.inf
        clock = snapshot.clock
        if snapshot.run != self._run or clock < last or clock > last + _GAP_S:
            self.rows.clear()
            self._run, last = snapshot.run, -np.inf
        if snapshot.display is None or clock < last + STEP_S - 1e-6:
            return False
        behind = clock - snapshot.display.stamp
        self._changes = [(c.stamp + behind, c.parameter) for c in snapshot.display.changes]
        series = {
            'ess': {'ESS': snapshot.ess},
            'error': {'error': snapshot.error},
            'terms': terms,
            'latencies': dict(snapshot.latencies),
        }
        self.rows.append(HistoryRow(clock, snapshot.display.belief, snapshot.theta, series))
        return True

    @property
    def times(self) -> Array:
        """Times of the rows (n,) [s] relative to the newest: none is above 0."""
        clocks = np.array([row.clock for row in self.rows])
        return clocks - clocks[-1]

    def changes(self, parameter: str) -> list[float]:
        """Return times [s] of a parameter's changes, relative to the newest row."""
        return [time - self.rows[-1].clock for time, name in self._changes if name == parameter]

    def series(self, chart: str, name: str) -> Array:
        """Return the values of a series (n,); NaN where it is missing."""
        return np.array([row.series[chart].get(name, np.nan) for row in self.rows])

    def truths(self, column: int) -> Array:
        """Return the true value of a parameter at each row (n,); NaN where it is unknown."""
        return np.array([np.nan if m.theta is None else m.theta[column] for m in self.rows])

    def means(self, column: int) -> Array:
        """Return the mean of a parameter at each row (n,)."""
        return np.array(
            [weights.mean(m.belief.log_weights, m.belief.theta)[column] for m in self.rows]
        )

    def histograms(self, column: int, bins: int, low: float, high: float) -> Array:
        """Return the weight of particles in equal bins of a range, at each row (n, bins)."""
        edges = np.linspace(low, high, bins + 1)
        beliefs = [(m.belief.theta[:, column], np.exp(m.belief.log_weights)) for m in self.rows]
        counts = [np.histogram(theta, edges, weights=shares)[0] for theta, shares in beliefs]
        return np.array(counts).reshape(-1, bins)

    def extent(self, column: int, low: float, high: float) -> tuple[float, float]:
        """Return limits that hold the given ones and every particle of every row."""
        values = [m.belief.theta[:, column] for m in self.rows]
        low = min([low, *(float(v.min()) for v in values)])
        high = max([high, *(float(v.max()) for v in values)])
        return (low, high) if high > low else (low - 0.5, high + 0.5)


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

    def show(self, history: History, chart: str) -> None:
        """Show the series of a chart; NaN leaves a gap."""
        series = (history.series(chart, name) for name in self.names)
        self._chart.data = (history.times, *series)


def draw_belief(task: Task, columns: Sequence[int], history: History) -> Image:
    """Return parameters over the last half minute (height, width, 3): darker is more probable."""
    rows = len(columns)
    with plots.styled():
        figure = Figure(figsize=(_WIDTH, rows * _ROW + _FOOT), dpi=_DPI, layout='constrained')
        axes = figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]
        for axis, column in zip(axes, columns, strict=True):
            _draw_parameter(axis, task, column, history)
        return plots.rasterize(figure)


def _draw_parameter(axis: Axes, task: Task, column: int, history: History) -> None:
    """Draw histograms, mean, true value if it is known, and changes of a parameter over time."""
    low, high = history.extent(column, *task.prior.range[:, column])
    axis.set(xlim=(-SPAN_S, 0.0), ylim=(low, high))
    axis.set_title(plots.label(task, column), loc='left', fontsize=10)
    axis.grid(visible=False)
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
    for time in history.changes(task.parameters[column].name):
        if time >= -SPAN_S:
            axis.axvline(time, color=GREEN, linestyle=':', linewidth=1.6)
