"""What rows of one kind come to: each measure by itself."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.bench import statistics
from emppi_ros.bench.paper.rows import Row
from emppi_ros.bench.statistics import Mean, Share

KNOWN = 0.95  # of a belief: more is knowledge
_ROUNDING = 1e-6  # of a number of steps


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


def success(rows: Sequence[Row]) -> Share:
    """Return how many runs succeed."""
    return statistics.share([row.success for row in rows])


def outcome(rows: Sequence[Row]) -> Outcome:
    """Return how often these runs succeed, and how soon."""
    return Outcome(success(rows), float(np.median([row.time_s for row in rows])))


def regret(rows: Sequence[Row], oracle: Sequence[Row]) -> Mean | None:
    """
    Return how much longer runs take than the oracle's of the same seed; failures take all.

    Runs whose oracle has not run yet do not count; None if that is so for all.
    """
    best = {row.seed: row.time_s for row in oracle}
    pairs = [row.time_s - best[row.seed] for row in rows if row.seed in best]
    return statistics.mean(pairs) if pairs else None


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
