"""Summaries of rows: every number that the report, the plots and the claims use."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from benchmarks import means
from benchmarks.means import Mean
from benchmarks.paper import cells
from benchmarks.paper.cells import Row
from benchmarks.study import grouped, if_any
from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import Share

KNOWN = 0.95  # share of a belief from which a joint's kind counts as known
_ROUNDING = 1e-6  # of a number of steps
STEPS = {'halfcheetah_backflip': 200}  # of control, within which a first run must succeed
T = TypeVar('T')


class ErrorReduction(NamedTuple):
    """Reduction of the squared parameter error over several runs: medians and a count."""

    start: float
    end: float
    fallen: Share

    @property
    def ratio(self) -> float:
        """Remaining share of the error; nan if there was nothing to learn."""
        return self.end / self.start if self.start > 0.0 else np.nan


class SuccessAndTime(NamedTuple):
    """Success rate and time to success of several runs."""

    success: Share
    time_s: float  # median; a failure counts with its time limit


class ErrorConvergence(NamedTuple):
    """Reduction of the squared parameter error in runs that continue after success."""

    fall: ErrorReduction
    seconds: float  # duration of the runs
    steps: int  # of control


class JointKindBelief(NamedTuple):
    """Shares of beliefs on the true kind of an uncertain joint, once it has moved."""

    known: Share  # of the runs with enough motion: share of the true kind above KNOWN
    least: float  # share of the true kind, over these runs
    still: int  # number of runs without enough motion


class Summary(NamedTuple):
    """All numbers of a benchmark; studies that were not run are empty."""

    success: Mapping[str, Mapping[str, Share]]  # task -> controller
    attempts: Mapping[str, Mapping[str, Share]]  # attempts that reached their target, of all runs
    time_s: Mapping[str, Mapping[str, float]]  # median; a failure counts with its time limit
    regret_s: Mapping[str, Mapping[str, Mean]]  # task -> controller except the oracle
    fall: Mapping[str, ErrorReduction]  # task
    plan_ms: Mapping[str, Mapping[str, float]]  # median of medians
    calibration: Mapping[str, Share]  # parameter
    ablation: Mapping[tuple[int, int], Share]  # (M, K)
    risk: Mapping[str, Mapping[str, SuccessAndTime]]  # task -> measure
    kinds: Mapping[str, JointKindBelief]  # task with an uncertain joint
    in_steps: Mapping[str, Share]  # task: EMPPI's runs that succeed within STEPS
    learning: Mapping[str, ErrorConvergence]  # task


def by_task(rows: Sequence[Row], study: str = cells.SUCCESS) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a study (of success by default) by task and controller."""
    tasks = grouped([row for row in rows if row.study == study], 'task')
    return {task: grouped(of_task, 'controller') for task, of_task in tasks.items()}


def summarize(rows: Sequence[Row]) -> Summary:
    """Summarize rows."""
    runs = by_task(rows)
    ours = {task: of[cells.LEARNER] for task, of in runs.items() if cells.LEARNER in of}
    sizes = grouped([row for row in rows if row.study == cells.ABLATION], 'models', 'rollouts')
    return Summary(
        success=_each(runs, success),
        attempts={
            task: {name: statistics.share(reached) for name, reached in tried.items() if reached}
            for task, tried in _each(runs, _attempts).items()
            if any(tried.values())
        },
        time_s=_each(runs, _median_time),
        regret_s={
            task: {
                name: lost
                for name, of_name in of.items()
                if name != cells.ORACLE and (lost := regret(of_name, of[cells.ORACLE])) is not None
            }
            for task, of in runs.items()
            if cells.ORACLE in of
        },
        fall={task: error_reduction(of_task) for task, of_task in learners(runs).items()},
        plan_ms=_each(runs, plan_ms),
        calibration=coverage([row for row in rows if row.study == cells.CALIBRATION]),
        ablation={size: success(of_size) for size, of_size in sizes.items()},
        risk=_each(by_task(rows, cells.RISK), success_and_time),
        kinds={
            task: joint_kind(of_task)
            for task, of_task in ours.items()
            if any(row.right_kind is not None for row in of_task)
        },
        in_steps={
            task: statistics.share([in_steps(row, STEPS[task]) for row in of_task])
            for task, of_task in ours.items()
            if task in STEPS
        },
        learning={
            task: convergence(of[cells.LEARNER])
            for task, of in by_task(rows, cells.LEARNING).items()
        },
    )


def learners(runs: Mapping[str, Mapping[str, list[Row]]]) -> dict[str, list[Row]]:
    """Return the rows of EMPPI by task, of tasks with unknown parameters."""
    learned = {task: of.get(cells.LEARNER, []) for task, of in runs.items()}
    return {task: rows for task, rows in learned.items() if rows and rows[0].parameters}


def _attempts(rows: Sequence[Row]) -> list[bool]:
    """Return whether each attempt reached its target."""
    return [attempt.reached for row in rows for attempt in row.attempts]


def _median_time(rows: Sequence[Row]) -> float:
    return float(np.median([row.time_s for row in rows]))


def _each(
    runs: Mapping[str, Mapping[str, list[Row]]], measure: Callable[[list[Row]], T]
) -> dict[str, dict[str, T]]:
    return {
        task: {name: measure(rows) for name, rows in controllers.items()}
        for task, controllers in runs.items()
    }


def success(rows: Sequence[Row]) -> Share:
    """Return the share of runs that succeed."""
    return statistics.share([row.success for row in rows])


def success_and_time(rows: Sequence[Row]) -> SuccessAndTime:
    """Return success rate and time to success."""
    return SuccessAndTime(success(rows), _median_time(rows))


def regret(rows: Sequence[Row], oracle: Sequence[Row]) -> Mean | None:
    """
    Return how much longer runs take than the oracle's run of the same seed.

    A failure counts with its time limit. Runs without an oracle's run of their seed are skipped;
    None if that leaves none.
    """
    best = {row.seed: row.time_s for row in oracle}
    pairs = [row.time_s - best[row.seed] for row in rows if row.seed in best]
    return if_any(means.mean, pairs)


def error_reduction(rows: Sequence[Row]) -> ErrorReduction:
    """Return the reduction of the squared parameter error over the runs."""
    pairs = np.array([(row.course.squared_error[0], row.squared_error) for row in rows])
    start, end = np.median(pairs, axis=0)
    fallen = statistics.share([bool(b < a) for a, b in pairs])
    return ErrorReduction(float(start), float(end), fallen)


def joint_kind(rows: Sequence[Row]) -> JointKindBelief:
    """Return the beliefs' shares of the true joint kind; it moved in at least one run."""
    shares = [row.right_kind for row in rows if row.right_kind is not None]
    known = statistics.share([share > KNOWN for share in shares])
    return JointKindBelief(known, min(shares), len(rows) - len(shares))


def in_steps(row: Row, steps: int) -> bool:
    """Return whether a run succeeded within a number of control steps."""
    return row.success and 1e3 * row.time_s / row.period_ms <= steps + _ROUNDING


def convergence(rows: Sequence[Row]) -> ErrorConvergence:
    """Return the reduction of the squared error in runs of equal length."""
    seconds = rows[0].limit_s
    steps = round(1e3 * seconds / rows[0].period_ms)
    return ErrorConvergence(error_reduction(rows), seconds, steps)


def coverage(rows: Sequence[Row]) -> dict[str, Share]:
    """Return how often the 90 % interval of each parameter holds the true value."""
    inside: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        for name, estimate in row.parameters.items():
            if estimate.inside is not None:
                inside[name].append(estimate.inside)
    return {name: statistics.share(hits) for name, hits in inside.items()}


def plan_ms(rows: Sequence[Row]) -> float:
    """Return the median planning time; nan without plans."""
    times = [row.plan_ms for row in rows if row.plan_ms is not None]
    return float(np.median(times)) if times else np.nan


def as_json(summary: Summary) -> dict[str, Any]:
    """Return a summary as plain mappings, for JSON."""
    data: dict[str, Any] = means.plain(summary._replace(ablation={}, risk={}))
    for name, field in (('squared_error', 'fall'), ('kind_of_joint', 'kinds')):
        data[name] = data.pop(field)
    return {
        **data,
        'ablation': [
            {'models': models, 'rollouts': rollouts, **means.plain(value)}
            for (models, rollouts), value in summary.ablation.items()
        ],
        'risk': {
            task: {
                name: {**means.plain(outcome.success), 'time_s': outcome.time_s}
                for name, outcome in of.items()
            }
            for task, of in summary.risk.items()
        },
    }
