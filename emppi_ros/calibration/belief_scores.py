"""Scores of the beliefs of a run about each parameter of a task, given the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from emppi_ros.calibration import scores
from emppi_ros.core import weights
from emppi_ros.model import uncertain_joints
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.schema import ParameterChange
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
Changes = Mapping[int, Sequence[ParameterChange]]  # by column, as in `TrueParameters`
LOW, HIGH = 0.05, 0.95  # quantiles: the ends of a 90 % interval
_PRIOR_DRAWS = 10_000


@dataclass(frozen=True)
class ParameterScores:
    """
    Scores of the belief about one parameter.

    The first five are means over the updates at least 1 s after the start and after a change of
    the truth; None if there are none.
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
        return self.low <= self.true <= self.high


def score(
    task: Task,
    truths: Sequence[tuple[float, Array]],
    beliefs: Sequence[tuple[float, Belief]],
    changes: Changes,
) -> dict[str, ParameterScores]:
    """
    Return the scores of beliefs over time by parameter.

    Parameters
    ----------
    task : Task
        The task.
    truths : sequence
        Time [s] and true values (P,), each until the next.
    beliefs : sequence
        Time [s] and belief of each update.
    changes : mapping
        Changes of the truth by column.

    """
    stamps = np.array([stamp for stamp, _ in beliefs])
    true = truth_at(truths, stamps)
    true_z = to_unbounded(task.parameters, true)
    draws = task.prior.sample(_PRIOR_DRAWS, np.random.default_rng(0))
    z = [to_unbounded(task.parameters, belief.theta) for _, belief in beliefs]
    counted = scores.settled(stamps, change_times(changes))
    result = {}
    for i in scored_parameters(task):
        parameter = task.parameters[i]
        own = [change.at_s for change in changes.get(i, ())]
        columns = [
            _score_one(belief, z[k][:, i], i, true[k, i], true_z[k, i], draws[:, i].std(), task)
            for k, (_, belief) in enumerate(beliefs)
        ]
        values = np.array(columns)  # (n, 5)
        inside = values[:, 1] > 0.0
        at_first = stamps < (own[0] if own else np.inf)
        means = values[counted].mean(axis=0).tolist() if counted.any() else [None] * 5
        last = beliefs[-1][1]
        mean, sd, low, high = summarize(last, i)
        result[parameter.name] = ParameterScores(
            *means,
            found_s=scores.recovery_time(stamps[at_first], inside[at_first], 0.0),
            changes=bool(own),
            recovered_s=scores.recovery_time(stamps, inside, own[-1]) if own else None,
            true=float(true[-1, i]),
            mean=mean,
            sd=sd,
            low=low,
            high=high,
            unit=parameter.unit,
        )
    return result


def _score_one(
    belief: Belief, z: Array, i: int, true: float, true_z: float, scale: float, task: Task
) -> tuple[float, float, float, float, float]:
    """Return the five scores of one belief about parameter `i`."""
    log_weights, values = belief.log_weights, belief.theta[:, i]
    mean, sd, _, _ = summarize(belief, i)
    error = (true - mean) / max(sd, scores.NARROWEST * scale)
    spread = task.prior.spread[i]
    mean_z = float(weights.mean(log_weights, z))
    sd_z = float(np.sqrt(weights.covariance(log_weights, z[:, None])[0, 0]))
    return (
        float(scores.is_inside(log_weights, values, true, 0.5)),
        float(scores.is_inside(log_weights, values, true, 0.9)),
        error**2,
        scores.crps(log_weights, values, true) / scale,
        scores.normal_log_score(
            mean_z / spread, max(sd_z / spread, scores.NARROWEST), true_z / spread
        ),
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


def truth_at(truths: Sequence[tuple[float, Array]], stamps: Array) -> Array:
    """Return the true values (n, P) at stamps (n,); each holds until the next."""
    starts = [start for start, _ in truths]
    index = np.maximum(np.searchsorted(starts, stamps + 1e-9, 'right') - 1, 0)
    return np.array([value for _, value in truths])[index]


def change_times(changes: Changes) -> list[float]:
    """Return the times [s] at which the truth begins to change, in order."""
    return sorted({change.at_s for own in changes.values() for change in own})


def scored_parameters(task: Task) -> list[int]:
    """Return the uncertain parameters, except those of joints with an uncertain axis."""
    judged = has_interval(task)
    return [i for i in range(len(judged)) if judged[i] and task.prior.spread[i] > 0.0]


def has_interval(task: Task) -> list[bool]:
    """Return whether the interval of each parameter can be judged: not for uncertain joints."""
    apart = {
        column
        for joint in uncertain_joints.uncertain(task.model, task.parameters)
        for column in (*joint.axis, *(joint.pivot if joint.choice is None else ()))
    }
    return [i not in apart for i in range(len(task.parameters))]
