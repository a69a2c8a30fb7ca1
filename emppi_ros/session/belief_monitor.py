"""
How a belief is doing: innovations, and what measurements say about each parameter.

It looks on: nothing that is believed or planned depends on it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import diagnostics
from emppi_ros.belief.diagnostics import InnovationStatistics, normalized_innovations
from emppi_ros.belief.distributions import to_bounded, to_unbounded
from emppi_ros.belief.likelihood import Deviation
from emppi_ros.belief.particles import Belief
from emppi_ros.core import weights
from emppi_ros.model.ensemble import State
from emppi_ros.session.planner import Commands
from emppi_ros.session.prediction import LONGEST_S, Prediction
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_CHAIN = 20  # updates that models go on from their own predictions, as particles do
_PAUSE = 3  # one chain in so many: a third of the cost
_SHARE = _PAUSE * _CHAIN / (_CHAIN - 1)  # updates for each of a chain but its first
_ENOUGH = 100  # updates before a parameter is said to be unidentifiable
_TAIL, _LIKELY = 0.01, 0.05  # of a prior, at either end
_STEP = 0.5  # of the prior's standard deviation, up and down: far enough to feel contacts
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)  # spreads chains evenly over the particles


class BeliefMonitor:
    """Counts what a filter goes through; `reset` begins again."""

    def __init__(self, task: Task) -> None:
        """Make two models for each parameter that is not certain."""
        self._task = task
        self._varied = np.flatnonzero(task.prior.spread > 0.0)
        count = 2 * len(self._varied)
        self._prediction = Prediction(task, count, threads=1) if count else None
        self._last: tuple[float, State] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all of it."""
        count = len(self._task.parameters)
        self.updates = self.diverged = 0
        self.innovations = InnovationStatistics()
        self.information = np.zeros((count, count))
        self.restart()

    def restart(self) -> None:
        """Start from the next measurement, as after something was moved."""
        self._last = None

    def tune(self, task: Task) -> None:
        """Go on with a task that differs in numbers alone."""
        self._task = task
        if self._prediction is not None:
            self._prediction.tune(task)

    def hold(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints in force."""
        if self._prediction is not None:
            self._prediction.hold(equalities)

    def note(
        self,
        belief: Belief,
        found: Sequence[Deviation],
        stamp: float,
        moment: Observation,
        commands: Commands,
    ) -> None:
        """Take an update of a belief (as it was before), and what its particles predicted."""
        self.innovations.add(normalized_innovations(belief.log_weights, found))
        broken = [~np.isfinite(one.values).all(axis=1) for one in found]
        self.diverged += int(np.any(broken, axis=0).sum()) if broken else 0
        if self._prediction is not None:
            chain, place = divmod(self.updates, _CHAIN)
            if chain % _PAUSE == 0:
                self._look(self._prediction, belief, place == 0, stamp, moment, commands)
        self.updates += 1

    @property
    def remaining(self) -> Array:
        """Which share (P,) of each prior's standard deviation measurements leave; 1: all."""
        shares = np.ones(len(self._task.parameters))
        rows = np.ix_(self._varied, self._varied)
        prior = self._task.prior.correlation[rows]
        shares[self._varied] = diagnostics.remaining_sd(self.information[rows], prior)
        return shares

    def out_of_prior(self, belief: Belief) -> list[str]:
        """
        Return the parameters whose belief contradicts its prior (Evans and Moshonov 2006).

        Particles do not go far beyond their prior: a mean in its last percent is as much as they
        can say, in its last five percent where they do not explain what was measured.
        """
        mean = weights.mean(belief.log_weights, belief.theta)
        limit = _LIKELY if self.innovations.excessive else _TAIL
        far = self._task.prior.tail_probability(mean) < limit
        return [self._task.parameters[i].name for i in self._varied if far[i]]

    @property
    def unidentifiable(self) -> list[str]:
        """The parameters that measurements say next to nothing about, once there are enough."""
        if self.updates < _ENOUGH:
            return []
        unknown = diagnostics.unidentifiable(self.remaining)
        return [self._task.parameters[i].name for i in self._varied if unknown[i]]

    def _look(
        self,
        prediction: Prediction,
        belief: Belief,
        begins: bool,
        stamp: float,
        moment: Observation,
        commands: Commands,
    ) -> None:
        """Add what models around a particle say apart; a chain begins with another particle."""
        last, self._last = self._last, None
        if begins:
            prediction.write(self._around(belief))
        elif last is not None and 0.0 < stamp - last[0] <= LONGEST_S:
            predicted = prediction.predict(last, stamp, commands)
            self._inform(prediction.compare(predicted, moment))
            fitted = prediction.fit(moment)
            corrected = prediction.correct(predicted, moment, fitted, stamp - last[0])
            self._last = stamp, corrected
            return
        self._last = stamp, prediction.fit(moment)

    def _around(self, belief: Belief) -> Array:
        """Return a particle with each parameter moved up (n, P), then down (n, P)."""
        parameters, spread = self._task.parameters, self._task.prior.spread
        share = (0.5 + self.updates // _CHAIN * _GOLDEN) % 1.0
        cumulative = np.cumsum(np.exp(belief.log_weights))
        chosen = min(np.searchsorted(cumulative, share * cumulative[-1]), len(cumulative) - 1)
        z = np.repeat(
            to_unbounded(parameters, belief.theta[chosen : chosen + 1]),
            2 * len(self._varied),
            axis=0,
        )
        rows, steps = np.arange(len(self._varied)), _STEP * spread[self._varied]
        z[rows, self._varied] += steps
        z[rows + len(rows), self._varied] -= steps
        return to_bounded(parameters, z)

    def _inform(self, found: Sequence[Deviation]) -> None:
        """Add what the models' predictions differ in."""
        values = np.concatenate([one.values for one in found], axis=1)
        if not np.isfinite(values).all():
            return  # one diverged: nobody knows
        up, down = np.split(values, 2)
        jacobian = np.zeros((values.shape[1], len(self._task.parameters)))
        jacobian[:, self._varied] = (up - down).T / (2.0 * _STEP)
        self.information += _SHARE * diagnostics.fisher_information(jacobian)
