"""
The particle filter of a task: a list of steps, in the order of docs/method.md.

The time update lets parameters jump and drift. The measurement update predicts with each
particle, weighs it by the errors, learns their noise, corrects the states, resamples, and draws
again what no measurement contains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from emppi_ros.belief.belief_monitor import BeliefMonitor, LearnedNoise
from emppi_ros.belief.blocks import Statistics, WeightedBlock
from emppi_ros.belief.changes import ChangeDetector, DetectedChange
from emppi_ros.belief.measurement_model import LONGEST_S, Deviation, Predictor
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import DegenerateWeightsError
from emppi_ros.model import uncertain_joints
from emppi_ros.model.ensemble import State
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands
from emppi_ros.tasks.task import Task

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


@dataclass
class _Update:
    """Measurements of one time, and what the steps of the filter make of them."""

    begin: float  # s, time of the last measurements
    stamp: float
    observation: Observation
    commands: Commands
    state: State  # of each particle: that of the last measurements, then as predicted, corrected
    fitted: State  # as measured
    deviations: Sequence[Deviation] = ()
    values: Sequence[Indices] = ()  # of each block: the errors that weigh it
    variance: Array | None = None  # learned one of all errors
    blocks: Sequence[WeightedBlock] = ()
    parents: Indices | None = None
    changes: Sequence[DetectedChange] = ()

    @property
    def elapsed(self) -> float:
        """Time since the last measurements [s]."""
        return self.stamp - self.begin


_Step = Callable[[_Update], None]


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
        self._changing = changes.changing(task.belief.changes, task.prior)
        self._priors = [blocks.marginal(task.prior, block) for block in task.blocks]
        self._joints = uncertain_joints.uncertain(task.model, task.parameters)
        names = [parameter.name for parameter in task.parameters]
        self.changes = ChangeDetector(names, self._config.particles)
        # several blocks have no joint weights: they are resampled separately, at every update
        self._several = len(task.blocks) > 1
        learns = self._config.likelihood.scale == 'learned'  # else the filter of the paper
        steps: list[tuple[_Step, bool]] = [
            (self._predict, True),
            (self._judge, True),
            (self._reweight, True),
            (self._learn, learns),
            (self._correct, True),
            (self._resample, True),
            (self._redraw, learns),
            (self._follow_changes, not self._several),
        ]
        self._time_update: Sequence[_Step] = ()
        if len(self._changing):
            self._time_update = self._jump, self._drift
        self._measurement_update = [step for step, needed in steps if needed]
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
            particles.uniform(prior.sample(count, self._rng))
            if self._several
            else prior.initial_belief(count, self._rng)
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
        begin, state = self._last or (stamp, observation.estimated)
        self._last = None
        update = _Update(begin, stamp, observation, commands, state, state)
        if update.elapsed > 0.0:
            for step in self._time_update:
                step(update)
        self._predictor.write(self.belief.theta)
        update.fitted = self._predictor.fit(observation)
        self._last = (stamp, update.fitted)
        if not 0.0 < update.elapsed <= LONGEST_S:
            self.monitor.restart()
            return None
        if not self._task.parameters:
            return None
        try:
            for step in self._measurement_update:
                step(update)
        except DegenerateWeightsError:
            self._reinject()
            self._last = (stamp, observation.estimated)
            return FilterUpdate(0.0, True, True)
        self._last = (stamp, update.state)
        ess = min(block.ess for block in update.blocks)
        return FilterUpdate(ess, update.parents is not None, False, update.changes)

    def _jump(self, update: _Update) -> None:
        """Let parameters of some particles jump."""
        config, prior, elapsed = self._config.changes, self._task.prior, update.elapsed
        assert config is not None
        mean = weights.mean(self.belief.log_weights, self.belief.theta)
        self.belief, jumps = changes.jump(
            config, prior, self._changing, self.belief, elapsed, self._rng
        )
        self.changes.jump(jumps, elapsed, mean)
        if not len(jumps.rows):
            return
        self.statistics = [
            blocks.jump(*pair, jumps) for pair in zip(self._priors, self.statistics, strict=True)
        ]
        if update.state.qpos.ndim > 1:
            update.state = State(update.state.qpos.copy(), update.state.qvel.copy())
            for values in update.state:
                values[jumps.rows] = values[jumps.origins]

    def _drift(self, update: _Update) -> None:
        """Let all parameters drift, once in a while."""
        config, prior, columns = self._config.changes, self._task.prior, self._changing
        self._undrifted += update.elapsed
        assert config is not None
        if config.drift_s is None or self._undrifted < _DRIFT_INTERVAL_S:
            return
        self.belief = changes.drift(
            config, prior, columns, self.belief, self._undrifted, self._rng
        )
        share = self._undrifted / config.drift_s
        self.statistics = [
            blocks.drift(*pair, columns, share)
            for pair in zip(self._priors, self.statistics, strict=True)
        ]
        self._undrifted = 0.0

    def _predict(self, update: _Update) -> None:
        """Predict with each particle, and compare with the measurements."""
        typical = int(np.argmax(self.belief.log_weights))
        last = update.begin, update.state
        update.state = self._predictor.predict(last, update.stamp, update.commands, typical)
        update.deviations = self._predictor.compare(update.state, update.observation)
        dofs = measurement_model.dofs_of(update.deviations)
        update.values = [np.flatnonzero(np.isin(dofs, b.dofs)) for b in self._task.blocks]

    def _judge(self, update: _Update) -> None:
        """Use the noise learned so far, and let the monitor compare."""
        learned = None
        if self._config.likelihood.scale == 'learned':
            count = sum(deviation.values.shape[1] for deviation in update.deviations)
            learned = self._learned_noise(update.values, count)
            update.variance = learned.variance
        self.monitor.add(
            self.belief,
            update.deviations,
            update.stamp,
            update.observation,
            update.commands,
            learned,
        )

    def _learned_noise(self, values: Sequence[Indices], count: int) -> LearnedNoise:
        """Return the learned noise of `count` values, given those that weigh each block."""
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

    def _reweight(self, update: _Update) -> None:
        """Weigh the particles of each block by the errors of its degrees of freedom: eq. 10."""
        evidence = measurement_model.log_likelihoods(
            self._config.likelihood, update.state, update.deviations, update.variance
        )
        update.blocks = [
            blocks.reweight(
                self._config.resampling,
                prior,
                self.belief,
                evidence.take(block.dofs, axis=1).sum(axis=1),
                statistics,
            )
            for block, prior, statistics in zip(
                self._task.blocks, self._priors, self.statistics, strict=True
            )
        ]

    def _learn(self, update: _Update) -> None:
        """Learn the noise of each block's errors, and their information."""
        errors = np.concatenate([deviation.values for deviation in update.deviations], axis=1)
        dof = self._config.likelihood.learned_dof
        self.statistics = [
            blocks.learn(dof, prior, block, errors.take(chosen, axis=1), statistics)
            for prior, block, chosen, statistics in zip(
                self._priors, update.blocks, update.values, self.statistics, strict=True
            )
        ]

    def _correct(self, update: _Update) -> None:
        """Move the state of each particle towards the measured one."""
        update.state = self._predictor.correct(
            update.state, update.observation, update.fitted, update.elapsed
        )

    def _resample(self, update: _Update) -> None:
        """Resample each block; particles of a single block take their states with them."""
        theta = self.belief.theta.copy()
        for i, (prior, block) in enumerate(zip(self._priors, update.blocks, strict=True)):
            self.belief, self.statistics[i], update.parents = blocks.resample(
                self._config.resampling,
                prior,
                block.belief,
                self.statistics[i],
                self._rng,
                self._several,
            )
            theta[:, prior.columns] = self.belief.theta
        if self._several:
            self.belief, update.parents = particles.uniform(theta), np.arange(len(theta))
        if update.parents is not None:
            update.state = State(*(values[update.parents] for values in update.state))
            self.changes.resample(update.parents)

    def _redraw(self, update: _Update) -> None:
        """Draw those parts of joint parameters that have no effect from their prior again."""
        if update.parents is None:
            return
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

    def _follow_changes(self, update: _Update) -> None:
        """Detect changes of parameters, and spread the particles that followed them."""
        update.changes = self.changes.update(update.stamp, self.belief)
        if update.changes:
            names = [parameter.name for parameter in self._task.parameters]
            changed = [names.index(change.parameter) for change in update.changes]
            self.belief, self.statistics[0] = blocks.follow_change(
                self._priors[0], self.belief, self.statistics[0], changed, self._rng
            )

    def _reinject(self) -> None:
        """Draw every other particle from the prior; an outlier costs only half of the belief."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        for prior, statistics in zip(self._priors, self.statistics, strict=True):
            fresh = information.start(prior.spread, len(theta[rows]))
            statistics.information[rows] = fresh
        self.belief = particles.uniform(theta)
