"""Summaries of rows, every number that the report uses, and plots of rewards and of times."""

from collections.abc import Iterable, Sequence
import math
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
import numpy as np

from benchmarks import means
from benchmarks.means import Mean
from benchmarks.peers.planners import LEARNER, PEERS
from benchmarks.peers.runs import PEER_TASKS, WORLDS, PeerRow
from benchmarks.study import grouped, if_any, ordered
from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import Median, Share
from emppi_ros.viz.palette import INK, SERIES
from emppi_ros.viz.report.plots import styled

WIDTH, HEIGHT = 11.0, 3.8  # inches


class PeerSummary(NamedTuple):
    """The runs of a planner on a task in a world."""

    task: str
    world: str
    planner: str
    reward: Mean
    final_reward: Mean
    behind: Mean | None  # reward of `emppi` minus that of the planner, paired by seed
    final_behind: Mean | None  # the same of `final_reward`
    success: Share
    time_s: Median  # to success; infinite without
    plan_ms: Median
    observe_ms: Median  # of learning
    ratio: Median  # of a plan to stepping its rollouts
    own_ratio: Median | None  # the same in a physics engine of the planner's own
    rewards: Sequence[Mean]  # of equal parts of the run


def summarize(rows: Sequence[PeerRow]) -> list[PeerSummary]:
    """Summarize rows by task, world and planner, in the order of the registries."""
    groups = ordered(rows, task=PEER_TASKS, world=WORLDS, planner=PEERS)
    return [
        _summary(key, of_key, groups.get((*key[:2], LEARNER), ()))
        for key, of_key in groups.items()
    ]


def _summary(
    key: tuple[str, str, str], rows: Sequence[PeerRow], learners: Sequence[PeerRow]
) -> PeerSummary:
    return PeerSummary(
        *key,
        reward=means.mean([row.reward for row in rows]),
        final_reward=means.mean([row.final_reward for row in rows]),
        behind=_difference(learners, rows, 'reward'),
        final_behind=_difference(learners, rows, 'final_reward'),
        success=statistics.share([row.success for row in rows]),
        time_s=statistics.median([row.time_s if row.success else math.inf for row in rows]),
        plan_ms=statistics.median([row.plan_ms for row in rows]),
        observe_ms=statistics.median([row.observe_ms for row in rows]),
        ratio=statistics.median([row.ratio for row in rows]),
        own_ratio=if_any(
            statistics.median, [row.own_ratio for row in rows if row.own_ratio is not None]
        ),
        rewards=[
            means.mean(part) for part in np.transpose([row.rewards for row in rows]).tolist()
        ],
    )


def _difference(learners: Sequence[PeerRow], rows: Sequence[PeerRow], name: str) -> Mean | None:
    """Return the mean difference in runs with the same seed; None without one, or of the same."""
    own = {row.seed: row for row in rows}
    pairs = [(row, own[row.seed]) for row in learners if row.seed in own]
    differences = [
        getattr(row, name) - getattr(other, name) for row, other in pairs if row is not other
    ]
    return if_any(means.mean, differences)


def lines(groups: Sequence[PeerSummary]) -> Iterable[str]:
    """Yield the most important numbers, one line per group, below the task and the world."""
    for (task, world), planners in grouped(groups, 'task', 'world').items():
        yield f'\n{task}, {world}'
        for group in planners:
            yield (
                f'{group.planner:15} reward {group.reward}  success {group.success}  '
                f'{group.plan_ms.median:.2f} ms, {group.ratio.median:.2f} x stepping'
            )


def as_json(summary: PeerSummary) -> dict[str, Any]:
    """Return a summary as plain mappings, for JSON."""
    numbers: dict[str, Any] = statistics.plain(summary)
    return {**numbers, 'rewards': [part.mean for part in summary.rewards]}


def write_plots(
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
        for group in (group for group in groups if group.world == world):
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
        of_task = [group for group in groups if group.task == task]
        for group in of_task:
            x = planners.index(group.planner) + 0.25 * (i - 0.5 * (len(tasks) - 1))
            label = task if group is of_task[0] else None
            axis.plot(x, group.ratio.median, 'o', color=SERIES[i], label=label)
    axis.axhline(1.0, color=INK, linestyle='--', linewidth=1.0)
    axis.set_xticks(range(len(planners)), [name.replace('-', '-\n') for name in planners])
    axis.set(ylabel='plan / stepping its rollouts', ylim=(0.9, None))
    axis.legend()
    return figure
