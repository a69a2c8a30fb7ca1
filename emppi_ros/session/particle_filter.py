"""The particle filter of a task: predict with each particle, compare, reweight, resample."""

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
from emppi_ros.session.commands import Commands
from emppi_ros.session.prediction import LONGEST_S, Predictor
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_STREAM = 2  # of random numbers, beside the seed


class FilterUpdate(NamedTuple):
    """
    The result of a belief update, for diagnostics.

    Attributes
    ----------
    ess : float
        Effective sample size before resampling.
    resampled : bool
        Whether the particles were resampled.
    reinjected : bool
        Whether no particle explained the data: half of them come from the prior again.

    """

    ess: float
    resampled: bool
    reinjected: bool


class ParticleFilter:
    """
    Updates a belief about the parameters of a task with measurements.

    Attributes
    ----------
    belief : Belief
        The current belief.

    """

    MEMORY = ('_rng', 'belief', '_last')

    def __init__(self, task: Task, seed: int | np.random.Generator = 0) -> None:
        """Draw the particles from the prior; `seed` may be a generator."""
        _ = scipy.optimize  # import lazily: not in the first update
        self._task, self._config = task, task.belief
        self._rng = np.random.default_rng([seed, _STREAM] if isinstance(seed, int) else seed)
        threads = task.planner.threads
        self._predictor = Predictor(task, self._config.particles, threads)
        self.monitor = BeliefMonitor(task)
        self._last: tuple[float, State] | None = None
        self.reset()

    def tune(self, task: Task) -> None:
        """Use the tuned parameters of the same task; keep the belief."""
        self._task, self._config = task, task.belief
        self._predictor.tune(task)
        self.monitor.tune(task)

    def reset(self) -> None:
        """Draw the particles from the prior again."""
        self.monitor.reset()
        prior, count = self._task.prior, self._config.particles
        self.belief: Belief = (
            prior.initial_belief(count, self._rng)
            if not self._task.blocks  # blocks have no joint weights
            else particles.uniform(prior.sample(count, self._rng))
        )
        self._last = None

    def restart(self) -> None:
        """Start again from the next measurement, as after a jump; keep the belief."""
        self._last = None
        self.monitor.restart()

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active: a stage's grasp."""
        self._predictor.activate(equalities)
        self.monitor.activate(equalities)

    def observe(
        self, stamp: float, observation: Observation, commands: Commands
    ) -> FilterUpdate | None:
        """
        Update the belief with measurements of time `stamp`; the first call only initializes.

        Parameters
        ----------
        stamp : float
            Time of the measurements [s].
        observation : Observation
            Measurements of that time, and the estimated state.
        commands : Commands
            Applied commands over time.

        Returns
        -------
        FilterUpdate or None
            None without a prediction to compare: in the first call, or after a gap.

        """
        predictor = self._predictor
        predictor.write(self.belief.theta)
        last, fitted = self._last, predictor.fit(observation)
        self._last = (stamp, fitted)
        if last is None or not 0.0 < stamp - last[0] <= LONGEST_S:
            self.monitor.restart()
            return None
        if not self._task.parameters:
            return None
        predicted = predictor.predict(last, stamp, commands)
        deviations = predictor.compare(predicted, observation)
        self.monitor.add(self.belief, deviations, stamp, observation, commands)
        evidence = likelihood.log_likelihoods(self._config.likelihood, predicted, deviations)
        try:
            ess, parents = self._reweight(evidence)
        except DegenerateWeightsError:
            self._reinject()
            self._last = (stamp, observation.estimated)
            return FilterUpdate(0.0, True, True)
        corrected = predictor.correct(predicted, observation, fitted, stamp - last[0])
        if parents is not None:
            corrected = State(corrected.qpos[parents], corrected.qvel[parents])
        self._last = (stamp, corrected)
        return FilterUpdate(ess, parents is not None, False)

    def _reweight(self, evidence: Array) -> tuple[float, Indices | None]:
        """Apply log-likelihoods (M, nv) of the degrees of freedom; return ESS and parents."""
        settings, parameters = self._config.resampling, self._task.parameters
        if self._task.blocks:
            theta, ess = blocks.update(
                settings, parameters, self._task.blocks, self.belief.theta, evidence, self._rng
            )
            self.belief = particles.uniform(theta)
            return ess, np.arange(len(theta))  # each particle keeps its state
        belief = particles.update(settings, self.belief, evidence.sum(axis=1))
        ess = weights.effective_sample_size(belief.log_weights)
        self.belief, parents = particles.resample(settings, parameters, belief, self._rng)
        return ess, parents

    def _reinject(self) -> None:
        """Draw every other particle from the prior; an outlier costs only half of the belief."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        self.belief = particles.uniform(theta)
