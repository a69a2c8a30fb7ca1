"""
Scores of the beliefs of a run about each parameter of a task, given the truth.

CRPS is the continuous ranked probability score (Gneiting and Raftery, *Strictly proper scoring
rules, prediction, and estimation*, J. Am. Stat. Assoc. 102, 2007, eq. 21). Ranks are uniform if
truths are drawn from the prior and the belief is right (Talts et al., *Validating Bayesian
inference algorithms with simulation-based calibration*, 2018).
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
import math

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.model import uncertain_joints
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.schema import ParameterChange
from emppi_ros.tasks.task import Task

Changes = Mapping[int, Sequence[ParameterChange]]  # by column, as in `TrueParameters`
LOW, HIGH = 0.05, 0.95  # quantiles: the ends of a 90 % interval
SETTLING_S = 1.0  # after the start and after a change, in which coverage does not count
HELD_S = 0.5  # for which an interval must hold the truth to count as recovered
DRAWS = 99  # of the belief: ranks from 0 to 99
NARROWEST = 1e-6  # sd, in sd of the prior: a narrower belief counts as this wide
_PRIOR_DRAWS = 10_000
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
    true_z = to_unbounded(task.parameters, true)
    draws = task.prior.sample(_PRIOR_DRAWS, np.random.default_rng(0))
    z = [to_unbounded(task.parameters, belief.theta) for _, belief in beliefs]
    counted = settled(stamps, change_times(changes))
    result = {}
    for i in scored_parameters(task):
        parameter = task.parameters[i]
        starts = [change.at_s for change in changes.get(i, ())]
        columns = [
            _score_belief(belief, z[k][:, i], i, true[k, i], true_z[k, i], draws[:, i].std(), task)
            for k, (_, belief) in enumerate(beliefs)
        ]
        values = np.array(columns)  # (n, 5)
        inside = values[:, 1] > 0.0
        at_first = stamps < (starts[0] if starts else np.inf)
        means = values[counted].mean(axis=0).tolist() if counted.any() else [None] * 5
        mean, sd, low, high = summarize(beliefs[-1][1], i)
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


def _score_belief(
    belief: Belief, z: Array, i: int, true: float, true_z: float, scale: float, task: Task
) -> tuple[float, float, float, float, float]:
    """Return the five scores of a belief about parameter `i`."""
    log_weights, values = belief.log_weights, belief.theta[:, i]
    mean, sd, _, _ = summarize(belief, i)
    spread = task.prior.spread[i]
    mean_z = float(weights.mean(log_weights, z))
    sd_z = float(np.sqrt(weights.covariance(log_weights, z[:, None])[0, 0]))
    return (
        float(is_inside(log_weights, values, true, 0.5)),
        float(is_inside(log_weights, values, true, 0.9)),
        ((true - mean) / max(sd, NARROWEST * scale)) ** 2,
        crps(log_weights, values, true) / scale,
        normal_log_score(mean_z / spread, max(sd_z / spread, NARROWEST), true_z / spread),
    )


def summarize(belief: Belief, i: int) -> tuple[float, float, float, float]:
    """Return mean, sd, and the ends of the 90 % interval of parameter `i`."""
    log_weights, values = belief.log_weights, belief.theta[:, i : i + 1]
    return (
        float(weights.mean(log_weights, values)[0]),
        float(np.sqrt(weights.covariance(log_weights, values)[0, 0])),
        float(weights.quantile(log_weights, values, LOW)[0]),
        float(weights.quantile(log_weights, values, HIGH)[0]),
    )


def is_inside(log_weights: Array, values: Array, truth: float, probability: float) -> bool:
    """Return whether the central interval of weighted values (M,) holds the truth."""
    tail = 0.5 * (1.0 - probability)
    low, high = (
        weights.quantile(log_weights, values[:, None], at)[0] for at in (tail, 1.0 - tail)
    )
    return bool(low <= truth <= high)


def crps(log_weights: Array, values: Array, truth: float) -> float:
    """Return the CRPS of weighted values (M,): E |x - truth| - E |x - x'| / 2."""
    shares = np.exp(weights.normalize(log_weights))
    order = np.argsort(values)
    x, w = values[order], shares[order]
    below = np.cumsum(w) - 0.5 * w  # probability below each value, half of its own included
    spread = 2.0 * float(w @ ((2.0 * below - 1.0) * x))  # E |x - x'|
    return float(w @ np.abs(x - truth)) - 0.5 * spread


def normal_log_score(mean: float, sd: float, truth: float) -> float:
    """
    Return the log density of the truth by a normal distribution.

    Averages over beliefs with these moments it is a proper score of any distribution (Dawid and
    Sebastiani, *Coherent dispersion criteria for optimal experimental design*, Annals of
    Statistics 27, 1999).
    """
    return -0.5 * math.log(2.0 * math.pi) - math.log(sd) - 0.5 * ((truth - mean) / sd) ** 2


def rank(log_weights: Array, values: Array, truth: float, rng: np.random.Generator) -> int:
    """
    Return how many of DRAWS draws from weighted values (M,) are below the truth.

    Of draws that equal the truth, a random number counts as below.
    """
    shares = np.exp(weights.normalize(log_weights))
    draws = rng.choice(values, size=DRAWS, p=shares / shares.sum())
    below, equal = int((draws < truth).sum()), int((draws == truth).sum())
    return below + int(rng.integers(equal + 1))


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


def scored_parameters(task: Task) -> list[int]:
    """Return the uncertain parameters, except those of joints with an uncertain axis."""
    judged = has_interval(task)
    return [i for i in range(len(judged)) if judged[i] and task.prior.spread[i] > 0.0]


def has_interval(task: Task) -> list[bool]:
    """Return whether the interval of each parameter can be judged: not for uncertain joints."""
    excluded = {
        column
        for joint in uncertain_joints.uncertain(task.model, task.parameters)
        for column in (*joint.axis, *(joint.pivot if joint.choice is None else ()))
    }
    return [i not in excluded for i in range(len(task.parameters))]
