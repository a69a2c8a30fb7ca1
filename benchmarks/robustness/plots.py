"""Plots of the benchmark: a curve of each sweep along one axis, a map of each along two."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
import numpy as np

from benchmarks.robustness.runs import PointSummary
from benchmarks.robustness.sweeps import SWEEPS, SweepAxis
from benchmarks.study import grouped
from emppi_ros.calibration.statistics import Share
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import INK, SERIES
from emppi_ros.viz.report.plots import styled

WIDTH = 10.0  # inches
HEIGHT = 3.4
MAP = 'RdYlGn'  # red: never, green: always
_PRIOR = (0.05, 0.95)  # quantiles
_DRAWS = 10_000

Pick = Callable[[PointSummary], Share | None]
OUTCOMES: tuple[tuple[str, Pick], ...] = (
    ('success', lambda group: group.success),
    ('90 % intervals: inside', lambda group: group.inside),
    ('inside, or misfit shown', lambda group: group.warned),
)


class SweepPlot(NamedTuple):
    """A plot of a sweep, and what it shows."""

    path: Path
    task: str
    sweep: str
    caption: str


def write_all(
    groups: Sequence[PointSummary], tasks: dict[str, Task], folder: Path
) -> list[SweepPlot]:
    """Write the plot of each sweep of each task as a PNG file."""
    pictures = []
    for (task, sweep), of_sweep in grouped(groups, 'task', 'sweep').items():
        axes = SWEEPS[sweep].axes(tasks[task])
        with styled():
            if SWEEPS[sweep].real_time:
                figure = load_curves(of_sweep, axes[0])
                caption = (
                    'Medians and shares of runs with 95 % intervals. On the right each point is a '
                    'load.'
                )
            elif len(axes) == 1:
                figure = curves(of_sweep, axes[0])
                caption = 'Shares of runs with 95 % Wilson intervals.'
            else:
                figure = maps(of_sweep, axes, tasks[task])
                caption = (
                    'Shares of runs, in percent. The frame holds 90 % of each parameter by the '
                    'prior.'
                )
            path = folder / f'{sweep}_{task}.png'
            figure.savefig(path, dpi=110)
        pictures.append(SweepPlot(path, task, sweep, caption))
    return pictures


def curves(groups: Sequence[PointSummary], along: SweepAxis) -> Figure:
    """Return the shares of each outcome along the axis, with intervals."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout='constrained')
    axes = figure.subplots(1, len(OUTCOMES), sharey=True)
    for axis, (title, pick) in zip(axes, OUTCOMES, strict=True):
        for i, (name, of_name) in enumerate(grouped(groups, 'controller').items()):
            points = [(g.values[0], s) for g in of_name if (s := pick(g)) is not None]
            if points:
                _curve(axis, points, SERIES[i], name)
        axis.set(title=title, xlabel=along.label, ylim=(-3, 103))
        if along.logarithmic:
            axis.set_xscale('log')
    axes[0].set_ylabel('[%]')
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside lower center', ncols=len(labels))
    return figure


def _curve(axis: Axes, points: Sequence[tuple[float, Share]], color: str, name: str) -> None:
    x = [value for value, _ in points]
    rate, low, high = (
        100.0 * np.array([getattr(share, key) for _, share in points])
        for key in ('rate', 'low', 'high')
    )
    axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axis.plot(x, rate, 'o-', color=color, label=name, markersize=4)


def load_curves(groups: Sequence[PointSummary], along: SweepAxis) -> Figure:
    """Return late plans and success along the load, and success against late plans."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout='constrained')
    late, success, both = figure.subplots(1, 3)
    _curve(success, [(group.values[0], group.success) for group in groups], SERIES[0], '')
    for group in groups:
        if group.late is None:  # no run started
            continue
        load, x = group.values[0], group.late.median
        low, high = (x if end is None else end for end in (group.late.low, group.late.high))
        y, least, most = (100.0 * getattr(group.success, key) for key in ('rate', 'low', 'high'))
        style = {'fmt': 'o', 'color': SERIES[0], 'markersize': 4}
        late.errorbar(load, x, [[x - low], [high - x]], **style)
        both.errorbar(x, y, [[y - least], [most - y]], **style)
        both.annotate(f'{load:g}', (x, y), xytext=(4, -10), textcoords='offset points')
    late.set(title='late plans', xlabel=along.label, ylabel='[%]')
    success.set(title='success', xlabel=along.label, ylim=(-3, 103))
    both.set(title='success by late plans', xlabel='late plans [%]', ylim=(-3, 103))
    return figure


def maps(groups: Sequence[PointSummary], along: Sequence[SweepAxis], task: Task) -> Figure:
    """Return maps of the outcomes of each controller over two axes."""
    chosen = [
        (f'{name}: {title}', [(g.values, s) for g in of_name if (s := pick(g)) is not None])
        for name, of_name in grouped(groups, 'controller').items()
        for title, pick in OUTCOMES
    ]
    chosen = [(title, cells) for title, cells in chosen if cells]
    figure = Figure(figsize=(WIDTH, 4.2 * ((len(chosen) + 1) // 2)), layout='constrained')
    axes = figure.subplots((len(chosen) + 1) // 2, 2, squeeze=False).ravel()
    for axis in axes[len(chosen) :]:
        axis.set_visible(False)
    for axis, (title, cells) in zip(axes, chosen, strict=False):
        _map(axis, cells, along)
        axis.add_patch(_prior_frame(task))
        axis.set_title(title)
    return figure


def _map(
    axis: Axes, cells: Sequence[tuple[tuple[float, ...], Share]], along: Sequence[SweepAxis]
) -> None:
    """Draw the share of each cell as a colour and a number."""
    grids = [np.unique([values[k] for values, _ in cells]) for k in range(2)]
    shares = np.full([len(grid) for grid in grids], np.nan)
    for values, share in cells:
        x, y = values
        i, j = int(np.searchsorted(grids[0], x)), int(np.searchsorted(grids[1], y))
        shares[i, j] = 100.0 * share.rate
        axis.text(x, y, f'{shares[i, j]:.0f}', ha='center', va='center', color=INK)
    edges = [_edges(grid, sweep.logarithmic) for grid, sweep in zip(grids, along, strict=True)]
    axis.pcolormesh(*edges, shares.T, cmap=mpl.colormaps[MAP], vmin=0.0, vmax=100.0, alpha=0.6)
    for k, sweep in enumerate(along):
        which = axis.xaxis if k == 0 else axis.yaxis
        (axis.set_xscale if k == 0 else axis.set_yscale)('log' if sweep.logarithmic else 'linear')
        which.set_ticks(grids[k], [f'{x:g}' for x in grids[k]])
        which.set_minor_locator(mpl.ticker.NullLocator())
        which.set_label_text(sweep.label)
    axis.grid(visible=False)


def _edges(grid: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Return the edges (n + 1,) of cells around grid points (n,)."""
    if len(grid) == 1:
        return grid[0] * np.array([0.5, 1.5])
    x = np.log(grid) if logarithmic else grid
    middle = 0.5 * (x[1:] + x[:-1])
    edges = np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])
    return np.exp(edges) if logarithmic else edges


def _prior_frame(task: Task) -> Rectangle:
    """Return the rectangle between quantiles of the first two parameters by the prior."""
    draws = task.prior.sample(_DRAWS, np.random.default_rng(0))[:, :2]
    low, high = np.quantile(draws, _PRIOR, axis=0)
    return Rectangle(low, *(high - low), fill=False, edgecolor=INK, linestyle='--', linewidth=1.5)
