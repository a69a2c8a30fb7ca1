"""
Diagnostics of a belief: innovations, divergence, and the information about each parameter.

The monitor does not affect the belief or the plans.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import diagnostics
from emppi_ros.belief.diagnostics import InnovationStatistics, normalized_innovations
from emppi_ros.belief.likelihood import Deviation
from emppi_ros.belief.prediction import LONGEST_S, Predictor
from emppi_ros.core import weights
from emppi_ros.model.ensemble import State
from emppi_ros.priors.distributions import to_bounded, to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.state.commands import Commands
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_CHAIN = 20  # updates in which models start from their own predictions, as particles do
_PERIOD = 3  # evaluate one chain out of three, for a third of the cost
# updates per evaluated one; the first of a chain has no prediction to evaluate
_SCALE = _PERIOD * _CHAIN / (_CHAIN - 1)
_MIN_UPDATES = 100  # before a parameter is reported as unidentifiable or collapsed
_MIN_FIT_UPDATES, _MIN_FIT_S = 25, 1.0  # before errors are reported as a misfit
_PERSISTENT = 12  # successive updates with correlated errors: a jump correlates fewer
_TAIL, _WIDE_TAIL = 0.01, 0.05  # probabilities, at either end of a prior
_STEP = 0.5  # of the prior's standard deviation, up and down: enough to change contacts
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)  # spreads the chains evenly over the particles


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
            excess = diagnostics.learned_excess(deviations, learned.independent)
            names = [parameter.name for parameter in self._task.parameters]
            inflation = diagnostics.persistence(names, learned.inflation)
            over = np.array([value > 1.0 for value in inflation.values()])
            self._inflated = np.where(over, self._inflated + 1, 0)
            excess |= {
                name: value
                for (name, value), updates in zip(inflation.items(), self._inflated, strict=True)
                if updates >= _PERSISTENT or name in self.misfit
            }
        self.misfit = diagnostics.misfit(excess, self.misfit)

    @property
    def remaining(self) -> Array:
        """Remaining fraction (P,) of each prior standard deviation; 1 means no information."""
        fractions = np.ones(len(self._task.parameters))
        rows = np.ix_(self._varied, self._varied)
        prior = self._task.prior.correlation[rows]
        fractions[self._varied] = diagnostics.remaining_sd(self.information[rows], prior)
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
        narrow = diagnostics.collapsed(spread, self.remaining[self._varied])
        return [self._task.parameters[i].name for i in self._varied[narrow]]

    @property
    def unidentifiable(self) -> list[str]:
        """Parameters about which the measurements contain almost no information."""
        if self.updates < _MIN_UPDATES:
            return []
        unknown = diagnostics.unidentifiable(self.remaining)
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
        self.information += _SCALE * diagnostics.fisher_information(jacobian)
