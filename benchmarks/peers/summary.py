"""Summaries of rows: every number that the report and the plots use."""

from collections.abc import Iterable, Sequence
import math
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers.planners import LEARNER, PEERS
from benchmarks.peers.runs import PEER_TASKS, WORLDS, PeerRow
from benchmarks.study import grouped, if_any, ordered
from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import Mean, Median, Share


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
        reward=statistics.mean([row.reward for row in rows]),
        final_reward=statistics.mean([row.final_reward for row in rows]),
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
            statistics.mean(part) for part in np.transpose([row.rewards for row in rows]).tolist()
        ],
    )


def _difference(learners: Sequence[PeerRow], rows: Sequence[PeerRow], name: str) -> Mean | None:
    """Return the mean difference in runs with the same seed; None without one, or of the same."""
    own = {row.seed: row for row in rows}
    pairs = [(row, own[row.seed]) for row in learners if row.seed in own]
    found = [getattr(one, name) - getattr(other, name) for one, other in pairs if one is not other]
    return if_any(statistics.mean, found)


def lines(groups: Sequence[PeerSummary]) -> Iterable[str]:
    """Yield the most important numbers, one line per group, below the task and the world."""
    for (task, world), planners in grouped(groups, 'task', 'world').items():
        yield f'\n{task}, {world}'
        for one in planners:
            yield (
                f'{one.planner:15} reward {one.reward}  success {one.success}  '
                f'{one.plan_ms.median:.2f} ms, {one.ratio.median:.2f} x stepping'
            )


def as_json(summary: PeerSummary) -> dict[str, Any]:
    """Return a summary as plain mappings, for JSON."""
    numbers: dict[str, Any] = statistics.plain(summary, derived=())
    return {**numbers, 'rewards': [part.mean for part in summary.rewards]}
