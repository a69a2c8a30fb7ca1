"""Plots of the benchmark: reward over time, and the time of a plan."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
import numpy as np

from benchmarks.peers.planners import LEARNER
from benchmarks.peers.summary import PeerSummary
from emppi_ros.viz.palette import INK, SERIES
from emppi_ros.viz.report.plots import styled

WIDTH, HEIGHT = 11.0, 3.8  # inches


def write_all(
    groups: Sequence[PeerSummary], durations: dict[str, float], folder: Path
) -> list[Path]:
    """Write a plot for each task, and one of the time of plans, as PNG files."""
    pictures = []
    with styled():
        for task, duration_s in durations.items():
            of_task = [group for group in groups if group.task == task]
            pictures.append(folder / f'reward_{task}.png')
            rewards(of_task, duration_s).savefig(pictures[-1], dpi=110)
        pictures.append(folder / 'ratio.png')
        ratios(groups).savefig(pictures[-1], dpi=110)
    return pictures


def rewards(groups: Sequence[PeerSummary], duration_s: float) -> Figure:
    """Return the reward over time of each planner, one panel for each world."""
    worlds = list(dict.fromkeys(group.world for group in groups))
    planners = list(dict.fromkeys(group.planner for group in groups))
    figure = Figure(figsize=(WIDTH, HEIGHT), layout='constrained')
    axes = figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0]
    for axis, world in zip(axes, worlds, strict=True):
        for group in (one for one in groups if one.world == world):
            again, index = divmod(planners.index(group.planner), len(SERIES))
            color, style = SERIES[index], '--' if again else '-'
            count = len(group.rewards)
            time = (np.arange(count) + 0.5) * duration_s / count
            low, high = (
                [getattr(part, bound) for part in group.rewards] for bound in ('low', 'high')
            )
            own = group.planner == LEARNER  # only its interval: nine would hide one another
            if own and None not in low:  # a single run has no interval
                axis.fill_between(time, low, high, color=color, alpha=0.15, linewidth=0)
            means = [part.mean for part in group.rewards]
            width, order = (2.5, 3) if own else (1.2, 2)
            axis.plot(
                time, means, style, color=color, linewidth=width, zorder=order, label=group.planner
            )
        axis.set(title=world, xlabel='time [s]')
    axes[0].set_ylabel('reward')
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside lower center', ncols=min(len(labels), 5))
    return figure


def ratios(groups: Sequence[PeerSummary]) -> Figure:
    """Return the time of a plan relative to stepping its rollouts, by planner and task."""
    tasks = list(dict.fromkeys(group.task for group in groups))
    planners = list(dict.fromkeys(group.planner for group in groups))
    figure = Figure(figsize=(WIDTH, HEIGHT), layout='constrained')
    axis = figure.subplots()
    for i, task in enumerate(tasks):
        for group in (one for one in groups if one.task == task):
            x = planners.index(group.planner) + 0.25 * (i - 0.5 * (len(tasks) - 1))
            label = task if group is next(one for one in groups if one.task == task) else None
            axis.plot(x, group.ratio.median, 'o', color=SERIES[i], label=label)
    axis.axhline(1.0, color=INK, linestyle='--', linewidth=1.0)
    axis.set_xticks(range(len(planners)), [name.replace('-', '-\n') for name in planners])
    axis.set(ylabel='plan / stepping its rollouts', ylim=(0.9, None))
    axis.legend()
    return figure
