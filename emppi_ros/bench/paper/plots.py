"""Plots of the benchmark's numbers: success, regret, times of plans, calibration, ablation."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
import numpy as np

from emppi_ros.bench.paper import curves
from emppi_ros.bench.paper.cells import CONTROLLERS, LEARNER, LEARNING, SUCCESS
from emppi_ros.bench.paper.claims import CALIBRATED
from emppi_ros.bench.paper.rows import Row
from emppi_ros.bench.paper.summary import Summary
from emppi_ros.bench.statistics import Share
from emppi_ros.viz.palette import BLUE, GREY, ORANGE, RED
from emppi_ros.viz.report.plots import styled

GREEN, LIGHT = '#3a8f5c', '#c9ced6'
COLORS = dict(zip(CONTROLLERS, (BLUE, GREEN, RED, ORANGE, GREY), strict=True))
INTERVAL = {'ecolor': '#1f2937', 'elinewidth': 1.2, 'capsize': 2.5}
WIDTH = 10.0  # inches
WIDE = 20.0  # times as long: within it, a scale from 0 shows all
DARK = 60.0  # %: words on such a field are white


def write_all(rows: Sequence[Row], summary: Summary, folder: Path) -> list[Path]:
    """Write each plot that there are numbers for, as PNG, and return the paths."""
    pictures: dict[str, Callable[[], Figure]] = {}
    if summary.success:
        pictures['success'] = lambda: success(summary)
        pictures['plan_time'] = lambda: plan_time(rows, summary)
    if any(summary.regret_s.values()):
        pictures['regret'] = lambda: regret(summary)
    if summary.fall:
        pictures['squared_error'] = lambda: curves.squared_error(rows)
        for task in summary.fall:
            pictures[f'estimates_{task}'] = lambda task=task: curves.estimates(rows, task)
    if summary.learning:
        pictures['learning'] = lambda: curves.squared_error(rows, LEARNING)
    if any(row.goals_s for row in rows if row.study == SUCCESS):
        pictures['goals'] = lambda: curves.goals(rows, COLORS)
    if summary.ablation:
        pictures['ablation'] = lambda: ablation(summary.ablation)
    if summary.calibration:
        pictures['calibration'] = lambda: calibration(summary.calibration)
    written = []
    for name, draw in pictures.items():
        with styled():
            written.append(folder / f'{name}.png')
            draw().savefig(written[-1], dpi=110)
    return written


def success(summary: Summary) -> Figure:
    """Return success rates with Wilson's intervals, by task and controller."""
    figure, axis, places = _by_task(summary.success)
    for (task, name), y in places.items():
        share = summary.success[task][name]
        low, high = share.rate - share.low, share.high - share.rate
        error = [[100.0 * max(low, 0.0)], [100.0 * max(high, 0.0)]]
        axis.barh(y, 100.0 * share.rate, 0.8, xerr=error, color=COLORS[name], error_kw=INTERVAL)
        axis.text(103.0, y, f'{share.count}/{share.total}', va='center', color=GREY, fontsize=9)
    axis.set(xlim=(0, 100), xlabel='runs that succeed [%], with 95 % Wilson intervals')
    axis.set_title('Success in the first run')
    _legend(figure, summary.success)
    return figure


def regret(summary: Summary) -> Figure:
    """Return how much longer each controller takes than the oracle."""
    found = {task: means for task, means in summary.regret_s.items() if means}
    figure, axis, places = _by_task(found)
    for (task, name), y in places.items():
        value = found[task][name]
        if value.low is not None and value.high is not None:
            axis.plot([value.low, value.high], [y, y], color=COLORS[name], linewidth=2.2)
        axis.plot(value.mean, y, 'o', color=COLORS[name], markersize=7)
    axis.axvline(0.0, color=GREY, linewidth=1.2)
    axis.set_xlabel('seconds more than MPPI with the true parameters (mean, 95 % bootstrap)')
    axis.set_title('Regret: time to success, or all the time if there is none')
    _legend(figure, found)
    return figure


def plan_time(rows: Sequence[Row], summary: Summary) -> Figure:
    """Return how long a plan takes, beside the period in which real time needs one."""
    figure, axis, places = _by_task(summary.plan_ms)
    periods = {row.task: row.period_ms for row in rows}
    for (task, name), y in places.items():
        axis.plot(summary.plan_ms[task][name], y, 'o', color=COLORS[name], markersize=7)
        edges = [y - 0.5, y + 0.5]
        axis.plot([periods[task]] * 2, edges, color=RED, linestyle='--', linewidth=1.5)
    shown = [
        *periods.values(),
        *(ms for found in summary.plan_ms.values() for ms in found.values()),
    ]
    if np.nanmax(shown) > WIDE * np.nanmin(shown):
        axis.set_xscale('log')
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter('{x:g}')
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_xlim(0, None)
    axis.set_xlabel('time of a plan [ms], median (dashed: real time needs less)')
    axis.set_title('What a plan costs here')
    _legend(figure, summary.plan_ms)
    return figure


def calibration(found: Mapping[str, Share]) -> Figure:
    """Return how often 90 % intervals hold the true value, by parameter."""
    figure = _figure(1.8 + 0.5 * len(found))
    axis = figure.subplots()
    axis.axvspan(*(100.0 * bound for bound in CALIBRATED), color='#e8f1ea', label='calibrated')
    axis.axvline(90.0, color=GREEN, linestyle='--', linewidth=1.5, label='as it says')
    for y, share in enumerate(found.values()):
        axis.plot([100.0 * share.low, 100.0 * share.high], [y, y], color=BLUE, linewidth=2.2)
        axis.plot(100.0 * share.rate, y, 'o', color=BLUE, markersize=8)
        axis.text(100.5, y, f'{share.count}/{share.total}', va='center', color=GREY, fontsize=9)
    lowest = min(100.0 * share.low for share in found.values())
    axis.set_yticks(range(len(found)), [name.replace('_', ' ') for name in found])
    axis.set(ylim=(len(found) - 0.4, -0.6), xlim=(min(70.0, lowest - 3.0), 100.0))
    axis.grid(axis='y', visible=False)
    axis.set_xlabel('true values in the 90 % interval [%], with 95 % Wilson intervals')
    axis.set_title('Calibration: filtered runs without control')
    figure.legend(loc='outside lower center', ncols=2)
    return figure


def ablation(found: Mapping[tuple[int, int], Share]) -> Figure:
    """Return success over the number of models and of rollouts per model."""
    models, rollouts = (sorted({size[i] for size in found}) for i in (0, 1))
    figure = Figure(
        figsize=(2.4 + 1.5 * len(rollouts), 1.6 + 1.1 * len(models)), layout='constrained'
    )
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    rates = np.full((len(models), len(rollouts)), np.nan)
    for (m, k), share in found.items():
        rates[models.index(m), rollouts.index(k)] = 100.0 * share.rate
    image = axis.imshow(rates, vmin=0, vmax=100, cmap='Blues', origin='lower', aspect='auto')
    for (m, k), share in found.items():
        i, j = models.index(m), rollouts.index(k)
        color = 'white' if rates[i, j] > DARK else 'black'
        words = f'{share.count}/{share.total}\n{100 * share.low:.0f}-{100 * share.high:.0f} %'
        axis.text(j, i, words, ha='center', va='center', color=color, fontsize=10)
    axis.set_xticks(range(len(rollouts)), [str(k) for k in rollouts])
    axis.set_yticks(range(len(models)), [str(m) for m in models])
    axis.set(xlabel='rollouts per model, K', ylabel='models, M')
    axis.set_title('Success by size')
    axis.grid(visible=False)
    figure.colorbar(image, label='runs that succeed [%]')
    return figure


def _by_task(
    found: Mapping[str, Mapping[str, object]],
) -> tuple[Figure, Axes, dict[tuple[str, str], float]]:
    """Return a figure with a place (y) for each task and controller, tasks from the top."""
    places: dict[tuple[str, str], float] = {}
    middles, y = [], 0.0
    for task, controllers in found.items():
        names = [name for name in COLORS if name in controllers]
        places |= {(task, name): y + i for i, name in enumerate(names)}
        middles.append(y + 0.5 * (len(names) - 1))
        y += len(names) + 0.8
    figure = _figure(1.5 + 0.21 * y)
    axis = figure.subplots()
    axis.set_yticks(middles, [task.replace('_', ' ') for task in found])
    axis.set_ylim(y - 0.8, -1.0)
    axis.tick_params(axis='y', length=0)
    axis.grid(axis='y', visible=False)
    return figure, axis, places


def _legend(figure: Figure, found: Mapping[str, Mapping[str, object]]) -> None:
    """Name the controllers that are there, below the plot."""
    names = [name for name in COLORS if any(name in group for group in found.values())]
    marks = [curves.patch(COLORS[name]) for name in names]
    if names != [LEARNER]:
        figure.legend(marks, names, loc='outside lower center', ncols=len(names))


def _figure(height: float) -> Figure:
    figure = Figure(figsize=(WIDTH, height), layout='constrained')
    FigureCanvasAgg(figure)
    return figure
