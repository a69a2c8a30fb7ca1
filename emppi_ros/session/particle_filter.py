"""The particle filter of a task: predict with each particle, compare, reweight, resample."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.belief import blocks, information, likelihood, noise, particles, transition
from emppi_ros.belief.change_detection import ChangeDetector, DetectedChange
from emppi_ros.belief.distributions import to_bounded, to_unbounded
from emppi_ros.belief.noise import NoiseScale
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
_DRIFT_INTERVAL_S = 0.2  # models must be written again after each drift


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
    changes : sequence of DetectedChange
        Changes of parameters that the belief shows for the first time.

    """

    ess: float
    resampled: bool
    reinjected: bool
    changes: Sequence[DetectedChange] = ()


class ParticleFilter:
    """
    Updates a belief about the parameters of a task with measurements.

    Attributes
    ----------
    belief : Belief
        The current belief.
    changes : ChangeDetector
        Detects changes of parameters; `changes.events` has the last ones.

    """

    MEMORY = ('_rng', 'belief', '_last', 'noise', '_information', '_undrifted', 'changes')

    def __init__(self, task: Task, seed: int | np.random.Generator = 0) -> None:
        """Draw the particles from the prior; `seed` may be a generator."""
        _ = scipy.optimize  # import lazily: not in the first update
        self._task, self._config = task, task.belief
        self._rng = np.random.default_rng([seed, _STREAM] if isinstance(seed, int) else seed)
        threads = task.planner.threads
        self._predictor = Predictor(task, self._config.particles, threads)
        self.monitor = BeliefMonitor(task)
        self._last: tuple[float, State] | None = None
        self._changing = transition.changing(task.belief.changes, task.prior)
        self._uncertain = np.flatnonzero(task.prior.spread > 0.0)
        self._spread = task.prior.spread[self._uncertain]
        names = [parameter.name for parameter in task.parameters]
        self.changes = ChangeDetector(names, self._config.particles)
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
        self._undrifted = 0.0  # seconds since parameters drifted
        self.noise: NoiseScale | None = None
        self._information = information.start(self._spread, count)
        self.changes.reset(count)

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
        last, self._last = self._last, None
        if last is not None and 0.0 < stamp - last[0]:
            last = (last[0], self._propagate(stamp - last[0], last[1]))
        predictor.write(self.belief.theta)
        fitted = predictor.fit(observation)
        self._last = (stamp, fitted)
        if last is None or not 0.0 < stamp - last[0] <= LONGEST_S:
            self.monitor.restart()
            return None
        if not self._task.parameters:
            return None
        predicted = predictor.predict(last, stamp, commands)
        deviations = predictor.compare(predicted, observation)
        self.monitor.add(self.belief, deviations, stamp, observation, commands, self.noise)
        errors = np.concatenate([one.values for one in deviations], axis=1)
        config = self._config.likelihood
        if config.scale == 'learned' and (
            self.noise is None or len(self.noise.variance) != errors.shape[1]
        ):
            self.noise = noise.start(errors.shape[1], len(self._uncertain))
        evidence = likelihood.log_likelihoods(config, predicted, deviations, self.noise)
        try:
            ess, parents = self._reweight(evidence, errors)
        except DegenerateWeightsError:
            self._reinject()
            self._last = (stamp, observation.estimated)
            return FilterUpdate(0.0, True, True)
        corrected = predictor.correct(predicted, observation, fitted, stamp - last[0])
        if parents is not None:
            corrected = _rows(corrected, parents)
        self._last = (stamp, corrected)
        # blocks resample their parameters separately, so that no jump can be followed
        changes = () if self._task.blocks else self.changes.update(stamp, self.belief)
        return FilterUpdate(ess, parents is not None, False, changes)

    def _propagate(self, elapsed: float, state: State) -> State:
        """Let parameters change for `elapsed` [s]; return the state of each particle."""
        config, prior, columns = self._config.changes, self._task.prior, self._changing
        if config is None or not len(columns):
            return state
        mean = weights.mean(self.belief.log_weights, self.belief.theta)
        self.belief, jumps = transition.jump(
            config, prior, columns, self.belief, elapsed, self._rng
        )
        self.changes.jump(jumps, elapsed, mean)
        if len(jumps.rows):
            among = np.searchsorted(self._uncertain, jumps.columns)
            before = self._information[jumps.origins]
            self._information[jumps.rows] = information.jump(before, among, self._spread)
            if state.qpos.ndim > 1:
                state = State(state.qpos.copy(), state.qvel.copy())
                for values in state:
                    values[jumps.rows] = values[jumps.origins]
        self._undrifted += elapsed
        if config.drift_s is not None and self._undrifted >= _DRIFT_INTERVAL_S:
            self.belief = transition.drift(
                config, prior, columns, self.belief, self._undrifted, self._rng
            )
            variance = np.isin(self._uncertain, columns) * self._spread**2
            self._information = information.drift(
                self._information, self._undrifted / config.drift_s * variance
            )
            self._undrifted = 0.0
        return state

    def _reweight(self, evidence: Array, errors: Array) -> tuple[float, Indices | None]:
        """
        Apply log-likelihoods (M, nv) of the degrees of freedom, then learn the noise.

        Return the effective sample size and the parents of resampled particles.
        """
        settings, parameters = self._config.resampling, self._task.parameters
        if self._task.blocks:
            theta, ess = blocks.update(
                settings, parameters, self._task.blocks, self.belief, evidence, self._rng
            )
            self.belief = particles.uniform(theta)
            return ess, np.arange(len(theta))  # each particle keeps its state
        belief, power = particles.update(settings, self.belief, evidence.sum(axis=1))
        ess = weights.effective_sample_size(belief.log_weights)
        if self.noise is not None:
            dof = self._config.likelihood.learned_dof
            z = to_unbounded(parameters, belief.theta)[:, self._uncertain]
            precision = noise.precision(self.noise, dof, belief.log_weights, errors)
            jacobian = information.sensitivity(
                self.belief.log_weights, z, errors, precision, self._spread
            )
            power *= self.noise.power
            self._information = information.add(self._information, jacobian, power * precision)
            self.noise = noise.update(
                self.noise, dof, belief.log_weights, errors, jacobian, self._spread
            )
        self.belief, parents = particles.resample(settings, parameters, belief, self._rng)
        if parents is not None:
            self.changes.resample(parents)
            self._information = self._information[parents]
            if self.noise is not None:
                self._spread_out(weights.covariance(belief.log_weights, z))
        return ess, parents

    def _spread_out(self, covariance: Array) -> None:
        """Raise a covariance of the particles, (U, U), to that of the posterior."""
        log_weights = self.belief.log_weights
        floor = information.covariance(log_weights, self._information)
        added = information.missing(covariance, floor)
        z = to_unbounded(self._task.parameters, self.belief.theta)
        center = self._task.prior.center[self._uncertain]
        z[:, self._uncertain] = information.diffuse(
            z[:, self._uncertain], added, center, self._spread, self._rng
        )
        self.belief = Belief(to_bounded(self._task.parameters, z), log_weights)

    def _reinject(self) -> None:
        """Draw every other particle from the prior; an outlier costs only half of the belief."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        self._information[rows] = information.start(self._spread, len(theta[rows]))
        self.belief = particles.uniform(theta)


def _rows(state: State, rows: Indices) -> State:
    """Return the states of some particles."""
    return State(state.qpos[rows], state.qvel[rows])
