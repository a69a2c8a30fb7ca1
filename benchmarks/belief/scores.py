"""
Scores of the beliefs of a run about each parameter, while the truth may change.

CRPS is the continuous ranked probability score (Gneiting and Raftery, *Strictly proper scoring
rules, prediction, and estimation*, J. Am. Stat. Assoc. 102, 2007, eq. 21).
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from emppi_ros.calibration import belief_scores
from emppi_ros.calibration.belief_scores import SETTLING_S
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks import calibration_record
from emppi_ros.tasks.schema import ParameterChange
from emppi_ros.tasks.task import Task

Changes = Mapping[int, Sequence[ParameterChange]]  # by column, as in `TrueParameters`
HELD_S = 0.5  # for which an interval must hold the truth to count as recovered
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class ParameterScores:
    """
    Scores of the belief about one parameter.

    The first five are means over settled updates (see `settled`); None if there are none.
    """

    inside_50: float | None  # share of 50 % intervals that hold the truth
    inside_90: float | None
    mean_square_z: float | None  # z = (truth - mean) / sd
    crps: float | None  # in sd of the prior
    log_score: float | None  # of unbounded coordinates in sd of the prior [nats]
    _: KW_ONLY
    found_s: float | None  # until the 90 % interval holds the truth; None: not before a change
    changes: bool  # whether its truth changes
    recovered_s: float | None  # the same, from the last change on
    true: float  # at the end
    mean: float
    sd: float
    low: float  # 5 % quantile
    high: float  # 95 %
    unit: str = ''

    @property
    def inside_end(self) -> bool:
        """Whether the last 90 % interval holds the truth."""
        return bool(self.low <= self.true <= self.high)


def score(
    task: Task,
    truths: Sequence[tuple[float, Array]],
    beliefs: Sequence[tuple[float, Belief]],
    changes: Changes,
) -> dict[str, ParameterScores]:
    """
    Return the scores of beliefs over time by parameter.

    `truths` are times [s] and true values (P,), each until the next, `beliefs` the time [s] and
    the belief of each update, and `changes` those of the truth by column.
    """
    stamps = np.array([stamp for stamp, _ in beliefs])
    true = truth_at(truths, stamps)
    counted = settled(stamps, change_times(changes))
    result = {}
    for i in calibration_record.scored_parameters(task):
        parameter, scale = task.parameters[i], task.prior.draws[:, i].std()
        starts = [change.at_s for change in changes.get(i, ())]
        columns = []
        for truth, (_, belief) in zip(true, beliefs, strict=True):
            *first, log_score = belief_scores.score(task, i, belief, truth)
            distance = crps(belief.log_weights, belief.theta[:, i], truth[i]) / scale
            columns.append((*first, distance, log_score))
        values = np.array(columns)  # (n, 5)
        inside = values[:, 1] > 0.0
        at_first = stamps < (starts[0] if starts else np.inf)
        means = values[counted].mean(axis=0).tolist() if counted.any() else [None] * 5
        mean, sd, low, high = belief_scores.summarize(beliefs[-1][1], i)
        result[parameter.name] = ParameterScores(
            *means,
            found_s=recovery_time(stamps[at_first], inside[at_first], 0.0),
            changes=bool(starts),
            recovered_s=recovery_time(stamps, inside, starts[-1]) if starts else None,
            true=float(true[-1, i]),
            mean=mean,
            sd=sd,
            low=low,
            high=high,
            unit=parameter.unit,
        )
    return result


def crps(log_weights: Array, values: Array, truth: float) -> float:
    """Return the CRPS of weighted values (M,): E |x - truth| - E |x - x'| / 2."""
    shares = np.exp(weights.normalize(log_weights))
    order = np.argsort(values)
    x, w = values[order], shares[order]
    below = np.cumsum(w) - 0.5 * w  # probability below each value, half of its own included
    spread = 2.0 * float(w @ ((2.0 * below - 1.0) * x))  # E |x - x'|
    return float(w @ np.abs(x - truth)) - 0.5 * spread


def recovery_time(stamps: Array, inside: Bools, since: float) -> float | None:
    """
    Return the time [s] after `since` from which an interval holds the truth for HELD_S.

    None if it never does, or if the stamps (n,) end before.
    """
    times, hits = stamps[stamps > since - _ROUNDING_S], inside[stamps > since - _ROUNDING_S]
    for i in np.flatnonzero(hits):
        until = times[i] + HELD_S - _ROUNDING_S
        if times[-1] < until:
            return None
        if hits[i:][times[i:] <= until].all():
            return float(times[i] - since)
    return None


def settled(stamps: Array, changes: list[float]) -> Bools:
    """Return which stamps (n,) are at least SETTLING_S after the start and after each change."""
    since = stamps[:, None] - [0.0, *changes]
    return np.all((since < 0.0) | (since >= SETTLING_S - _ROUNDING_S), axis=1)


def truth_at(truths: Sequence[tuple[float, Array]], stamps: Array) -> Array:
    """Return the true values (n, P) at stamps (n,); each holds until the next."""
    starts = [start for start, _ in truths]
    index = np.maximum(np.searchsorted(starts, stamps + 1e-9, 'right') - 1, 0)
    return np.array([value for _, value in truths])[index]


def change_times(changes: Changes) -> list[float]:
    """Return the times [s] at which the truth begins to change, in order."""
    return sorted({change.at_s for of in changes.values() for change in of})
