"""
Diagnostics of a belief: innovations, misfit, and what is known of each parameter.

docs/diagnostics.md describes them. Normalized innovations of a consistent belief have mean 0 and
variance 1 (Bar-Shalom, Li and Kirubarajan, *Estimation with Applications to Tracking and
Navigation*, 2001, section 5.4). Converged particles prove nothing: a parameter is identifiable if
the information of all measurements leaves less than its prior (Rothenberg, Econometrica 1971).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.belief.measurement_model import Deviation, LearnedNoise
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task

_MIN_UPDATES = 100  # before a parameter is reported as unidentifiable or collapsed
_MIN_FIT_UPDATES, _MIN_FIT_S = 25, 1.0  # before errors are reported as a misfit
_TAIL, _WIDE_TAIL = 0.01, 0.05  # probabilities, at either end of a prior
_WINDOW = 200  # updates: a few seconds
_MAX_MEAN_SQUARE = 2.0  # of normalized innovations; that of a consistent belief is 1
_UNIDENTIFIABLE = 0.9  # of the prior's standard deviation remaining
SMALLEST = 1e-3  # sd, as a fraction of the prior's: no model of a robot is right to so many digits
_UNCHANGED = 0.75  # of the prior's sd: what fifty draws from it have at least
_COLLAPSED = 0.5  # of the sd that measurements leave
_MAX_LEARNED = 4.0  # learned variance of errors: twice the configured standard deviation
_CLEARED = 0.75  # of its limit, below which a mean square is no longer a misfit


def normalized_innovations(
    log_weights: Array, deviations: Sequence[Deviation]
) -> dict[str, Array]:
    """
    Return normalized innovations (n,) by quantity.

    `log_weights` (M,) are those before the update. Diverged models are ignored; a
    quantity is omitted if all models diverged.
    """
    parts: dict[str, list[Array]] = {}
    for deviation in deviations:
        finite = np.isfinite(deviation.values).all(axis=1) & np.isfinite(log_weights)
        if finite.any():
            shares, values = log_weights[finite], deviation.values[finite]
            mean = weights.mean(shares, values)
            variance = weights.mean(shares, (values - mean) ** 2)
            parts.setdefault(deviation.quantity, []).append(-mean / np.sqrt(1.0 + variance))
    return {quantity: np.concatenate(values) for quantity, values in parts.items()}


class InnovationStatistics:
    """Mean and variance of recent normalized innovations, by quantity."""

    def __init__(self) -> None:
        """Start without innovations."""
        self._sums: dict[str, deque[tuple[int, float, float]]] = {}

    def add(self, innovations: dict[str, Array]) -> None:
        """Add the normalized innovations of one update."""
        for quantity, values in innovations.items():
            sums = self._sums.setdefault(quantity, deque(maxlen=_WINDOW))
            sums.append((values.size, float(values.sum()), float(values @ values)))

    def statistics(self) -> dict[str, tuple[float, float]]:
        """Return (mean, variance) by quantity."""
        result = {}
        for quantity, sums in list(self._sums.items()):  # another thread may add
            count, total, square = np.sum(list(sums), axis=0)
            mean = total / count
            result[quantity] = float(mean), float(square / count - mean**2)
        return result

    @property
    def excess(self) -> dict[str, float]:
        """Mean square of each quantity, in units of what a belief can explain."""
        return {
            quantity: (mean**2 + variance) / _MAX_MEAN_SQUARE
            for quantity, (mean, variance) in self.statistics().items()
        }


def learned_excess(deviations: Sequence[Deviation], variance: Array) -> dict[str, float]:
    """
    Return the largest learned variance of each quantity, in units of its limit.

    `variance` (N,) is that of all values of `deviations`, in their order, in units of the
    configured one; correlated errors have a larger one (`NoiseScale.persistent`).
    """
    quantities = np.repeat(
        [one.quantity for one in deviations], [one.values.shape[1] for one in deviations]
    )
    return {
        quantity: float(variance[quantities == quantity].max()) / _MAX_LEARNED
        for quantity in dict.fromkeys(one.quantity for one in deviations)
    }


def misfit(excess: Mapping[str, float], before: Sequence[str]) -> list[str]:
    """Return the names whose `excess` is above 1, of those `before` until it is well below 1."""
    return [name for name, one in excess.items() if one > (_CLEARED if name in before else 1.0)]


def unresolved(prior: JointPrior, belief: Belief) -> list[str]:
    """Return the parameters with a belief that is too narrow for any model of a robot."""
    narrow = prior.relative_sd(belief) < SMALLEST
    return [one.name for one, flag in zip(prior.parameters, narrow, strict=True) if flag]


def parameter_summary(task: Task, belief: Belief, truth: Array) -> dict[str, dict[str, float]]:
    """Return mean, standard deviation and true value of each parameter, by name."""
    mean = weights.mean(belief.log_weights, belief.theta)
    sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, belief.theta)))
    return {
        p.name: {'mean': float(mean[i]), 'sd': float(sd[i]), 'true': float(truth[i])}
        for i, p in enumerate(task.parameters)
    }


class Judgement(NamedTuple):
    """What is known of each parameter; a parameter has at most one of the flags."""

    remaining: Array  # (P,) sd that the measurements leave, as a fraction of the prior's
    unidentifiable: list[str]  # parameters about which nothing is known beyond the prior
    collapsed: list[str]  # with a belief that is narrower than the measurements justify
    out_of_prior: list[str]  # with a belief that contradicts its prior


class BeliefMonitor:
    """Collects statistics of the updates of a filter."""

    updates: int
    diverged: int  # predictions
    misfit: list[str]  # quantities whose errors the model does not explain

    def __init__(self, task: Task) -> None:
        """Start without updates."""
        self._task = task
        self._varied = task.prior.spread > 0.0
        self.reset()

    def reset(self) -> None:
        """Discard all statistics."""
        self.updates = self.diverged = 0
        self.misfit = []
        self._first: float | None = None  # s, of the first update
        self.innovations = InnovationStatistics()

    def add(
        self,
        belief: Belief,
        deviations: Sequence[Deviation],
        stamp: float,
        learned: LearnedNoise | None = None,
    ) -> None:
        """Add an update, given the belief before it and the particles' deviations."""
        self.innovations.add(normalized_innovations(belief.log_weights, deviations))
        diverged = [~np.isfinite(one.values).all(axis=1) for one in deviations]
        self.diverged += int(np.any(diverged, axis=0).sum()) if diverged else 0
        self.updates += 1
        self._first = stamp if self._first is None else min(self._first, stamp)
        if self.updates < _MIN_FIT_UPDATES or stamp - self._first < _MIN_FIT_S:
            return  # the belief still learns
        if learned is None:
            excess = self.innovations.excess
        else:
            excess = learned_excess(deviations, learned.persistent)
        self.misfit = misfit(excess, self.misfit)

    def judge(self, belief: Belief, remaining: Array) -> Judgement:
        """
        Return what is known of each parameter.

        `remaining` (P,) is the sd that the information of the filter leaves, as a fraction of the
        prior's. The first 100 updates flag no parameter as unidentifiable or collapsed. A belief
        contradicts its prior if its mean is in a tail of it (Evans and Moshonov 2006).
        """
        spread = self._task.prior.relative_sd(belief)
        late = self._varied & (self.updates >= _MIN_UPDATES)
        unknown = late & (remaining > _UNIDENTIFIABLE) & (spread > _UNCHANGED)
        collapsed = late & (spread < _COLLAPSED * remaining)
        mean = weights.mean(belief.log_weights, belief.theta)
        excessive = any(excess > 1.0 for excess in self.innovations.excess.values())
        tail = self._task.prior.tail_probability(mean) < (_WIDE_TAIL if excessive else _TAIL)
        outside = self._varied & tail & ~unknown & ~collapsed
        return Judgement(remaining, *map(self._names, (unknown, collapsed, outside)))

    def _names(self, flags: Bools) -> list[str]:
        """Return the names of the parameters with a flag (P,)."""
        pairs = zip(self._task.parameters, flags, strict=True)
        return [parameter.name for parameter, flag in pairs if flag]
