"""One belief cycle of a task: predict with every particle, compare, reweight, resample."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.belief import blocks, likelihood, particles
from emppi_ros.belief.particles import Belief
from emppi_ros.belief.resampling import Indices
from emppi_ros.core import weights
from emppi_ros.core.errors import DegenerateWeightsError
from emppi_ros.model.ensemble import State
from emppi_ros.session.belief_monitor import BeliefMonitor
from emppi_ros.session.planner import Commands
from emppi_ros.session.prediction import LONGEST_S, Prediction
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_STREAM = 2  # of random numbers, beside the seed


class Update(NamedTuple):
    """What a belief cycle did, for diagnostics."""

    ess: float  # effective sample size before resampling
    resampled: bool
    reinjected: bool  # no particle explained it: half of them are from the prior again


class ParticleFilter:
    """Keeps a belief about a task's parameters up to date with measurements."""

    MEMORY = ('_rng', 'belief', '_last')

    def __init__(self, task: Task, seed: int | np.random.Generator = 0) -> None:
        """Draw the particles from the prior; `seed` may be a generator."""
        _ = scipy.optimize, scipy.stats  # are loaded when first named: not within an update
        self._task, self._config = task, task.belief
        self._rng = np.random.default_rng([seed, _STREAM] if isinstance(seed, int) else seed)
        threads = task.planner.threads
        self._prediction = Prediction(task, self._config.particles, threads)
        self.monitor = BeliefMonitor(task)
        self._last: tuple[float, State] | None = None
        self.reset()

    def tune(self, task: Task) -> None:
        """Go on with a task that differs in numbers alone; what was learned is kept."""
        self._task, self._config = task, task.belief
        self._prediction.tune(task)
        self.monitor.tune(task)

    def reset(self) -> None:
        """Forget all that was learned: particles from the prior again."""
        self.monitor.reset()
        prior, count = self._task.prior, self._config.particles
        self.belief: Belief = (
            prior.initial_belief(count, self._rng)
            if not self._task.blocks  # which weigh nothing together
            else particles.uniform(prior.sample(count, self._rng))
        )
        self._last = None

    def restart(self) -> None:
        """Keep the belief, but start from the next measurement, as after something was moved."""
        self._last = None
        self.monitor.restart()

    def hold(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints in force: a stage's grasp."""
        self._prediction.hold(equalities)
        self.monitor.hold(equalities)

    def observe(self, stamp: float, moment: Observation, commands: Commands) -> Update | None:
        """
        Update the belief with what was measured at `stamp`; the first call only starts.

        Parameters
        ----------
        stamp : float
            Time of the measurement.
        moment : Observation
            What sensors said at that time, and the best estimate, from which the next
            prediction starts.
        commands : callable
            Times (n,) to the commands that were really applied (n, joints).

        Returns
        -------
        Update or None
            None if there was nothing to compare with: the first call, or after a gap.

        """
        prediction = self._prediction
        prediction.write(self.belief.theta)
        last, fitted = self._last, prediction.fit(moment)
        self._last = (stamp, fitted)
        if last is None or not 0.0 < stamp - last[0] <= LONGEST_S:
            self.monitor.restart()
            return None
        if not self._task.parameters:
            return None
        predicted = prediction.predict(last, stamp, commands)
        found = prediction.compare(predicted, moment)
        self.monitor.note(self.belief, found, stamp, moment, commands)
        evidence = likelihood.log_likelihoods(self._config.likelihood, predicted, found)
        try:
            ess, parents = self._update(evidence)
        except DegenerateWeightsError:
            self._reinject()
            self._last = (stamp, moment.estimated)
            return Update(0.0, True, True)
        corrected = prediction.correct(predicted, moment, fitted, stamp - last[0])
        if parents is not None:
            corrected = State(corrected.qpos[parents], corrected.qvel[parents])
        self._last = (stamp, corrected)
        return Update(ess, parents is not None, False)

    def _update(self, evidence: Array) -> tuple[float, Indices | None]:
        """Take what each degree of freedom says (M, nv); return sample size and parents."""
        settings, parameters = self._config.resampling, self._task.parameters
        if self._task.blocks:
            theta, ess = blocks.update(
                settings, parameters, self._task.blocks, self.belief.theta, evidence, self._rng
            )
            self.belief = particles.uniform(theta)
            return ess, np.arange(len(theta))  # each goes on from where it was
        belief = particles.update(settings, self.belief, evidence.sum(axis=1))
        ess = weights.effective_sample_size(belief.log_weights)
        self.belief, parents = particles.resample(settings, parameters, belief, self._rng)
        return ess, parents

    def _reinject(self) -> None:
        """Draw every other particle from the prior again; one wrong measurement costs but half."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        self.belief = particles.uniform(theta)
