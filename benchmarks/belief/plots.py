"""Plots of the benchmark: coverage by world, recovery after changes, and beliefs over time."""

from collections.abc import Iterable, Sequence
import itertools
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np

from benchmarks.belief.estimators import ESTIMATORS
from benchmarks.belief.runs import BeliefRow, ParameterSeries
from benchmarks.belief.summary import Group
from benchmarks.belief.worlds import CHANGING, DROP, JUMP, NAMES
from emppi_ros.viz.palette import INK, SERIES
from emppi_ros.viz.report.plots import styled

COLORS = dict(zip(ESTIMATORS, itertools.cycle(SERIES)))
CALIBRATED, BAND = (0.80, 0.97), '#e8f1ea'  # required share of 90 % intervals
WIDTH = 10.0  # inches
PANEL = 2.3  # height
LONGEST_S = 6.0  # of recovery curves


class Picture(NamedTuple):
    """A plot of a task, and what it shows."""

    path: Path
    task: str
    caption: str


def write_all(rows: Sequence[BeliefRow], groups: Sequence[Group], folder: Path) -> list[Picture]:
    """Write all plots that have data as PNG files."""
    pictures = []
    for task in dict.fromkeys(group.task for group in groups):
        of_task = [row for row in rows if row.task == task]
        with styled():
            for name, caption, figure in _plots(task, of_task, groups):
                path = folder / f'{name}_{task}.png'
                figure.savefig(path, dpi=110)
                pictures.append(Picture(path, task, caption))
    return pictures


def _plots(
    task: str, rows: Sequence[BeliefRow], groups: Sequence[Group]
) -> Iterable[tuple[str, str, Figure]]:
    """Yield name, caption and figure of each plot of a task that has data."""
    scored = [group for group in groups if group.task == task and group.scores is not None]
    if scored:
        low, high = (f'{100.0 * end:.0f}' for end in CALIBRATED)
        caption = (
            f'How often 90 % intervals hold the truth, over time. The band: {low} to {high} %.'
        )
        yield 'coverage', caption, coverage(scored)
    jumped = [row for row in rows if row.world in (JUMP, DROP) and row.scores]
    if jumped:
        caption = 'Share of runs whose 90 % interval holds the truth again, since its change.'
        yield 'recovery', caption, recovery(jumped)
    for world in CHANGING:
        of_world = [row for row in rows if row.world == world and row.scores]
        if of_world:
            first = min(row.seed for row in of_world)
            caption = (
                f'World `{world}`, seed {first}: truth (dashed), mean and 90 % interval of the '
                'parameter that changes.'
            )
            of_seed = [row for row in of_world if row.seed == first]
            yield f'series_{world}', caption, series(of_seed)


def coverage(groups: Sequence[Group]) -> Figure:
    """Return shares of 90 % intervals that hold the truth, by world and estimator."""
    worlds = [name for name in NAMES if any(group.world == name for group in groups)]
    names = [name for name in ESTIMATORS if any(group.estimator == name for group in groups)]
    height = 1.4 + 0.16 * len(worlds) * (len(names) + 1)
    figure = Figure(figsize=(WIDTH, height), layout='constrained')
    axis = figure.subplots()
    axis.axvspan(*(100.0 * end for end in CALIBRATED), color=BAND, zorder=0)
    for group in groups:
        assert group.scores is not None
        share, offset = group.scores.inside_90, names.index(group.estimator)
        y = worlds.index(group.world) + 0.8 * ((offset + 0.5) / len(names) - 0.5)
        color = COLORS[group.estimator]
        if share.low is not None and share.high is not None:
            axis.plot([100.0 * share.low, 100.0 * share.high], [y, y], color=color, linewidth=2.0)
        axis.plot(100.0 * share.mean, y, 'o', color=color, markersize=6)
    axis.set_yticks(range(len(worlds)), worlds)
    axis.set_ylim(len(worlds) - 0.4, -0.6)
    axis.grid(axis='y', visible=False)
    axis.set(
        xlim=(-2, 102), xlabel='90 % intervals that hold the truth [%] (mean, 95 % bootstrap)'
    )
    _legend(figure, names)
    return figure


def recovery(rows: Sequence[BeliefRow]) -> Figure:
    """Return the share of runs that have recovered, over time since the change."""
    worlds = [name for name in CHANGING if any(row.world == name for row in rows)]
    names = [name for name in ESTIMATORS if any(row.estimator == name for row in rows)]
    figure = Figure(figsize=(WIDTH, 3.2), layout='constrained')
    axes = figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0]
    for axis, world in zip(axes, worlds, strict=True):
        for name in names:
            of_both = [row for row in rows if (row.world, row.estimator) == (world, name)]
            times = [
                np.inf if scores.recovered_s is None else scores.recovered_s
                for row in of_both
                for scores in row.scores.values()
                if scores.changes
            ]
            if times:
                _steps(axis, times, COLORS[name])
        axis.set(title=world, xlim=(0.0, LONGEST_S), ylim=(-2, 102), xlabel='time [s]')
    axes[0].set_ylabel('recovered [%]')
    _legend(figure, names)
    return figure


def _steps(axis: Axes, times: Sequence[float], color: str) -> None:
    """Draw the share of times below each time."""
    ordered = np.sort(times)
    ordered = ordered[ordered <= LONGEST_S]
    shares = 100.0 * np.arange(len(ordered) + 1) / len(times)
    edges = np.concatenate([[0.0], ordered, [LONGEST_S]])
    axis.step(edges, np.append(shares, shares[-1]), where='post', color=color)


def series(rows: Sequence[BeliefRow]) -> Figure:
    """Return the belief of each estimator about the parameters that change, in one run each."""
    ordered = sorted(rows, key=lambda row: list(ESTIMATORS).index(row.estimator))
    figure = Figure(figsize=(WIDTH, 0.6 + PANEL * len(ordered)), layout='constrained')
    axes = figure.subplots(len(ordered), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axis, row in zip(axes, ordered, strict=True):
        for name, scores in row.scores.items():
            if scores.changes:
                _band(axis, row.times, row.series[name], COLORS[row.estimator])
                unit = f' [{scores.unit}]' if scores.unit else ''
                axis.set_ylabel(f'{name.replace("_", " ")}{unit}')
        axis.set_title(row.estimator)
    axes[-1].set_xlabel('time [s]')
    return figure


def _band(axis: Axes, times: Sequence[float], series: ParameterSeries, color: str) -> None:
    """Draw truth, mean and 90 % interval of a parameter."""
    axis.fill_between(times, series.low, series.high, color=color, alpha=0.25, linewidth=0)
    axis.plot(times, series.mean, color=color)
    axis.step(times, series.true, where='post', color=INK, linestyle='--', linewidth=1.2)


def _legend(figure: Figure, names: Sequence[str]) -> None:
    """Add a legend of the estimators below the plot."""
    lines = [
        figure.axes[0].plot([], [], 'o-', color=COLORS[name], label=name)[0] for name in names
    ]
    figure.legend(lines, names, loc='outside lower center', ncols=len(names))
