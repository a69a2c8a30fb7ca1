"""Plots of the benchmark: success, regret, times, and curves over time; joints in a scene."""

from collections.abc import Callable, Mapping, Sequence
import functools
import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter
import numpy as np

from benchmarks.paper import joint_pictures
from benchmarks.paper.cells import CONTROLLERS, LEARNER, LEARNING, SUCCESS, Cell, Row
from benchmarks.paper.summary import Summary, by_task, learners
from benchmarks.study import grouped
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import config
from emppi_ros.core.arrays import Array
from emppi_ros.model.parameters import AXES
from emppi_ros.tasks.task import parse_task
from emppi_ros.viz import renderer
from emppi_ros.viz.palette import BLUE, GREY, ORANGE, RED
from emppi_ros.viz.report import recording
from emppi_ros.viz.report.plots import styled

GREEN = '#3a8f5c'
COLORS = dict(zip(CONTROLLERS, (BLUE, GREEN, RED, ORANGE, GREY), strict=True))
INTERVAL = {'ecolor': '#1f2937', 'elinewidth': 1.2, 'capsize': 2.5}
WIDTH = 10.0  # inches
WIDE = 20.0  # ratio of values from which an axis is logarithmic
POINTS = 200  # of a curve
COLUMNS = 3  # of panels
FEW_DECADES = 300.0  # ratio of values below which powers of ten are too few labels


def write_all(rows: Sequence[Row], summary: Summary, folder: Path) -> list[Path]:
    """Write all plots that have data as PNG files, and return the paths."""
    pictures: dict[str, Callable[[], Figure]] = {}
    if summary.success:
        pictures['success'] = lambda: success(summary)
        pictures['plan_time'] = lambda: plan_time(rows, summary)
    if any(summary.regret_s.values()):
        pictures['regret'] = lambda: regret(summary)
    if summary.fall:
        pictures['squared_error'] = lambda: squared_error(rows)
        for task in summary.fall:
            pictures[f'estimates_{task}'] = functools.partial(estimates, rows, task)
    if summary.learning:
        pictures['learning'] = lambda: squared_error(rows, LEARNING)
    if any(row.goals_s for row in rows if row.study == SUCCESS):
        pictures['goals'] = lambda: goals(rows)
    written = []
    for name, draw in pictures.items():
        with styled():
            written.append(folder / f'{name}.png')
            draw().savefig(written[-1], dpi=110)
    return written


def success(summary: Summary) -> Figure:
    """Return success rates with Wilson intervals by task and controller."""
    figure, axis, places = _by_task(summary.success)
    for (task, name), y in places.items():
        share = summary.success[task][name]
        low, high = share.rate - share.low, share.high - share.rate
        error = [[100.0 * max(low, 0.0)], [100.0 * max(high, 0.0)]]
        axis.barh(y, 100.0 * share.rate, 0.8, xerr=error, color=COLORS[name], error_kw=INTERVAL)
        axis.text(103.0, y, f'{share.count}/{share.total}', va='center', color=GREY, fontsize=9)
    axis.set(xlim=(0, 100), xlabel='successful runs [%], with 95 % Wilson intervals')
    axis.set_title('Success in the first run')
    _legend(figure, summary.success)
    return figure


def regret(summary: Summary) -> Figure:
    """Return how much longer each controller takes than the oracle."""
    regrets = {task: means for task, means in summary.regret_s.items() if means}
    figure, axis, places = _by_task(regrets)
    for (task, name), y in places.items():
        value = regrets[task][name]
        if value.low is not None and value.high is not None:
            axis.plot([value.low, value.high], [y, y], color=COLORS[name], linewidth=2.2)
        axis.plot(value.mean, y, 'o', color=COLORS[name], markersize=7)
    axis.axvline(0.0, color=GREY, linewidth=1.2)
    axis.set_xlabel('seconds more than MPPI with the true parameters (mean, 95 % bootstrap)')
    axis.set_title('Regret: time to success (time limit without success)')
    _legend(figure, regrets)
    return figure


def plan_time(rows: Sequence[Row], summary: Summary) -> Figure:
    """Return planning times and the periods that real time allows."""
    figure, axis, places = _by_task(summary.plan_ms)
    periods = {row.task: row.period_ms for row in rows}
    for (task, name), y in places.items():
        axis.plot(summary.plan_ms[task][name], y, 'o', color=COLORS[name], markersize=7)
        edges = [y - 0.5, y + 0.5]
        axis.plot([periods[task]] * 2, edges, color=RED, linestyle='--', linewidth=1.5)
    shown = [ms for times in (periods, *summary.plan_ms.values()) for ms in times.values()]
    if np.nanmax(shown) > WIDE * np.nanmin(shown):
        axis.set_xscale('log')
        _label_decades(axis.xaxis, (1.0, 2.0, 5.0))
    else:
        axis.set_xlim(0, None)
    axis.set_xlabel('planning time [ms], median (dashed: real-time limit)')
    axis.set_title('Planning time on this machine')
    _legend(figure, summary.plan_ms)
    return figure


def squared_error(rows: Sequence[Row], study: str = SUCCESS) -> Figure:
    """Return the squared parameter error over time, one panel a task (the paper's Fig. 3)."""
    runs = learners(by_task(rows, study))
    figure, axes = _panels(len(runs))
    for axis, (task, learned) in zip(axes, runs.items(), strict=True):
        times = _times(learned)
        values = np.array([_held(row, row.course.squared_error, times) for row in learned])
        _band(axis, times, values)
        axis.set(title=task.replace('_', ' '), xlabel='time [s]', xlim=(0, times[-1]))
        if np.all(values > 0.0):
            _logarithmic(axis)
    axes[0].set_ylabel('squared error')
    axes[0].legend()
    learning = study == LEARNING
    rest = 'runs continue after success' if learning else 'finished runs keep their last value'
    _title(figure, f'Squared error of the parameters ({rest})')
    return figure


def estimates(rows: Sequence[Row], task: str) -> Figure:
    """Return the error of each parameter's estimate over time."""
    learned = by_task(rows)[task][LEARNER]
    times = _times(learned)
    figure, axes = _panels(len(learned[0].parameters))
    for axis, (name, estimate) in zip(axes, learned[0].parameters.items(), strict=True):
        off = np.array(
            [_held(r, r.course.means[name], times) - r.parameters[name].true for r in learned]
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


def goals(rows: Sequence[Row]) -> Figure:
    """Return the number of goals reached over time, one panel a task (the paper's Fig. 4)."""
    runs = {
        task: controllers
        for task, controllers in by_task(rows).items()
        if any(row.goals_s for group in controllers.values() for row in group)
    }
    figure, axes = _panels(len(runs))
    for axis, (task, controllers) in zip(axes, runs.items(), strict=True):
        end = max(row.limit_s for group in controllers.values() for row in group)
        times = np.linspace(0.0, end, POINTS)
        for name, group in controllers.items():
            counts = [np.searchsorted(np.sort(row.goals_s), times, 'right') for row in group]
            axis.plot(times, np.mean(counts, axis=0), color=COLORS[name], label=name)
        axis.set(title=task.replace('_', ' '), xlabel='time [s]', xlim=(0, end), ylim=(0, None))
    axes[0].set_ylabel('goals reached, mean over runs')
    figure.legend(*axes[0].get_legend_handles_labels(), loc='outside lower center', ncols=3)
    return figure


def _logarithmic(axis: Axes) -> None:
    """Make the y axis logarithmic, with a few readable labels."""
    axis.set_yscale('log')
    low, high = axis.get_ylim()
    _label_decades(axis.yaxis, (1.0,) if high > FEW_DECADES * low else (1.0, 2.0, 5.0))


def _label_decades(axis: Axis, marks: Sequence[float]) -> None:
    axis.set_major_locator(LogLocator(subs=marks))
    axis.set_major_formatter('{x:g}')
    axis.set_minor_formatter(NullFormatter())


def _title(figure: Figure, text: str) -> None:
    figure.suptitle(text, x=0.01, ha='left', fontsize=12, fontweight='bold')


def _times(rows: Sequence[Row]) -> Array:
    """Return times from the start to the end of the longest run."""
    end = max(row.course.times[-1] for row in rows)
    return np.linspace(0.0, end or 1.0, POINTS)


def _held(row: Row, values: Sequence[float], times: Array) -> Array:
    """Return the values of a series at other times: each holds until the next."""
    index = np.searchsorted(row.course.times, times, 'right') - 1
    return np.asarray(values)[np.maximum(index, 0)]


def _band(axis: Axes, times: Array, values: Array) -> None:
    """Draw median and quartiles of values (runs, n)."""
    low, middle, high = np.percentile(values, [25, 50, 75], axis=0)
    axis.fill_between(times, low, high, color=BLUE, alpha=0.22, linewidth=0, label='quartiles')
    axis.plot(times, middle, color=BLUE, label='median')


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels in rows of up to COLUMNS."""
    columns = min(count, COLUMNS)
    lines = math.ceil(count / columns)
    width = {1: 6.5, 2: 10.0}.get(columns, 12.0)
    figure = Figure(figsize=(width, 0.6 + 2.9 * lines), layout='constrained')
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def _by_task(
    values: Mapping[str, Mapping[str, object]],
) -> tuple[Figure, Axes, dict[tuple[str, str], float]]:
    """Return a figure, and a y position for each task and controller, tasks from the top."""
    places: dict[tuple[str, str], float] = {}
    middles, y = [], 0.0
    for task, controllers in values.items():
        names = [name for name in COLORS if name in controllers]
        places |= {(task, name): y + i for i, name in enumerate(names)}
        middles.append(y + 0.5 * (len(names) - 1))
        y += len(names) + 0.8
    figure = Figure(figsize=(WIDTH, 1.5 + 0.21 * y), layout='constrained')
    axis = figure.subplots()
    axis.set_yticks(middles, [task.replace('_', ' ') for task in values])
    axis.set_ylim(y - 0.8, -1.0)
    axis.tick_params(axis='y', length=0)
    axis.grid(axis='y', visible=False)
    return figure, axis, places


def _legend(figure: Figure, values: Mapping[str, Mapping[str, object]]) -> None:
    """Add a legend of the controllers below the plot."""
    names = [name for name in COLORS if any(name in group for group in values.values())]
    marks = [Patch(facecolor=COLORS[name]) for name in names]
    if names != [LEARNER]:
        figure.legend(marks, names, loc='outside lower center', ncols=len(names))


def write_joint_pictures(
    cells: Sequence[Cell], folder: Path, say: Callable[[str], None]
) -> list[Path]:
    """
    Write `articulation_TASK.png` of EMPPI's first run of each task with an uncertain joint.

    Rows hold no particles, but the same cell gives the same bits: it is run again, unless the
    picture exists. `say` receives messages about that, and about a missing renderer.
    """
    written: list[Path] = []
    learned = [cell for cell in cells if (cell.study, cell.controller) == (SUCCESS, LEARNER)]
    for cell in (first for first, *_ in grouped(learned, 'task').values()):
        parameters = config.parse(cell.text, cell.task).get('parameters', {})
        if not any(entry.get('field') in AXES for entry in parameters.values()):
            continue
        name = f'articulation_{cell.task}'
        drawn = sorted(folder.glob(f'{name}*.png'))
        if kept := [path for path in drawn if joint_pictures.source_of(path) == cell.digest]:
            written += kept
            continue
        try:
            renderer.check_renderer()
            say(f'drawing the belief about the joint in {cell.task}')
            task = parse_task(cell.text, cell.task)
            record = recording.of_trace(ClosedLoop(task, cell.seed, cell.controller).run())
            written += joint_pictures.write_all(task, record, folder, name, cell.digest)
        except renderer.RenderError as error:
            say(f'no pictures of the belief about joints: {error}')
            break
    return written
