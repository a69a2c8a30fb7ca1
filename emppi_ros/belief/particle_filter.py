"""
The particle filter of a task: prediction, eq. 10 and resampling, as in docs/method.md.

The time update lets parameters jump and drift. The measurement update predicts with each
particle, weighs it by the errors of the last updates, learns their noise, corrects the states,
resamples, and draws again what no measurement contains.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from emppi_ros.belief import (
    blocks,
    changes,
    gauge_freedom,
    information,
    measurement_model,
    noise,
)
from emppi_ros.belief.belief_monitor import BeliefMonitor, Judgement
from emppi_ros.belief.blocks import Statistics
from emppi_ros.belief.changes import ChangeDetector, DetectedChange
from emppi_ros.belief.measurement_model import LONGEST_S, Deviation, LearnedNoise, Predictor
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import DegenerateWeightsError
from emppi_ros.model import uncertain_joints
from emppi_ros.model.ensemble import State
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands
from emppi_ros.tasks.schema import ChangeConfig
from emppi_ros.tasks.task import Task

_STREAM = 2  # of random numbers, beside the seed
_RECONSIDERED_S = 0.5  # from the detection of a change until its cause is reconsidered
_DRIFT_INTERVAL_S = 0.2  # models must be written again after each drift


class FilterUpdate(NamedTuple):
    """The result of a belief update, for diagnostics."""

    ess: float  #: effective sample size before resampling
    resampled: bool  #: whether the particles were resampled
    reinjected: bool  #: no particle explained the data: half of them are from the prior again
    changes: Sequence[DetectedChange] = ()  #: that the belief shows for the first time


class ParticleFilter:
    """Updates a belief about the parameters of a task with measurements."""

    belief: Belief  #: the current belief
    statistics: list[Statistics]  #: learned noise and information of each block of parameters
    changes: ChangeDetector  #: detects changes of parameters; `changes.events` has the last ones

    MEMORY = ('_rng', 'belief', '_last', '_recent', 'statistics', '_undrifted', 'changes')

    def __init__(self, task: Task, seed: int | np.random.Generator = 0) -> None:
        """Draw the particles from the prior; `seed` may be a generator."""
        _ = scipy.optimize  # import lazily: not in the first update
        self._task, self._config = task, task.belief
        self._rng = np.random.default_rng([seed, _STREAM] if isinstance(seed, int) else seed)
        threads = task.planner.threads
        self._predictor = Predictor(task, self._config.particles, threads, fine=True)
        self.monitor = BeliefMonitor(task)
        self._last: tuple[float, State] | None = None
        self._recent: Array | None = None  # errors of the last updates
        self._changing = changes.changing(task.belief.changes, task.prior)
        self._priors = [blocks.marginal(task.prior, block) for block in task.blocks]
        self._joints = uncertain_joints.uncertain(task.model, task.parameters)
        self._names = [parameter.name for parameter in task.parameters]
        self.changes = ChangeDetector(self._names, self._config.particles)
        # several blocks have no joint weights: they are resampled separately, at every update
        self._several = len(task.blocks) > 1
        self.reset()

    def tune(self, task: Task) -> None:
        """Use the tuned parameters of the same task; keep the belief."""
        self._task, self._config = task, task.belief
        self._predictor.tune(task)

    def reset(self) -> None:
        """Draw the particles from the prior again."""
        self.monitor.reset()
        prior, count = self._task.prior, self._config.particles
        self.belief = (
            particles.uniform(prior.sample(count, self._rng))
            if self._several
            else prior.initial_belief(count, self._rng)
        )
        self._last = self._recent = None
        self._undrifted = 0.0  # seconds since parameters drifted
        self.statistics = [blocks.start(prior, count) for prior in self._priors]
        self.changes.reset(count)

    def restart(self) -> None:
        """Start again from the next measurement, as after a jump; keep the belief."""
        self._last = self._recent = None

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active: a stage's grasp."""
        self._predictor.activate(equalities)

    def observe(
        self, stamp: float, observation: Observation, commands: Commands
    ) -> FilterUpdate | None:
        """
        Update the belief with measurements of time `stamp` [s]; the first call only initializes.

        `commands` are the applied ones over time. None without a prediction to compare: in the
        first call, or after a gap.
        """
        begin, state = self._last or (stamp, observation.estimated)
        self._last, elapsed = None, stamp - begin
        if elapsed > 0.0 and self._config.changes is not None and len(self._changing):
            state = self._change(self._config.changes, elapsed, state)
        self._predictor.write(self.belief.theta)
        fitted = self._predictor.fit(observation)
        self._last = stamp, fitted
        if not 0.0 < elapsed <= LONGEST_S:
            self._recent = None
            return None
        if not self._task.parameters:
            return None
        typical = int(np.argmax(self.belief.log_weights))
        predicted = self._predictor.predict((begin, state), stamp, commands, typical)
        deviations = self._predictor.compare(predicted, observation)
        learned = self._learned_noise(deviations)
        self.monitor.add(self.belief, deviations, stamp, learned)
        deviations, self._recent = noise.sum_window(deviations, self._window, self._recent)
        try:
            weighted = self._reweight(predicted, deviations, learned)
        except DegenerateWeightsError:
            self._reinject()
            self._last, self._recent = (stamp, observation.estimated), None
            return FilterUpdate(0.0, True, True)
        self._learn(deviations, weighted)
        state = self._predictor.correct(predicted, observation, fitted, elapsed)
        parents = self._resample(weighted)
        if parents is not None:  # particles take their states with them
            state = State(*(values[parents] for values in state))
            self.changes.resample(parents)
            if self._recent is not None:
                self._recent = self._recent[:, parents]
            if learned is not None and self._joints:
                theta = gauge_freedom.redraw(
                    self._task, self._joints, self.belief.theta, self._rng
                )
                self.belief = Belief(theta, self.belief.log_weights)
        self._last = (stamp, state)
        changed = [] if self._several else self._follow_changes(begin, stamp)
        ess = min(weights.effective_sample_size(belief.log_weights) for belief, _ in weighted)
        return FilterUpdate(ess, parents is not None, False, changed)

    @property
    def judgement(self) -> Judgement:
        """What the belief knows about each parameter, and where it is in doubt."""
        remaining = np.ones(len(self._names))
        for prior, statistics in zip(self._priors, self.statistics, strict=True):
            covariance = information.covariance(self.belief.log_weights, statistics.information)
            remaining[prior.uncertain] = np.sqrt(np.diag(covariance)) / prior.spread
        return self.monitor.judge(self.belief, remaining)

    def _change(self, config: ChangeConfig, elapsed: float, state: State) -> State:
        """Let parameters of some particles jump, and once in a while all drift."""
        prior, columns = self._task.prior, self._changing
        mean = weights.mean(self.belief.log_weights, self.belief.theta)
        theta = self.belief.theta
        # blocks exchange particles, so that it is not known from where a value jumped
        undone = theta if self._several else self.changes.undone(theta)
        self.belief, jumps = changes.jump(
            config, prior, columns, self.belief, elapsed, self._rng, undone
        )
        self.changes.jump(jumps, elapsed, mean)
        if len(jumps.rows):
            self.statistics = [
                blocks.jump(*pair, jumps)
                for pair in zip(self._priors, self.statistics, strict=True)
            ]
            if self._recent is not None:
                self._recent = noise.forget_parents(self._recent, jumps.rows)
            if state.qpos.ndim > 1:
                parents = np.arange(len(state.qpos))
                parents[jumps.rows] = jumps.origins
                state = State(*(values[parents] for values in state))
        self._undrifted += elapsed
        if config.drift_s is not None and self._undrifted >= _DRIFT_INTERVAL_S:
            share = self._undrifted / config.drift_s
            self.belief = changes.drift(prior, columns, self.belief, share, self._rng)
            self.statistics = [
                blocks.drift(*pair, columns, share)
                for pair in zip(self._priors, self.statistics, strict=True)
            ]
            self._undrifted = 0.0
        return state

    @property
    def _window(self) -> int:
        """Updates whose errors are summed; blocks exchange particles between any two."""
        return 1 if self._several else self._config.window

    def _learned_noise(self, deviations: Sequence[Deviation]) -> LearnedNoise | None:
        """Return the noise of all values, learned so far; None if it is fixed."""
        if self._config.likelihood.scale != 'learned':
            return None
        count = sum(deviation.values.shape[1] for deviation in deviations)
        learned = LearnedNoise(*np.ones((3, count)))
        for i, chosen in enumerate(self._values_by_block(deviations)):
            scale, fisher, _ = self.statistics[i]
            if scale is None or len(scale.variance) != len(chosen):
                scale = noise.start(len(chosen), fisher.shape[1], self._window)
                self.statistics[i] = self.statistics[i]._replace(noise=scale)
            learned.variance[chosen] = scale.variance
            learned.power[chosen] = scale.power
            learned.persistent[chosen] = scale.persistent
        return learned

    def _values_by_block(self, deviations: Sequence[Deviation]) -> list[Indices]:
        """Return the indices of the values that weigh each block."""
        dofs = np.concatenate([np.broadcast_to(d.dofs, d.values.shape[1]) for d in deviations])
        return [np.flatnonzero(np.isin(dofs, prior.dofs)) for prior in self._priors]

    def _reweight(
        self, predicted: State, deviations: Sequence[Deviation], learned: LearnedNoise | None
    ) -> list[tuple[Belief, float]]:
        """Weigh the particles of each block by its errors (eq. 10); return beliefs and powers."""
        evidence = measurement_model.log_likelihoods(
            self._config.likelihood, predicted, deviations, learned
        )
        config, weighted = self._config.resampling, []
        for prior in self._priors:
            log_likelihood = evidence.take(prior.dofs, axis=1).sum(axis=1) / self._window
            weighted.append(blocks.reweight(config, prior, self.belief, log_likelihood))
        return weighted

    def _learn(
        self, deviations: Sequence[Deviation], weighted: Sequence[tuple[Belief, float]]
    ) -> None:
        """Learn the noise of each block's errors, and their information."""
        errors = np.concatenate([deviation.values for deviation in deviations], axis=1)
        likelihood = self._config.likelihood
        dof = likelihood.learned_dof if likelihood.scale == 'learned' else likelihood.dof
        for i, chosen in enumerate(self._values_by_block(deviations)):
            own, (belief, power) = errors.take(chosen, axis=1), weighted[i]
            self.statistics[i] = blocks.learn(
                dof, self._priors[i], belief, power, own, self.statistics[i], self._window
            )

    def _resample(self, weighted: Sequence[tuple[Belief, float]]) -> Indices | None:
        """Resample each block; return the parents of particles, None if none was drawn."""
        theta = self.belief.theta.copy()
        parents: Indices | None = None
        config, always = self._config.resampling, self._several
        for i, (belief, _) in enumerate(weighted):
            prior, statistics = self._priors[i], self.statistics[i]
            self.belief, self.statistics[i], parents = blocks.resample(
                config, prior, belief, statistics, self._rng, always
            )
            theta[:, prior.columns] = self.belief.theta
        if self._several:
            self.belief, parents = particles.uniform(theta), np.arange(len(theta))
        return parents

    def _follow_changes(self, begin: float, stamp: float) -> list[DetectedChange]:
        """Detect changes of parameters and spread the particles; reconsider earlier ones."""
        prior = self._priors[0]
        detected = self.changes.update(stamp, self.belief)
        if detected:
            changed = [self._names.index(change.parameter) for change in detected]
            self.belief, self.statistics[0] = blocks.follow_change(
                prior, self.belief, self.statistics[0], changed, self._rng
            )
        for change in self.changes.since(begin - _RECONSIDERED_S, stamp - _RECONSIDERED_S):
            i = self._names.index(change.parameter)
            mean = weights.mean(self.belief.log_weights, self.belief.theta)[i]
            ends = np.array([[change.before], [mean]])
            before, after = to_unbounded(self._task.parameters[i : i + 1], ends)[:, 0].tolist()
            step, columns = after - before, self._changing
            self.belief, self.statistics[0] = blocks.reconsider_change(
                prior, self.belief, self.statistics[0], i, step, columns, self._rng
            )
        return detected

    def _reinject(self) -> None:
        """Draw every other particle from the prior; an outlier costs only half of the belief."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        for prior, statistics in zip(self._priors, self.statistics, strict=True):
            statistics.information[rows] = information.start(prior.spread, len(theta[rows]))
        self.belief = particles.uniform(theta)
