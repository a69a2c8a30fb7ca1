"""Plots of a calibration: coverage by setting, ranks, estimates against truths, contraction."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
import numpy as np

from emppi_ros.calibration import ranks, summary
from emppi_ros.calibration.recommendation import HIGH, LOW
from emppi_ros.calibration.runs import RunResult
from emppi_ros.calibration.summary import ParameterSummary, SettingSummary
from emppi_ros.calibration.truths import CENTRAL
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BLUE, GREY, INK, ORANGE
from emppi_ros.viz.report.plots import label, styled

BAND = '#e8f1ea'  # where a calibrated belief is expected
WIDTH, PANEL = 10.0, 3.0  # inches: width of all plots, height of a row
_COLUMNS = 3  # parameters in a row
_DRAWS = 10_000  # resolve the ends of the prior's interval


class CalibrationPlot(NamedTuple):
    """A plot and what it shows."""

    path: Path
    caption: str


def write_all(
    task: Task,
    results: Sequence[RunResult],
    summaries: dict[str, SettingSummary],
    setting: str,
    folder: Path,
) -> list[CalibrationPlot]:
    """Write all plots as PNG files; those of parameters are of one setting."""
    with styled():
        written = []
        for name, caption, figure in _plots(task, results, summaries, setting):
            path = folder / f'{name}.png'
            figure.savefig(path, dpi=110)
            written.append(CalibrationPlot(path, caption))
    return written


def _plots(
    task: Task, results: Sequence[RunResult], summaries: dict[str, SettingSummary], setting: str
) -> Iterator[tuple[str, str, Figure]]:
    """Yield name, caption and figure of each plot."""
    parameters = summary.parameters(results, setting)
    yield (
        'coverage',
        f'How often intervals hold the truth: mean of {len(summary.from_prior(results))} runs '
        'with truths from the prior, 95 % interval. The band, '
        f'{100 * LOW:.0f} to {100 * HIGH:.0f} %, is required of 90 % intervals.',
        coverage(summaries),
    )
    yield (
        'ranks',
        f'Setting `{setting}`: ranks of the truth among {ranks.DRAWS} draws of the last belief. '
        'Each bar of a calibrated belief ends in the band with a probability of 95 %.',
        rank_histograms(parameters),
    )
    yield (
        'estimates',
        f'Setting `{setting}`: mean and 90 % interval of the last belief against the truth. '
        f'The band holds {100 * CENTRAL:.0f} % of the prior.',
        estimates(task, results, setting),
    )
    yield (
        'contraction',
        f'Setting `{setting}`: contraction, 1 - variance / variance of the prior, of each run '
        'with a truth from the prior, and their median with a 95 % interval. Left of the dashed '
        'line measurements say next to nothing.',
        contraction(results, setting, parameters),
    )


def coverage(summaries: dict[str, SettingSummary]) -> Figure:
    """Return shares of 50 % and 90 % intervals that hold the truth, by setting."""
    figure = Figure(figsize=(WIDTH, 1.6 + 0.4 * len(summaries)), layout='constrained')
    axis = figure.subplots()
    axis.axvspan(100.0 * LOW, 100.0 * HIGH, color=BAND, zorder=0)
    axis.axvline(50.0, color=GREY, linestyle='--', linewidth=1.2)
    for y, one in enumerate(summaries.values()):
        for share, color, shift in ((one.inside_90, BLUE, -0.12), (one.inside_50, ORANGE, 0.12)):
            assert share.low is not None and share.high is not None
            ends = [100.0 * share.low, 100.0 * share.high]
            axis.plot(ends, [y + shift] * 2, color=color, linewidth=2.0)
            axis.plot(100.0 * share.mean, y + shift, 'o', color=color, markersize=6)
    axis.set_yticks(range(len(summaries)), list(summaries))
    axis.set_ylim(len(summaries) - 0.4, -0.6)
    axis.grid(axis='y', visible=False)
    axis.set(xlim=(-2, 102), xlabel='intervals that hold the truth [% of the time]')
    lines = [
        axis.plot([], [], 'o-', color=color, label=name)[0]
        for name, color in (('90 % intervals', BLUE), ('50 % intervals', ORANGE))
    ]
    figure.legend(handles=lines, loc='outside lower center', ncols=2)
    return figure


def rank_histograms(parameters: Mapping[str, ParameterSummary]) -> Figure:
    """Return the histogram of ranks of each parameter."""
    figure, axes = _grid(len(parameters))
    for axis, (name, one) in zip(axes, parameters.items(), strict=False):
        counts, low, high, probability = one.ranks
        axis.axhspan(low, high, color=BAND, zorder=0)
        axis.axhline(sum(counts) / len(counts), color=GREY, linestyle='--', linewidth=1.2)
        width = (ranks.DRAWS + 1.0) / len(counts)
        middles = width * (np.arange(len(counts)) + 0.5)
        axis.bar(middles, counts, 0.7 * width, color=BLUE)
        axis.set_title(f'{name.replace("_", " ")} (p = {probability:.2g})')
        axis.set(xlabel='rank of the truth', xlim=(0, ranks.DRAWS + 1))
        axis.set_ylim(0, 1.15 * max(high, *counts))
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis='x', visible=False)
    axes[0].set_ylabel('runs')
    return figure


def estimates(task: Task, results: Sequence[RunResult], setting: str) -> Figure:
    """Return mean and 90 % interval against the truth of each parameter."""
    names = list(results[0].settings[setting].parameters)
    figure, axes = _grid(len(names))
    draws = task.prior.sample(_DRAWS, np.random.default_rng(0))
    tail = 0.5 * (1.0 - CENTRAL)
    for axis, name in zip(axes, names, strict=False):
        index = [parameter.name for parameter in task.parameters].index(name)
        axis.axvspan(*np.quantile(draws[:, index], [tail, 1.0 - tail]), color=BAND, zorder=0)
        for one in results:
            judged = one.settings[setting].parameters[name]
            color = ORANGE if one.beyond == name else BLUE
            axis.plot([judged.true] * 2, [judged.low, judged.high], color=color, linewidth=1.4)
            axis.plot(judged.true, judged.mean, 'o', color=color, markersize=4)
        low, high = axis.get_xlim()
        axis.plot([low, high], [low, high], color=INK, linestyle='--', linewidth=1.2, zorder=1)
        axis.set(xlabel=f'true {label(task, index)}', xlim=(low, high))
    axes[0].set_ylabel('believed')
    points = [
        axes[0].plot([], [], 'o', color=color, label=text)[0]
        for text, color in (('truth from the prior', BLUE), ('truth beyond it', ORANGE))
    ]
    figure.legend(handles=points, loc='outside lower center', ncols=2)
    return figure


def contraction(
    results: Sequence[RunResult],
    setting: str,
    parameters: Mapping[str, ParameterSummary],
) -> Figure:
    """Return the contraction of each parameter, by run and as a median."""
    figure = Figure(figsize=(WIDTH, 1.3 + 0.45 * len(parameters)), layout='constrained')
    axis = figure.subplots()
    for y, (name, one) in enumerate(parameters.items()):
        runs = summary.from_prior(results)
        values = [run.settings[setting].parameters[name].contraction for run in runs]
        axis.plot(values, [y] * len(values), 'o', color=GREY, alpha=0.4, markersize=4)
        median = one.contraction
        if median.low is not None and median.high is not None:
            axis.plot([median.low, median.high], [y, y], color=BLUE, linewidth=3.0)
        axis.plot(median.median, y, 'o', color=BLUE, markersize=8)
    axis.axvline(summary.SHOWS, color=GREY, linestyle='--', linewidth=1.2)
    axis.set_yticks(range(len(parameters)), [name.replace('_', ' ') for name in parameters])
    axis.set_ylim(len(parameters) - 0.4, -0.6)
    axis.grid(axis='y', visible=False)
    axis.set(xlabel='contraction of the last belief: 0 as the prior, 1 certain')
    axis.set_xlim(min(-0.05, axis.get_xlim()[0]), 1.02)
    return figure


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes, and those axes."""
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, 0.4 + PANEL * rows), layout='constrained')
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]
