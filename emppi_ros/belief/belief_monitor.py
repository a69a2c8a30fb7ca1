"""
Diagnostics of a belief: innovations, misfit, and identifiability (docs/diagnostics.md).

Normalized innovations of a consistent belief have mean 0 and variance 1 (Bar-Shalom, Li and
Kirubarajan, *Estimation with Applications to Tracking and Navigation*, 2001, section 5.4).
Converged particles prove nothing, so identifiability is that of predictions: the information of
all measurements and that of the prior bound the posterior standard deviation from below (Van Trees
inequality; Rothenberg, Econometrica 1971).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.belief.measurement_model import LONGEST_S, Deviation, Predictor
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.model.ensemble import State
from emppi_ros.priors.distributions import to_bounded, to_unbounded
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands
from emppi_ros.tasks.task import Task

_CHAIN = 20  # updates in which models start from their own predictions, as particles do
_PERIOD = 3  # evaluate one chain out of three, for a third of the cost
# updates per evaluated one; the first of a chain has no prediction to evaluate
_SCALE = _PERIOD * _CHAIN / (_CHAIN - 1)
_MIN_UPDATES = 100  # before a parameter is reported as unidentifiable or collapsed
_MIN_FIT_UPDATES, _MIN_FIT_S = 25, 1.0  # before errors are reported as a misfit
_PERSISTENT = 12  # successive updates with correlated errors: a jump correlates fewer
_TAIL, _WIDE_TAIL = 0.01, 0.05  # probabilities, at either end of a prior
_WINDOW = 200  # updates: a few seconds
_MAX_MEAN_SQUARE = 2.0  # of normalized innovations; that of a consistent belief is 1
UNIDENTIFIABLE = 0.9  # of the prior's standard deviation remaining
_WIDE = 0.5  # of the prior's sd: more than particles narrow by chance
SMALLEST = 1e-3  # sd, as a fraction of the prior's: no model of a robot is right to so many digits
_COLLAPSED = 0.1  # of the sd that measurements leave; learned errors may justify a third of it
_MAX_LEARNED = 4.0  # learned variance of errors: twice the configured standard deviation
_MAX_INFLATION = 2.5  # of the variance of scores, which right models hardly reach
_CLEARED = 0.75  # of its limit, below which a mean square is no longer a misfit
_STEP = 0.5  # of the prior's standard deviation, up and down: enough to change contacts
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)  # spreads the chains evenly over the particles


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
    Return the mean learned variance of each quantity, in units of its limit.

    `variance` (N,) is that of all values of `deviations`, in their order, in units of the
    configured one.
    """
    quantities = np.repeat(
        [one.quantity for one in deviations], [one.values.shape[1] for one in deviations]
    )
    return {
        quantity: float(variance[quantities == quantity].mean()) / _MAX_LEARNED
        for quantity in dict.fromkeys(one.quantity for one in deviations)
    }


def misfit(excess: Mapping[str, float], before: Sequence[str]) -> list[str]:
    """Return the names whose `excess` is above 1, of those `before` until it is well below 1."""
    return [name for name, one in excess.items() if one > (_CLEARED if name in before else 1.0)]


def remaining_sd(information: Array, correlation: Array) -> Array:
    """
    Return the posterior standard deviation of each parameter (P,), as a fraction of its prior's.

    `information` (P, P) is about parameters in units of their prior's standard deviation;
    `correlation` (P, P) is that of the prior, and may be singular.
    """
    # (C^-1 + F)^-1 = C^1/2 (1 + C^1/2 F C^1/2)^-1 C^1/2 avoids the inverse of C
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = np.eye(len(information)) + root @ information @ root
    return np.sqrt(np.maximum(np.diag(root @ np.linalg.solve(inner, root)), 0.0))


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


class LearnedNoise(NamedTuple):
    """Learned noise of N compared values, and of the scores of P parameters."""

    variance: Array  # (N,) in units of the configured one
    independent: Array  # (N,) variance of independent errors that weigh as much
    inflation: Array  # (P,) variance of scores, in units of what the likelihood implies


class BeliefMonitor:
    """Collects statistics of the updates of a filter."""

    updates: int
    diverged: int  # predictions
    # quantities whose errors the model does not explain, such as `joint_velocity`, and parameters
    # that could reduce errors that persist
    misfit: list[str]

    def __init__(self, task: Task) -> None:
        """Create two models for each uncertain parameter."""
        self._task = task
        self._varied = np.flatnonzero(task.prior.spread > 0.0)
        self._predictor = Predictor(task, max(1, 2 * len(self._varied)), threads=1)
        self._last: tuple[float, State] | None = None
        self.reset()

    def reset(self) -> None:
        """Discard all statistics."""
        count = len(self._task.parameters)
        self.updates = self.diverged = 0
        self.misfit = []
        self._first: float | None = None  # s, of the first update
        self._inflated = np.zeros(count, dtype=np.intp)  # successive updates
        self.innovations = InnovationStatistics()
        self.information = np.zeros((count, count))
        self.restart()

    def restart(self) -> None:
        """Start again from the next measurement, as after a jump."""
        self._last = None

    def tune(self, task: Task) -> None:
        """Use the tuned parameters of the same task."""
        self._task = task
        self._predictor.tune(task)

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active: a stage's grasp."""
        self._predictor.activate(equalities)

    def add(
        self,
        belief: Belief,
        deviations: Sequence[Deviation],
        stamp: float,
        observation: Observation,
        commands: Commands,
        learned: LearnedNoise | None = None,
    ) -> None:
        """Add an update, given the belief before it and the particles' deviations."""
        self.innovations.add(normalized_innovations(belief.log_weights, deviations))
        diverged = [~np.isfinite(one.values).all(axis=1) for one in deviations]
        self.diverged += int(np.any(diverged, axis=0).sum()) if diverged else 0
        if len(self._varied) and self.updates // _CHAIN % _PERIOD == 0:
            self._add_information(belief, stamp, observation, commands)
        self.updates += 1
        self._judge_fit(deviations, stamp, learned)

    def _judge_fit(
        self, deviations: Sequence[Deviation], stamp: float, learned: LearnedNoise | None
    ) -> None:
        """Update `misfit` from the learned noise; without it, from innovations."""
        self._first = stamp if self._first is None else min(self._first, stamp)
        if self.updates < _MIN_FIT_UPDATES or stamp - self._first < _MIN_FIT_S:
            return  # the belief still learns
        if learned is None:
            excess = self.innovations.excess
        else:
            excess = learned_excess(deviations, learned.independent)
            inflation = learned.inflation / _MAX_INFLATION
            self._inflated = np.where(inflation > 1.0, self._inflated + 1, 0)
            for i, parameter in enumerate(self._task.parameters):
                if self._inflated[i] >= _PERSISTENT or parameter.name in self.misfit:
                    excess[parameter.name] = float(inflation[i])
        self.misfit = misfit(excess, self.misfit)

    @property
    def remaining(self) -> Array:
        """Remaining fraction (P,) of each prior standard deviation; 1 means no information."""
        fractions = np.ones(len(self._task.parameters))
        rows = np.ix_(self._varied, self._varied)
        prior = self._task.prior.correlation[rows]
        fractions[self._varied] = remaining_sd(self.information[rows], prior)
        return fractions

    def out_of_prior(self, belief: Belief) -> list[str]:
        """Return the parameters whose belief contradicts its prior (Evans and Moshonov 2006)."""
        mean = weights.mean(belief.log_weights, belief.theta)
        excessive = any(excess > 1.0 for excess in self.innovations.excess.values())
        limit = _WIDE_TAIL if excessive else _TAIL
        return self._names(self._task.prior.tail_probability(mean) < limit)

    def collapsed(self, belief: Belief) -> list[str]:
        """Return the parameters whose belief is much narrower than measurements justify."""
        if self.updates < _MIN_UPDATES:
            return []
        spread = self._task.prior.relative_sd(belief)
        return self._names(spread < _COLLAPSED * self.remaining)

    def unidentifiable(self, belief: Belief) -> list[str]:
        """
        Return the parameters about which the measurements contain almost no information.

        A parameter that the belief knows much better than its prior is not among them: the filter
        learns a smaller noise than the configured one, with which `information` is computed.
        """
        if self.updates < _MIN_UPDATES:
            return []
        wide = self._task.prior.relative_sd(belief) > _WIDE
        return self._names((self.remaining > UNIDENTIFIABLE) & wide)

    def _names(self, flags: Bools) -> list[str]:
        """Return the names of the uncertain parameters with a flag (P,)."""
        return [self._task.parameters[i].name for i in self._varied if flags[i]]

    def _add_information(
        self, belief: Belief, stamp: float, observation: Observation, commands: Commands
    ) -> None:
        """Add the information of models around a particle; each chain has another particle."""
        predictor, last, self._last = self._predictor, self._last, None
        if self.updates % _CHAIN == 0:
            predictor.write(self._around(belief))
            last = None
        state = predictor.fit(observation)
        if last is not None and 0.0 < stamp - last[0] <= LONGEST_S:
            predicted = predictor.predict(last, stamp, commands)
            deviations = predictor.compare(predicted, observation)
            values = np.concatenate([one.values for one in deviations], axis=1)
            if np.isfinite(values).all():  # no model diverged
                up, down = np.split(values, 2)  # raised and lowered models
                jacobian = np.zeros((values.shape[1], len(self._task.parameters)))
                jacobian[:, self._varied] = (up - down).T / (2.0 * _STEP)
                self.information += _SCALE * (jacobian.T @ jacobian)  # Fisher information
            state = predictor.correct(predicted, observation, state, stamp - last[0])
        self._last = stamp, state

    def _around(self, belief: Belief) -> Array:
        """Return a particle with each uncertain parameter raised (n, P), then lowered (n, P)."""
        parameters, spread = self._task.parameters, self._task.prior.spread
        level = (0.5 + self.updates // _CHAIN * _GOLDEN) % 1.0
        cumulative = np.cumsum(np.exp(belief.log_weights))
        chosen = min(np.searchsorted(cumulative, level * cumulative[-1]), len(cumulative) - 1)
        middle = to_unbounded(parameters, belief.theta[chosen : chosen + 1])
        z = np.repeat(middle, 2 * len(self._varied), axis=0)
        rows, steps = np.arange(len(self._varied)), _STEP * spread[self._varied]
        z[rows, self._varied] += steps
        z[rows + len(rows), self._varied] -= steps
        return to_bounded(parameters, z)
