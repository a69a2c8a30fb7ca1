"""Plots of a calibration: coverage by setting, ranks, estimates against truths, contraction."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
import numpy as np

from emppi_ros.calibration import summary
from emppi_ros.calibration.belief_scores import DRAWS
from emppi_ros.calibration.recommendation import HIGH, LOW
from emppi_ros.calibration.runs import CENTRAL, RunResult, central_interval
from emppi_ros.calibration.summary import ParameterSummary, SettingSummary
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BLUE, GREY, INK, ORANGE
from emppi_ros.viz.report.plots import label, styled

BAND = '#e8f1ea'  # where a calibrated belief is expected
WIDTH, PANEL = 10.0, 3.0  # inches: width of all plots, height of a row
_COLUMNS = 3  # parameters in a row


def write_all(
    task: Task,
    results: Sequence[RunResult],
    summaries: dict[str, SettingSummary],
    setting: str,
    folder: Path,
) -> dict[Path, str]:
    """Write PNG files, those of parameters of one setting; return their paths and captions."""
    written = {}
    with styled():
        for name, caption, figure in _plots(task, results, summaries, setting):
            written[folder / f'{name}.png'] = caption
            figure.savefig(folder / f'{name}.png', dpi=110)
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
        f'Setting `{setting}`: ranks of the truth among {DRAWS} draws of the last belief. '
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
    figure, axis = _rows(list(summaries), 1.6 + 0.4 * len(summaries))
    axis.axvspan(100.0 * LOW, 100.0 * HIGH, color=BAND, zorder=0)
    axis.axvline(50.0, color=GREY, linestyle='--', linewidth=1.2)
    for y, row in enumerate(summaries.values()):
        for share, color, shift in ((row.inside_90, BLUE, -0.12), (row.inside_50, ORANGE, 0.12)):
            ends = 100.0 * share.low, 100.0 * share.high
            axis.plot(ends, [y + shift] * 2, color=color, linewidth=2.0)
            axis.plot(100.0 * share.mean, y + shift, 'o', color=color, markersize=6)
    axis.set(xlim=(-2, 102), xlabel='intervals that hold the truth [% of the time]')
    _legend(figure, axis, 'o-', {'90 % intervals': BLUE, '50 % intervals': ORANGE})
    return figure


def rank_histograms(parameters: Mapping[str, ParameterSummary]) -> Figure:
    """Return the histogram of ranks of each parameter."""
    figure, axes = _grid(len(parameters))
    for axis, (name, row) in zip(axes, parameters.items(), strict=False):
        counts, low, high, probability = row.ranks
        axis.axhspan(low, high, color=BAND, zorder=0)
        axis.axhline(sum(counts) / len(counts), color=GREY, linestyle='--', linewidth=1.2)
        width = (DRAWS + 1.0) / len(counts)
        middles = width * (np.arange(len(counts)) + 0.5)
        axis.bar(middles, counts, 0.7 * width, color=BLUE)
        axis.set_title(f'{name.replace("_", " ")} (p = {probability:.2g})')
        axis.set(xlabel='rank of the truth', xlim=(0, DRAWS + 1))
        axis.set_ylim(0, 1.15 * max(high, *counts))
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis='x', visible=False)
    axes[0].set_ylabel('runs')
    return figure


def estimates(task: Task, results: Sequence[RunResult], setting: str) -> Figure:
    """Return mean and 90 % interval against the truth of each parameter."""
    names = list(results[0].settings[setting].parameters)
    figure, axes = _grid(len(names))
    for axis, name in zip(axes, names, strict=False):
        index = [parameter.name for parameter in task.parameters].index(name)
        axis.axvspan(*central_interval(task, index), color=BAND, zorder=0)
        for result in results:
            judged = result.settings[setting].parameters[name]
            color = ORANGE if result.beyond == name else BLUE
            axis.plot([judged.true] * 2, [judged.low, judged.high], color=color, linewidth=1.4)
            axis.plot(judged.true, judged.mean, 'o', color=color, markersize=4)
        low, high = axis.get_xlim()
        axis.plot([low, high], [low, high], color=INK, linestyle='--', linewidth=1.2, zorder=1)
        axis.set(xlabel=f'true {label(task, index)}', xlim=(low, high))
    axes[0].set_ylabel('believed')
    _legend(figure, axes[0], 'o', {'truth from the prior': BLUE, 'truth beyond it': ORANGE})
    return figure


def contraction(
    results: Sequence[RunResult], setting: str, parameters: Mapping[str, ParameterSummary]
) -> Figure:
    """Return the contraction of each parameter, by run and as a median."""
    names = [name.replace('_', ' ') for name in parameters]
    figure, axis = _rows(names, 1.3 + 0.45 * len(parameters))
    for y, (name, row) in enumerate(parameters.items()):
        runs = summary.from_prior(results)
        values = [run.settings[setting].parameters[name].contraction for run in runs]
        axis.plot(values, [y] * len(values), 'o', color=GREY, alpha=0.4, markersize=4)
        median, low, high, _ = row.contraction
        if low is not None and high is not None:
            axis.plot([low, high], [y, y], color=BLUE, linewidth=3.0)
        axis.plot(median, y, 'o', color=BLUE, markersize=8)
    axis.axvline(summary.SHOWS, color=GREY, linestyle='--', linewidth=1.2)
    axis.set(xlabel='contraction of the last belief: 0 as the prior, 1 certain')
    axis.set_xlim(min(-0.05, axis.get_xlim()[0]), 1.02)
    return figure


def _rows(names: list[str], height: float) -> tuple[Figure, Axes]:
    """Return a figure with one axis, with a row for each name from the top."""
    figure = Figure(figsize=(WIDTH, height), layout='constrained')
    axis = figure.subplots()
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis='y', visible=False)
    return figure, axis


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes, and those axes."""
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, 0.4 + PANEL * rows), layout='constrained')
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def _legend(figure: Figure, axis: Axes, marker: str, colors: Mapping[str, str]) -> None:
    """Draw the legend of colors by name below a figure."""
    lines = [axis.plot([], [], marker, color=c, label=name)[0] for name, c in colors.items()]
    figure.legend(handles=lines, loc='outside lower center', ncols=2)
