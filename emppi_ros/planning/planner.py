"""
The planner of a task: it makes plans from measurements and beliefs, without ROS or clocks.

The same calls in the same order, with the same seed, return the same bits.
"""

from collections import deque
from collections.abc import Mapping
import dataclasses
import functools
import math

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import AllDivergedError, ConfigError
from emppi_ros.journal.journal import Measurements, journaled
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.planning import interpolation, plan_update
from emppi_ros.planning.information import PredictedMeasurements
from emppi_ros.planning.plan_preview import Candidates, TracePoint, trace_positions
from emppi_ros.planning.plan_update import PlanInfo, PlanProblem, smoother
from emppi_ros.planning.stage_tracker import StageTracker
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.robots import plan as plans
from emppi_ros.robots.plan import Plan
from emppi_ros.state import articulation
from emppi_ros.state.time_series import Commands, CommandsInForce, in_steps
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost, Costs, Stage
from emppi_ros.tasks.planner_config import PlannerConfig
from emppi_ros.tasks.task import Task

_STREAM = 3  # of random numbers, beside the seed


class Planner(Measurements):
    """
    Plans for a task with the models of a belief; each plan starts from the last one.

    `plan` uses the measurements and commands that were added, `plan_from` a given state.
    """

    MEMORY = Measurements.MEMORY
    MEMORY += ('_plans', '_belief', '_rng', '_controls', '_first', '_start', '_stage_tracker')
    MEMORY += ('_probe_until', '_variance')

    def __init__(
        self, task: Task, seed: int | np.random.Generator = 0, models: int | None = None
    ) -> None:
        """
        Create the ensemble; call `set_belief` before the first plan.

        `seed` may be a generator. `models` overrides the task's M; the total number of rollouts,
        M times K, stays.
        """
        super().__init__(task)
        self.config = task.planner
        self._rng = np.random.default_rng([seed, _STREAM] if isinstance(seed, int) else seed)
        count = self.config.models if models is None else models
        rollouts = self.config.models * self.config.rollouts // count
        self.settings = dataclasses.replace(self.config, models=count, rollouts=rollouts)
        threads, device = self.config.threads, self.config.device
        self.ensemble = Ensemble(task.model, task.parameters, count, rollouts, threads, device)
        self._period = 1.0 / self.config.rate_hz
        self._limits = task.robot.control_limits(self.config.step_s)
        self._spread = task.map.controls  # commands of joints -> controls of all actuators
        self._log_weights = np.full(count, -math.log(count))
        self._controls: Array | None = None
        self._variance: Array | None = None  # of the noise of the last plan's steps, if it adapts
        self._first = np.zeros(len(task.robot.commanded))  # command at the start of the last plan
        self._start = -math.inf
        self._plans: deque[Plan] = deque(maxlen=10)
        self._belief: Belief | None = None
        self.diverged = 0  # rollouts in all plans
        self._measurements = PredictedMeasurements(task)
        self._probe_until = -math.inf
        self._stage_tracker = StageTracker(task)
        self.stage: Stage = self._stage_tracker.stage
        self.trace_point: TracePoint | None = None  # to keep candidates of the next cycle
        self._traces: Array | None = None  # of the rollouts of this cycle
        self.candidates: Candidates | None = None  # of the last cycle, with a trace point

    def set_belief(self, belief: Belief) -> None:
        """Plan with the particles of a belief from now on."""
        self._set_particles(belief.theta, belief.log_weights)

    @journaled('believe')
    def _set_particles(self, theta: Array, log_weights: Array) -> None:
        self._belief = Belief(theta, log_weights)
        chosen = particles.select(self._belief, self.ensemble.models)
        self.ensemble.write(chosen.theta)
        self._log_weights = chosen.log_weights

    @journaled('clear')
    def clear(self) -> None:
        """Discard all measurements, commands and plans; keep belief and stage."""
        super().clear()
        self._plans.clear()

    @journaled('forget')
    def reset_plan(self) -> None:
        """Start the next plan from rest, as after a pause."""
        self._controls = self._variance = None

    @journaled('probe')
    def probe(self, until: float) -> None:
        """
        Gather information in plans that start before `until` [s], as `probe` of the task says.

        ConfigError if no measurement can tell anything: without parameters, or with one model.
        """
        if not self.task.parameters:
            raise ConfigError(f'{self.task.where}: probe: the task has no unknown parameters')
        if self.ensemble.models == 1:
            raise ConfigError('probe: needs several models: a single one disagrees with none')
        self._probe_until = until

    @journaled('tune')
    def tune(self, text: str) -> None:
        """Change tunable parameters; `text` is the task's YAML as JSON. Keep plan and stage."""
        super().tune(text)
        self.config = self.task.planner
        self.settings = dataclasses.replace(
            self.config, models=self.settings.models, rollouts=self.settings.rollouts
        )
        self._measurements = PredictedMeasurements(self.task)
        self._stage_tracker.tune(self.task)
        self.stage = self._stage_tracker.stage
        self.ensemble.activate(self.stage.grasp)  # a restored planner did not activate it yet

    def resume(self) -> None:
        """Apply tuned parameters and belief of a restored snapshot."""
        super().resume()
        if self._belief is not None:
            self.set_belief(self._belief)

    def warm_up(self) -> None:
        """Roll out and smooth once, so that the first plan is as fast as the others."""
        config = self.settings
        steps = config.horizon * config.substeps + 1
        controls = np.zeros((config.models, config.rollouts, steps, self.task.model.nu))
        self.ensemble.rollout(self.task.start(), controls, self.stage.cost.record)
        if config.filter_window:
            smoother(config.horizon, config.filter_window)

    @journaled('plan')
    def plan(self, now: float) -> Plan:
        """
        Return the plan that starts one period after `now` [s].

        StaleInputError if measurements or commands are missing or too old; AllDivergedError if
        every rollout diverged.
        """
        stamp = self.estimator.stamp
        state, tracks = self.estimator.state(stamp), self.estimator.tracks(stamp)
        start, rests = now + self._period, self.task.robot.command != 'position'
        commands = CommandsInForce(self.applied, self._plans, rests)  # applied, then planned
        try:
            plan, info = self.plan_from(state, stamp, start, commands, tracks)
        except AllDivergedError:
            self.diverged += self.ensemble.models * self.ensemble.rollouts
            raise
        self._plans.append(plan)
        self.diverged += info.diverged
        return plan

    def plan_from(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        tracks: Mapping[str, Track] | None = None,
    ) -> tuple[Plan, PlanInfo]:
        """
        Return a plan that starts at `start` [s], and its candidates, costs and weights.

        `state` is that of robot and objects, measured at `stamp` [s]. Each model is predicted from
        there to the start, or to the end of the model's delay of commands after it. `commands` are
        the applied ones, then those of the last plan. `tracks` are those of jointed objects, by
        name: their joint positions depend on the model. AllDivergedError if all rollouts diverged.
        """
        tracks, config = tracks or {}, self.settings
        before = self.stage
        self.stage = self._stage_tracker.advance(state, stamp, tracks, self._belief)
        if self.stage is not before:
            self.ensemble.activate(self.stage.grasp)
        cost = self.stage.cost
        if start < self._probe_until:
            weight = self.task.file.probe.information_weight
            config = dataclasses.replace(config, information_weight=weight)
            cost = self.task.probe_cost or cost
        begin = self._predict_start(state, stamp, start, commands, tracks)
        applied = commands.at(start)
        still = applied if self.task.robot.command == 'position' else np.zeros(len(applied))
        shift = functools.partial(
            interpolation.shift,
            elapsed_s=start - self._start,
            step_s=config.step_s,
            kind=config.interpolation,
        )
        if self._controls is None:
            nominal = np.tile(still, (config.horizon, 1))
        else:
            nominal = shift(self._controls, self._first)
        variance = self._variance
        if variance is not None:
            variance = shift(variance, variance[0])
        problem = PlanProblem(nominal, applied, self._limits, self._log_weights, still, variance)
        evaluate = functools.partial(self._evaluate, config, cost, begin, applied)
        controls, info = plan_update.plan(config, problem, evaluate, self._rng)
        self._controls, self._first, self._start = controls, applied, start
        self._variance = info.variance
        traces, self._traces = self._traces, None
        self.candidates = None if traces is None else Candidates(traces, info.costs)
        plan = plans.make(
            self.task.robot, start, applied, controls, config.step_s, config.interpolation
        )
        return plan, info

    def _predict_start(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        tracks: Mapping[str, Track],
    ) -> State:
        """Return the state of each model when the commands of the new plan begin to act."""
        substep, delays = self.settings.step_s / self.settings.substeps, self.ensemble.delays
        ahead = np.array(start - stamp if delays is None else start - stamp + delays)
        count = max(0, math.ceil(ahead.max() / substep - 1e-6))
        replayed = np.empty((0, self.task.map.nu))
        if count:  # the commands that act before those of this plan
            replayed = self._spread(in_steps(commands, stamp, ahead, count, delays))
        if tracks:
            state = articulation.fit_state(self.task, self.ensemble, state, tracks)
        return self.ensemble.predict(state, replayed, ahead / max(count, 1))

    def _evaluate(
        self, config: PlannerConfig, cost: Cost, begin: State, applied: Array, controls: Array
    ) -> Costs:
        """Return the costs of controls (M, K, H, nu); keep the paths of the trace point."""
        coarse, previous = self._spread(controls), self._spread(applied)
        fine = interpolation.upsample(coarse, previous, config.substeps, config.interpolation)
        point, informed = self.trace_point, config.information_weight > 0.0
        record = {*cost.record, *(self._measurements.record if informed else ())}
        record |= set() if point is None else {point.field}
        records = self.ensemble.rollout(begin, fine, sorted(record), before=previous)
        if point is not None:
            self._traces = trace_positions(records, point, config.substeps)
        costs = cost.evaluate(records, begin, config.substeps)
        if informed:
            gained = self._measurements.information(
                records, begin, config.substeps, self._log_weights
            )
            costs = Costs(costs.running - config.information_weight * gained, costs.terminal)
        return costs
