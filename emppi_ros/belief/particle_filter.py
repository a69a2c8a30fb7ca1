"""The particle filter of a task: predict with each particle, compare, reweight, resample."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.belief import blocks, gauge_freedom, information, likelihood, noise, transition
from emppi_ros.belief.belief_monitor import BeliefMonitor, LearnedNoise
from emppi_ros.belief.blocks import Statistics
from emppi_ros.belief.change_detection import ChangeDetector, DetectedChange
from emppi_ros.belief.prediction import LONGEST_S, Predictor
from emppi_ros.core import weights
from emppi_ros.core.errors import DegenerateWeightsError
from emppi_ros.model import uncertain_joints
from emppi_ros.model.ensemble import State
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices
from emppi_ros.state.commands import Commands
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
    statistics : list of Statistics
        Learned noise and information of each block of parameters.
    changes : ChangeDetector
        Detects changes of parameters; `changes.events` has the last ones.

    """

    MEMORY = ('_rng', 'belief', '_last', 'statistics', '_undrifted', 'changes')

    def __init__(self, task: Task, seed: int | np.random.Generator = 0) -> None:
        """Draw the particles from the prior; `seed` may be a generator."""
        _ = scipy.optimize  # import lazily: not in the first update
        self._task, self._config = task, task.belief
        self._rng = np.random.default_rng([seed, _STREAM] if isinstance(seed, int) else seed)
        threads = task.planner.threads
        self._predictor = Predictor(task, self._config.particles, threads, fine=True)
        self.monitor = BeliefMonitor(task)
        self._last: tuple[float, State] | None = None
        self._changing = transition.changing(task.belief.changes, task.prior)
        self._priors = [blocks.marginal(task.prior, block) for block in task.blocks]
        self._joints = uncertain_joints.uncertain(task.model, task.parameters)
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
            if len(self._task.blocks) == 1  # several blocks have no joint weights
            else particles.uniform(prior.sample(count, self._rng))
        )
        self._last = None
        self._undrifted = 0.0  # seconds since parameters drifted
        self.statistics = [blocks.start(prior, count) for prior in self._priors]
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
        typical = int(np.argmax(self.belief.log_weights))
        predicted = predictor.predict(last, stamp, commands, typical)
        deviations = predictor.compare(predicted, observation)
        errors = np.concatenate([one.values for one in deviations], axis=1)
        dofs = likelihood.dofs_of(deviations)
        values = [np.flatnonzero(np.isin(dofs, block.dofs)) for block in self._task.blocks]
        learned = self._learned_noise(values, len(dofs))
        self.monitor.add(self.belief, deviations, stamp, observation, commands, learned)
        variance = None if learned is None else learned.variance
        evidence = likelihood.log_likelihoods(
            self._config.likelihood, predicted, deviations, variance
        )
        try:
            ess, parents = self._reweight(evidence, errors, values)
        except DegenerateWeightsError:
            self._reinject()
            self._last = (stamp, observation.estimated)
            return FilterUpdate(0.0, True, True)
        corrected = predictor.correct(predicted, observation, fitted, stamp - last[0])
        if parents is not None:
            corrected = _rows(corrected, parents)
            self._redraw_joints()
        self._last = (stamp, corrected)
        # several blocks are resampled separately, so that no particle's jumps can be followed
        several = len(self._task.blocks) > 1
        changes = () if several else self.changes.update(stamp, self.belief)
        if changes:
            names = [parameter.name for parameter in self._task.parameters]
            changed = [names.index(one.parameter) for one in changes]
            self.belief, self.statistics[0] = blocks.follow_change(
                self._priors[0], self.belief, self.statistics[0], changed, self._rng
            )
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
            self.statistics = [
                blocks.jump(*pair, jumps)
                for pair in zip(self._priors, self.statistics, strict=True)
            ]
            if state.qpos.ndim > 1:
                state = State(state.qpos.copy(), state.qvel.copy())
                for values in state:
                    values[jumps.rows] = values[jumps.origins]
        self._undrifted += elapsed
        if config.drift_s is not None and self._undrifted >= _DRIFT_INTERVAL_S:
            self.belief = transition.drift(
                config, prior, columns, self.belief, self._undrifted, self._rng
            )
            share = self._undrifted / config.drift_s
            self.statistics = [
                blocks.drift(*pair, columns, share)
                for pair in zip(self._priors, self.statistics, strict=True)
            ]
            self._undrifted = 0.0
        return state

    def _learned_noise(self, values: Sequence[Indices], count: int) -> LearnedNoise | None:
        """
        Return the learned noise of `count` values; None if the scale is fixed.

        `values` are those that weight each block.
        """
        if self._config.likelihood.scale == 'fixed':
            return None
        variance, independent = np.ones(count), np.ones(count)
        inflation = np.ones(len(self._task.parameters))
        for i, chosen in enumerate(values):
            scale, fisher = self.statistics[i]
            if scale is None or len(scale.variance) != len(chosen):
                scale = noise.start(len(chosen), fisher.shape[1])
                self.statistics[i] = Statistics(scale, fisher)
            variance[chosen] = scale.variance
            independent[chosen] = scale.variance / scale.power
            inflation[self._priors[i].uncertain] = scale.inflation
        return LearnedNoise(variance, independent, inflation)

    def _reweight(
        self, evidence: Array, errors: Array, values: Sequence[Indices]
    ) -> tuple[float, Indices | None]:
        """
        Update each block with the log-likelihoods (M, nv) of its degrees of freedom.

        Return the smallest effective sample size, and the parents of resampled particles.
        """
        several = len(self._task.blocks) > 1
        results = []
        for block, prior, chosen, statistics in zip(
            self._task.blocks, self._priors, values, self.statistics, strict=True
        ):
            theta = self.belief.theta[:, prior.columns]
            results.append(
                blocks.update(
                    self._config.resampling,
                    self._config.likelihood.learned_dof,
                    prior,
                    Belief(theta, self.belief.log_weights),
                    evidence.take(block.dofs, axis=1).sum(axis=1),
                    errors.take(chosen, axis=1),
                    statistics,
                    self._rng,
                    always=several,
                )
            )
        self.statistics = [one.statistics for one in results]
        ess = min(one.ess for one in results)
        if several:
            theta = self.belief.theta.copy()
            for prior, one in zip(self._priors, results, strict=True):
                theta[:, prior.columns] = one.belief.theta
            self.belief = particles.uniform(theta)
            return ess, np.arange(len(theta))  # each particle keeps its state
        self.belief, parents = results[0].belief, results[0].parents
        if parents is not None:
            self.changes.resample(parents)
        return ess, parents

    def _redraw_joints(self) -> None:
        """Draw those parts of joint parameters that have no effect from their prior again."""
        if self._config.likelihood.scale == 'fixed':
            return  # the filter of the paper
        task, prior, theta = self._task, self._task.prior, self.belief.theta
        for joint in self._joints:
            if gauge_freedom.is_free(prior, joint.axis):
                theta = gauge_freedom.redraw_length(prior, joint.axis, theta, self._rng)
            if joint.choice is None and gauge_freedom.is_free(prior, joint.pivot):
                axes, _, hinge = uncertain_joints.motion(task.model, task.parameters, joint, theta)
                theta = gauge_freedom.redraw_pivot(
                    prior, joint.pivot, theta, axes, hinge, self._rng
                )
        self.belief = Belief(theta, self.belief.log_weights)

    def _reinject(self) -> None:
        """Draw every other particle from the prior; an outlier costs only half of the belief."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        for prior, statistics in zip(self._priors, self.statistics, strict=True):
            fresh = information.start(prior.spread, len(theta[rows]))
            statistics.information[rows] = fresh
        self.belief = particles.uniform(theta)


def _rows(state: State, rows: Indices) -> State:
    """Return the states of some particles."""
    return State(state.qpos[rows], state.qvel[rows])
