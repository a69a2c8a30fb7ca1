"""From rows to the numbers that are reported."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from emppi_ros.bench import statistics
from emppi_ros.bench.paper import measures
from emppi_ros.bench.paper.cells import (
    ABLATION,
    CALIBRATION,
    LEARNER,
    LEARNING,
    ORACLE,
    PUBLISHED,
    RISK,
    SUCCESS,
)
from emppi_ros.bench.paper.measures import Fall, Kind, Learning, Outcome
from emppi_ros.bench.paper.rows import Attempt, Row
from emppi_ros.bench.statistics import Mean, Share

STEPS = {'halfcheetah_backflip': 200}  # of control, in which a first run is to succeed
K = TypeVar('K', bound=Hashable)


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
    published: Mapping[str, Mapping[str, Share]]  # task -> controller, by the paper's settings
    published_fall: Mapping[str, Fall]  # task


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
        success=_each(runs, measures.success),
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
                name: lost
                for name, found in controllers.items()
                if name != ORACLE
                and (lost := measures.regret(found, controllers[ORACLE])) is not None
            }
            for task, controllers in runs.items()
            if ORACLE in controllers
        },
        fall=_falls(runs),
        plan_ms=_each(runs, measures.plan_ms),
        calibration=measures.coverage(calibrated),
        ablation={
            size: statistics.share([row.success for row in found]) for size, found in sizes.items()
        },
        risk=_each(by_task(rows, RISK), measures.outcome),
        kinds={
            task: measures.kind(controllers[LEARNER])
            for task, controllers in runs.items()
            if any(row.right_kind is not None for row in controllers.get(LEARNER, ()))
        },
        in_steps={
            task: statistics.share(
                [measures.in_steps(row, STEPS[task]) for row in controllers[LEARNER]]
            )
            for task, controllers in runs.items()
            if task in STEPS and LEARNER in controllers
        },
        learning={
            task: measures.learning(controllers[LEARNER])
            for task, controllers in by_task(rows, LEARNING).items()
        },
        published=_each(by_task(rows, PUBLISHED), measures.success),
        published_fall=_falls(by_task(rows, PUBLISHED)),
    )


def _falls(runs: Mapping[str, Mapping[str, list[Row]]]) -> dict[str, Fall]:
    return {
        task: measures.fall(controllers[LEARNER])
        for task, controllers in runs.items()
        if LEARNER in controllers and controllers[LEARNER][0].parameters
    }


def _attempts(rows: Sequence[Row]) -> list[Attempt]:
    return [attempt for row in rows for attempt in row.attempts]


def _each(
    runs: Mapping[str, Mapping[str, list[Row]]], measure: Callable[[list[Row]], Any]
) -> dict[str, dict[str, Any]]:
    return {
        task: {name: measure(found) for name, found in controllers.items()}
        for task, controllers in runs.items()
    }
