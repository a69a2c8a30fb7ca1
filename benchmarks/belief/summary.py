"""Summaries of rows: every number that the report and the plots use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import math
from typing import NamedTuple

import numpy as np

from benchmarks import means
from benchmarks.belief.estimators import ESTIMATORS
from benchmarks.belief.runs import BeliefRow
from benchmarks.belief.scores import ParameterScores
from benchmarks.belief.worlds import NAMES, RAMP
from benchmarks.means import Mean
from benchmarks.study import grouped, if_any, ordered
from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import Median, Share

SOON_S = 2.0  # in which a recovery counts as soon


class Rms(NamedTuple):
    """A root mean square with its 95 % interval, None if there is none."""

    rms: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Return such as `1.2 (0.9 to 1.5)`."""
        if self.low is None or self.high is None:
            return f'{self.rms:.3g}'
        return f'{self.rms:.3g} ({self.low:.3g} to {self.high:.3g})'


class Recovery(NamedTuple):
    """Times until an interval holds a new truth."""

    time_s: Median  # infinite: never
    soon: Share  # within SOON_S


class ScoreSummary(NamedTuple):
    """Scores over several runs; means over parameters come before those over runs."""

    inside_50: Mean
    inside_90: Mean
    rms_z: Rms
    crps: Mean  # in sd of the prior
    log_score: Median
    inside_end: Share  # last 90 % intervals of all parameters that hold the truth


class Group(NamedTuple):
    """The runs of an estimator in a world of a task."""

    task: str
    world: str
    estimator: str
    runs: int
    success: Share | None  # None: it does not control
    time_s: Median | None  # to success; infinite without success
    update_ms: Median | None  # processor time
    misfit: Share | None  # runs that show one; None without a particle filter
    scores: ScoreSummary | None  # None without beliefs
    parameters: Mapping[str, ScoreSummary]
    converged: Mapping[str, Recovery]  # from the start, by parameter
    recovered: Mapping[str, Recovery]  # from the change, of parameters that change


def summarize(rows: Sequence[BeliefRow]) -> list[Group]:
    """Summarize rows by task, world and estimator, in the order of the registries."""
    groups = ordered(rows, task=(), world=NAMES, estimator=ESTIMATORS)
    return [_group(key, of_key) for key, of_key in groups.items()]


def _group(key: tuple[str, str, str], rows: Sequence[BeliefRow]) -> Group:
    tried = [row for row in rows if row.success is not None]
    times = [row.time_s if row.success and row.time_s is not None else math.inf for row in tried]
    kind = ESTIMATORS[rows[0].estimator]
    filtered = tried if kind.believes and not kind.made_by else []
    names = dict.fromkeys(name for row in rows for name in row.scores)
    by_name = {name: [row.scores[name] for row in rows if name in row.scores] for name in names}
    return Group(
        *key,
        runs=len(rows),
        success=if_any(statistics.share, [bool(row.success) for row in tried]),
        time_s=if_any(statistics.median, times),
        update_ms=if_any(
            statistics.median, [row.update_ms for row in rows if row.update_ms is not None]
        ),
        misfit=if_any(statistics.share, [row.misfit_s is not None for row in filtered]),
        scores=_scores([list(row.scores.values()) for row in rows]),
        parameters={
            name: scores
            for name, of_name in by_name.items()
            if (scores := _scores([[score] for score in of_name])) is not None
        },
        converged={
            n: _recovery(score.found_s for score in of_name) for n, of_name in by_name.items()
        },
        recovered={
            name: _recovery(score.recovered_s for score in of_name)
            for name, of_name in by_name.items()
            if of_name[0].changes
        },
    )


def _scores(runs: Sequence[Sequence[ParameterScores]]) -> ScoreSummary | None:
    """Return the summary of runs, each of which has scores of some parameters."""
    counted = [[score for score in run if score.inside_90 is not None] for run in runs]
    counted = [run for run in counted if run]
    if not counted:
        return None

    def of_runs(get: Callable[[ParameterScores], float | None]) -> list[float]:
        """Return the mean over parameters of each run."""
        return [float(np.mean([get(score) for score in run])) for run in counted]

    return ScoreSummary(
        means.mean(of_runs(lambda score: score.inside_50)),
        means.mean(of_runs(lambda score: score.inside_90)),
        _rms(means.mean(of_runs(lambda score: score.mean_square_z))),
        means.mean(of_runs(lambda score: score.crps)),
        statistics.median(of_runs(lambda score: score.log_score)),
        statistics.share([score.inside_end for run in runs for score in run]),
    )


def _rms(squares: Mean) -> Rms:
    ends = (None if end is None else math.sqrt(max(end, 0.0)) for end in squares[1:3])
    return Rms(math.sqrt(squares.mean), *ends)


def _recovery(times: Iterable[float | None]) -> Recovery:
    values = [math.inf if time is None else time for time in times]
    return Recovery(statistics.median(values), statistics.share([x <= SOON_S for x in values]))


def percent(mean: Mean) -> str:
    """Return a share such as `88 % (81-93)`."""
    if mean.low is None or mean.high is None:
        return f'{100.0 * mean.mean:.0f} %'
    return f'{100.0 * mean.mean:.0f} % ({100.0 * mean.low:.0f}-{100.0 * mean.high:.0f})'


def lines(groups: Sequence[Group]) -> Iterable[str]:
    """Yield the most important numbers, one line per group, below the task's name."""
    for task, of_task in grouped(groups, 'task').items():
        yield f'\n{task}'
        for group in of_task:
            parts = [f'{group.world:10} {group.estimator:12} {group.runs:3} runs']
            if group.scores is not None:
                parts.append(f'inside 90 %: {percent(group.scores.inside_90)}')
                parts.append(f'log score {group.scores.log_score}')
            of_jump = {} if group.world == RAMP else group.recovered
            for name, recovery in of_jump.items():
                parts.append(f'{name} recovers in {recovery.time_s} s')
            if group.success is not None:
                parts.append(f'success {group.success}')
            yield '  '.join(parts)
