"""Plots over time: squared parameter error, estimates, goals of a task with many attempts."""

from collections.abc import Mapping, Sequence
import math

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter
import numpy as np
import numpy.typing as npt

from emppi_ros.bench.paper.cells import LEARNER, LEARNING, SUCCESS
from emppi_ros.bench.paper.rows import Row
from emppi_ros.bench.paper.summary import by_task
from emppi_ros.viz.palette import BLUE, RED

Array = npt.NDArray[np.float64]
POINTS = 200  # of a curve
COLUMNS = 3
FEW = 300.0  # times as much: within it, powers of ten are too few numbers at an axis


def squared_error(rows: Sequence[Row], study: str = SUCCESS) -> Figure:
    """Return how the squared error of the parameters fell, a panel a task (the paper's Fig. 3)."""
    runs = {
        task: found[LEARNER]
        for task, found in by_task(rows, study).items()
        if LEARNER in found and found[LEARNER][0].parameters
    }
    figure, axes = _panels(len(runs))
    for axis, (task, found) in zip(axes, runs.items(), strict=True):
        times = _times(found)
        values = np.array([_held(row, row.course.squared_error, times) for row in found])
        _band(axis, times, values)
        axis.set(title=task.replace('_', ' '), xlabel='time [s]', xlim=(0, times[-1]))
        if np.all(values > 0.0):
            _logarithmic(axis)
    axes[0].set_ylabel('squared error')
    axes[0].legend()
    rest = 'a run that is over keeps its last value'
    if study == LEARNING:
        rest = 'runs go on after success'
    _title(figure, f'Squared error of the parameters ({rest})')
    return figure


def estimates(rows: Sequence[Row], task: str) -> Figure:
    """Return how far the estimate of each parameter is from the truth, over time."""
    found = by_task(rows)[task][LEARNER]
    times = _times(found)
    figure, axes = _panels(len(found[0].parameters))
    for axis, (name, estimate) in zip(axes, found[0].parameters.items(), strict=True):
        off = np.array(
            [_held(r, r.course.means[name], times) - r.parameters[name].true for r in found]
        )
        axis.plot(times, off.T, color=BLUE, alpha=0.25, linewidth=0.8)
        _band(axis, times, off)
        axis.axhline(0.0, color=RED, linestyle='--', linewidth=1.4, label='true value')
        unit = f' [{estimate.unit}]' if estimate.unit else ''
        axis.set(title=name.replace('_', ' ') + unit, xlabel='time [s]', xlim=(0, times[-1]))
    axes[0].set_ylabel('mean minus true value')
    axes[0].legend()
    _title(figure, f'Estimates of EMPPI: {task.replace("_", " ")}')
    return figure


def goals(rows: Sequence[Row], colors: Mapping[str, str]) -> Figure:
    """Return how many goals were reached by when, a panel a task (the paper's Fig. 4)."""
    runs = {
        task: controllers
        for task, controllers in by_task(rows).items()
        if any(row.goals_s for found in controllers.values() for row in found)
    }
    figure, axes = _panels(len(runs))
    for axis, (task, controllers) in zip(axes, runs.items(), strict=True):
        end = max(row.limit_s for found in controllers.values() for row in found)
        times = np.linspace(0.0, end, POINTS)
        for name, found in controllers.items():
            counts = [np.searchsorted(np.sort(row.goals_s), times, 'right') for row in found]
            axis.plot(times, np.mean(counts, axis=0), color=colors[name], label=name)
        axis.set(title=task.replace('_', ' '), xlabel='time [s]', xlim=(0, end), ylim=(0, None))
    axes[0].set_ylabel('goals reached, mean over runs')
    figure.legend(*axes[0].get_legend_handles_labels(), loc='outside lower center', ncols=3)
    return figure


def _logarithmic(axis: Axes) -> None:
    """Make the scale of y logarithmic, with a few numbers that can be read."""
    axis.set_yscale('log')
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > FEW * low else (1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter('{x:g}')
    axis.yaxis.set_minor_formatter(NullFormatter())


def _title(figure: Figure, words: str) -> None:
    figure.suptitle(words, x=0.01, ha='left', fontsize=12, fontweight='bold')


def patch(color: str) -> Patch:
    """Return a coloured field for a legend."""
    return Patch(facecolor=color)


def _times(found: Sequence[Row]) -> Array:
    """Return moments from the start to the end of the longest run."""
    end = max(row.course.times[-1] for row in found)
    return np.linspace(0.0, end or 1.0, POINTS)


def _held(row: Row, values: Sequence[float], times: Array) -> Array:
    """Return a course's values at other times: each holds until the next."""
    index = np.searchsorted(row.course.times, times, 'right') - 1
    return np.asarray(values)[np.maximum(index, 0)]


def _band(axis: Axes, times: Array, values: Array) -> None:
    """Draw median and quartiles of values (runs, n)."""
    low, middle, high = np.percentile(values, [25, 50, 75], axis=0)
    axis.fill_between(times, low, high, color=BLUE, alpha=0.22, linewidth=0, label='quartiles')
    axis.plot(times, middle, color=BLUE, label='median')


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many panels in rows of a few."""
    columns = min(count, COLUMNS)
    lines = math.ceil(count / columns)
    width = {1: 6.5, 2: 10.0}.get(columns, 12.0)
    figure = Figure(figsize=(width, 0.6 + 2.9 * lines), layout='constrained')
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]
