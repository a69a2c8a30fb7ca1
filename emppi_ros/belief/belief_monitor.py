"""
Diagnostics of a belief: innovations, and identifiability of the parameters.

An innovation is a measurement minus its prediction. Normalized by its standard deviation (that of
the measurement and of the predictions together) it has mean 0 and variance 1 if the belief is
consistent (Bar-Shalom, Li and Kirubarajan, *Estimation with Applications to Tracking and
Navigation*, 2001, section 5.4). Another mean is a bias; a larger variance is an effect that no
particle explains; a smaller one means that measurements are better than configured.

Converged particles prove nothing: if no prediction depends on a parameter, resampling alone
reduces its spread. Identifiability therefore looks at the sensitivity of predictions to each
parameter, from models of its own on both sides of a particle: a regression over the particles, as
in `information.py`, takes nonlinear effects of one parameter for small effects of another. The
Fisher information of all measurements adds up and, with that of the prior, bounds the posterior
standard deviation from below (Van Trees inequality; in practice the local identifiability of
Rothenberg, Econometrica 1971). If only the ratio of two parameters is observable, both stay
uncertain.

Where the model does not explain the data, errors stay large, or persist. A quantity is a misfit if
the root of the mean variance of its errors exceeds a limit, in units of the configured standard
deviations. A parameter is a misfit if the errors that it could reduce persist: the variance of its
scores exceeds what the likelihood implies. Each stays one until it is well below its limit.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.measurement_model import LONGEST_S, Deviation, Predictor
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
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
_UNIDENTIFIABLE = 0.9  # of the prior's standard deviation remaining
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

    @property
    def excessive(self) -> bool:
        """Whether the innovations of some quantity are larger than the belief explains."""
        return any(excess > 1.0 for excess in self.excess.values())


def learned_excess(deviations: Sequence[Deviation], variance: Array) -> dict[str, float]:
    """
    Return the mean learned variance of each quantity, in units of its limit.

    `variance` (N,) is that of all values of `deviations`, in their order, in units of the
    configured one.
    """
    counts = [one.values.shape[1] for one in deviations]
    parts: dict[str, list[Array]] = {}
    for one, part in zip(deviations, np.split(variance, np.cumsum(counts)[:-1]), strict=True):
        parts.setdefault(one.quantity, []).append(part)
    return {
        quantity: float(np.concatenate(values).mean()) / _MAX_LEARNED
        for quantity, values in parts.items()
    }


def persistence(names: Sequence[str], inflation: Array) -> dict[str, float]:
    """Return the inflation (P,) of the variance of each parameter's scores, over its limit."""
    return dict(zip(names, (inflation / _MAX_INFLATION).tolist(), strict=True))


def misfit(excess: Mapping[str, float], before: Sequence[str]) -> list[str]:
    """
    Return the quantities and parameters that are a misfit, given those `before`.

    Each is one once its `excess` is above 1, until it is well below 1.
    """
    return [name for name, one in excess.items() if one > (_CLEARED if name in before else 1.0)]


def fisher_information(jacobian: Array) -> Array:
    """Return the Fisher information (P, P) of measurements with unit variance, from (n, P)."""
    return jacobian.T @ jacobian


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


def collapsed(spread: Array, remaining: Array) -> npt.NDArray[np.bool_]:
    """
    Return which parameters (P,) have a much narrower belief than the measurements justify.

    Both are fractions of the prior's standard deviation: `spread` (P,) of the belief, and
    `remaining` (P,), which the measurements leave.
    """
    return spread < _COLLAPSED * remaining


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


def unidentifiable(remaining: Array) -> npt.NDArray[np.bool_]:
    """Return which parameters (P,) measurements say next to nothing about."""
    return remaining > _UNIDENTIFIABLE


class LearnedNoise(NamedTuple):
    """
    Learned noise of N compared values.

    Attributes
    ----------
    variance : (N,) array
        Their variance, in units of the configured one.
    independent : (N,) array
        Variance of independent errors that weigh as much.
    inflation : (P,) array
        Variance of each parameter's scores, in units of what the likelihood implies.

    """

    variance: Array
    independent: Array
    inflation: Array


class BeliefMonitor:
    """
    Collects statistics of the updates of a filter.

    Attributes
    ----------
    updates : int
        Number of updates.
    diverged : int
        Number of diverged predictions.
    misfit : list of str
        Quantities whose errors the model does not explain, such as `joint_velocity`, and
        parameters that could reduce errors that persist.

    """

    def __init__(self, task: Task) -> None:
        """Create two models for each uncertain parameter."""
        self._task = task
        self._varied = np.flatnonzero(task.prior.spread > 0.0)
        count = 2 * len(self._varied)
        self._predictor = Predictor(task, count, threads=1) if count else None
        self._last: tuple[float, State] | None = None
        self.reset()

    def reset(self) -> None:
        """Discard all statistics."""
        count = len(self._task.parameters)
        self.updates = self.diverged = 0
        self.misfit: list[str] = []
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
        if self._predictor is not None:
            self._predictor.tune(task)

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active: a stage's grasp."""
        if self._predictor is not None:
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
        if self._predictor is not None:
            chain, position = divmod(self.updates, _CHAIN)
            if chain % _PERIOD == 0:
                self._add_information(
                    self._predictor, belief, position == 0, stamp, observation, commands
                )
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
            names = [parameter.name for parameter in self._task.parameters]
            inflation = persistence(names, learned.inflation)
            over = np.array([value > 1.0 for value in inflation.values()])
            self._inflated = np.where(over, self._inflated + 1, 0)
            excess |= {
                name: value
                for (name, value), updates in zip(inflation.items(), self._inflated, strict=True)
                if updates >= _PERSISTENT or name in self.misfit
            }
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
        """
        Return the parameters whose belief contradicts its prior (Evans and Moshonov 2006).

        Particles hardly leave the range of their prior. Therefore a mean in the last percent of a
        tail counts, or in the last five percent if the innovations are too large.
        """
        mean = weights.mean(belief.log_weights, belief.theta)
        limit = _WIDE_TAIL if self.innovations.excessive else _TAIL
        outside = self._task.prior.tail_probability(mean) < limit
        return [self._task.parameters[i].name for i in self._varied if outside[i]]

    def collapsed(self, belief: Belief) -> list[str]:
        """Return the parameters whose belief is much narrower than measurements justify."""
        if self.updates < _MIN_UPDATES:
            return []
        spread = self._task.prior.relative_sd(belief)[self._varied]
        narrow = collapsed(spread, self.remaining[self._varied])
        return [self._task.parameters[i].name for i in self._varied[narrow]]

    @property
    def unidentifiable(self) -> list[str]:
        """Parameters about which the measurements contain almost no information."""
        if self.updates < _MIN_UPDATES:
            return []
        unknown = unidentifiable(self.remaining)
        return [self._task.parameters[i].name for i in self._varied if unknown[i]]

    def _add_information(
        self,
        predictor: Predictor,
        belief: Belief,
        first: bool,
        stamp: float,
        observation: Observation,
        commands: Commands,
    ) -> None:
        """Add the information of models around a particle; each chain has another particle."""
        last, self._last = self._last, None
        if first:
            predictor.write(self._around(belief))
        elif last is not None and 0.0 < stamp - last[0] <= LONGEST_S:
            predicted = predictor.predict(last, stamp, commands)
            self._add_deviations(predictor.compare(predicted, observation))
            fitted = predictor.fit(observation)
            corrected = predictor.correct(predicted, observation, fitted, stamp - last[0])
            self._last = stamp, corrected
            return
        self._last = stamp, predictor.fit(observation)

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

    def _add_deviations(self, deviations: Sequence[Deviation]) -> None:
        """Add the Fisher information from the deviations of raised and lowered models."""
        values = np.concatenate([one.values for one in deviations], axis=1)
        if not np.isfinite(values).all():
            return  # a model diverged
        up, down = np.split(values, 2)
        jacobian = np.zeros((values.shape[1], len(self._task.parameters)))
        jacobian[:, self._varied] = (up - down).T / (2.0 * _STEP)
        self.information += _SCALE * fisher_information(jacobian)
