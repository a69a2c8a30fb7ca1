"""From rows to the numbers that are reported."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from emppi_ros.bench import statistics
from emppi_ros.bench.cells import ABLATION, CALIBRATION, LEARNER, LEARNING, ORACLE, RISK, SUCCESS
from emppi_ros.bench.rows import Attempt, Row
from emppi_ros.bench.statistics import Mean, Share

KNOWN = 0.95  # of a belief: more is knowledge
STEPS = {'halfcheetah_backflip': 200}  # of control, in which a first run is to succeed
_ROUNDING = 1e-6  # of a number of steps
K = TypeVar('K', bound=Hashable)


class Fall(NamedTuple):
    """How the squared parameter error of several runs fell: medians, and how many fell."""

    start: float
    end: float
    fallen: Share

    @property
    def ratio(self) -> float:
        """What is left of it; nan where there was nothing to learn."""
        return self.end / self.start if self.start > 0.0 else np.nan


class Outcome(NamedTuple):
    """How often runs succeed, and how soon."""

    success: Share
    time_s: float  # median; a failure counts with all its time


class Learning(NamedTuple):
    """How the squared parameter error fell in runs that went on after success."""

    fall: Fall
    seconds: float  # that they lasted
    steps: int  # of control, in that time


class Kind(NamedTuple):
    """How much of the beliefs is on the true kind of an open joint, once it has moved a bit."""

    known: Share  # of runs in which it moved so far: more than KNOWN of the belief
    least: float  # of the belief, over these runs
    still: int  # runs in which it did not move so far


class Summary(NamedTuple):
    """All numbers of a benchmark; what was not run is empty."""

    success: Mapping[str, Mapping[str, Share]]  # task -> controller
    attempts: Mapping[str, Mapping[str, Share]]  # that reached their target, of all runs
    time_s: Mapping[str, Mapping[str, float]]  # median; a failure counts with all its time
    regret_s: Mapping[str, Mapping[str, Mean]]  # task -> controller but the oracle
    fall: Mapping[str, Fall]  # task
    plan_ms: Mapping[str, Mapping[str, float]]  # median of medians
    calibration: Mapping[str, Share]  # parameter
    ablation: Mapping[tuple[int, int], Share]  # (M, K)
    risk: Mapping[str, Mapping[str, Outcome]]  # task -> measure
    kinds: Mapping[str, Kind]  # task, where a joint is open
    in_steps: Mapping[str, Share]  # task: EMPPI's runs that succeed within STEPS
    learning: Mapping[str, Learning]  # task


def group(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, list[Row]]:
    """Return rows by a key, in the order in which each key is met first."""
    groups: dict[K, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)


def by_task(rows: Sequence[Row], study: str = SUCCESS) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a study, that of success by default, by task and controller."""
    chosen = [row for row in rows if row.study == study]
    return {
        task: group(of_task, lambda row: row.controller)
        for task, of_task in group(chosen, lambda row: row.task).items()
    }


def summarize(rows: Sequence[Row]) -> Summary:
    """Return all numbers that the rows give."""
    runs = by_task(rows)
    calibrated = [row for row in rows if row.study == CALIBRATION]
    sizes = group(
        (row for row in rows if row.study == ABLATION), lambda row: (row.models, row.rollouts)
    )
    return Summary(
        success=_each(runs, lambda found: statistics.share([row.success for row in found])),
        attempts=_each(
            {
                task: {name: found for name, found in controllers.items() if _attempts(found)}
                for task, controllers in runs.items()
                if any(_attempts(found) for found in controllers.values())
            },
            lambda found: statistics.share([one.reached for one in _attempts(found)]),
        ),
        time_s=_each(runs, lambda found: float(np.median([row.time_s for row in found]))),
        regret_s={
            task: {
                name: regret(found, controllers[ORACLE])
                for name, found in controllers.items()
                if name != ORACLE
            }
            for task, controllers in runs.items()
            if ORACLE in controllers
        },
        fall={
            task: fall(controllers[LEARNER])
            for task, controllers in runs.items()
            if LEARNER in controllers and controllers[LEARNER][0].parameters
        },
        plan_ms=_each(runs, plan_ms),
        calibration=coverage(calibrated),
        ablation={
            size: statistics.share([row.success for row in found]) for size, found in sizes.items()
        },
        risk=_each(by_task(rows, RISK), outcome),
        kinds={
            task: kind(controllers[LEARNER])
            for task, controllers in runs.items()
            if any(row.right_kind is not None for row in controllers.get(LEARNER, ()))
        },
        in_steps={
            task: statistics.share([in_steps(row, STEPS[task]) for row in controllers[LEARNER]])
            for task, controllers in runs.items()
            if task in STEPS and LEARNER in controllers
        },
        learning={
            task: learning(controllers[LEARNER])
            for task, controllers in by_task(rows, LEARNING).items()
        },
    )


def _attempts(rows: Sequence[Row]) -> list[Attempt]:
    return [attempt for row in rows for attempt in row.attempts]


def _each(
    runs: Mapping[str, Mapping[str, list[Row]]], measure: Callable[[list[Row]], Any]
) -> dict[str, dict[str, Any]]:
    return {
        task: {name: measure(found) for name, found in controllers.items()}
        for task, controllers in runs.items()
    }


def outcome(rows: Sequence[Row]) -> Outcome:
    """Return how often these runs succeed, and how soon."""
    return Outcome(
        statistics.share([row.success for row in rows]),
        float(np.median([row.time_s for row in rows])),
    )


def regret(rows: Sequence[Row], oracle: Sequence[Row]) -> Mean:
    """Return how much longer runs take than the oracle's of the same seed; failures take all."""
    best = {row.seed: row.time_s for row in oracle}
    return statistics.mean([row.time_s - best[row.seed] for row in rows])


def fall(rows: Sequence[Row]) -> Fall:
    """Return how the squared error of the parameters fell over the runs."""
    pairs = np.array([(row.course.squared_error[0], row.squared_error) for row in rows])
    start, end = np.median(pairs, axis=0)
    return Fall(float(start), float(end), statistics.share([bool(b < a) for a, b in pairs]))


def kind(rows: Sequence[Row]) -> Kind:
    """Return how much of the beliefs was on the true kind of joint; it moved in one at least."""
    found = [row.right_kind for row in rows if row.right_kind is not None]
    known = statistics.share([share > KNOWN for share in found])
    return Kind(known, min(found), len(rows) - len(found))


def in_steps(row: Row, steps: int) -> bool:
    """Return whether a run succeeded within so many control steps."""
    return row.success and 1e3 * row.time_s / row.period_ms <= steps + _ROUNDING


def learning(rows: Sequence[Row]) -> Learning:
    """Return how the squared error fell in runs of equal length."""
    seconds = rows[0].limit_s
    return Learning(fall(rows), seconds, round(1e3 * seconds / rows[0].period_ms))


def coverage(rows: Sequence[Row]) -> dict[str, Share]:
    """Return for each parameter how often its 90 % interval held the true value."""
    found: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        for name, estimate in row.parameters.items():
            if estimate.inside is not None:
                found[name].append(estimate.inside)
    return {name: statistics.share(hits) for name, hits in found.items()}


def plan_ms(rows: Sequence[Row]) -> float:
    """Return the median time of a plan; nan where there was none."""
    found = [row.plan_ms for row in rows if row.plan_ms is not None]
    return float(np.median(found)) if found else np.nan
