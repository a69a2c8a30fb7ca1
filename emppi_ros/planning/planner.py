"""
The planner of a task: it makes plans from measurements and beliefs, without ROS or clocks.

The same calls in the same order, with the same seed, return the same bits.
"""

from collections import deque
from collections.abc import Mapping
import dataclasses
import math

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import AllDivergedError, ConfigError
from emppi_ros.journal.journal import journaled
from emppi_ros.journal.measurements import Measurements
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.planning import information, interpolation, mppi
from emppi_ros.planning.mppi import PlanInfo, smoother
from emppi_ros.planning.plan_preview import Candidates, TracePoint, trace_positions
from emppi_ros.planning.predicted_measurements import PredictedMeasurements
from emppi_ros.planning.stage_tracker import StageTracker
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.robots import plan as plans
from emppi_ros.robots.plan import Plan
from emppi_ros.state import articulation
from emppi_ros.state.commands import Commands, CommandsInForce, in_steps
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost, Costs, at_plan_steps
from emppi_ros.tasks.stages import Stage
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
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
        self.ensemble = Ensemble(task.model, task.parameters, count, rollouts, self.config.threads)
        self._period = 1.0 / self.config.rate_hz
        self._limits = task.robot.control_limits(self.config.step_s)
        # commanded joints -> model controls; a slice avoids a copy if both have the same order
        order = np.argsort(task.map.ctrl)
        same = np.array_equal(order, np.arange(len(order)))
        self._order: slice | npt.NDArray[np.intp] = slice(None) if same else order
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

        Raises
        ------
        StaleInputError
            If measurements or commands are missing or too old.
        AllDivergedError
            If every rollout diverged.

        """
        stamp = self.estimator.stamp
        state, tracks = self.estimator.state(stamp), self.estimator.tracks(stamp)
        start = now + self._period
        try:
            plan, info = self.plan_from(state, stamp, start, self._commands_in_force(), tracks)
        except AllDivergedError:
            self.diverged += self.ensemble.models * self.ensemble.rollouts
            raise
        self._plans.append(plan)
        self.diverged += info.diverged
        return plan

    def _commands_in_force(self) -> CommandsInForce:
        """Return the applied commands, then those of the last plans."""
        return CommandsInForce(self.applied, self._plans, self.task.robot.command != 'position')

    def plan_from(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        tracks: Mapping[str, Track] | None = None,
    ) -> tuple[Plan, PlanInfo]:
        """
        Return a plan that starts at `start`, from the state measured at `stamp`.

        Parameters
        ----------
        state : State
            State (nq,) and (nv,) of robot and objects at `stamp`.
        stamp : float
            Time of the state [s].
        start : float
            Time at which the plan starts [s]; each model is predicted from `stamp` to it, or
            to the end of the model's delay of commands after it.
        commands : Commands
            Function from times (n,) to the commands (n, joints): the applied ones, then
            those of the last plan. A delay of commands needs its `average`, too.
        tracks : mapping, optional
            Tracks of jointed objects by name, whose joint positions depend on the model.

        Returns
        -------
        plan : Plan
            Commands over the horizon.
        info : PlanInfo
            Candidates, costs and weights.

        Raises
        ------
        AllDivergedError
            If every rollout diverged.

        """
        probing = start < self._probe_until
        config = self.settings
        if probing:
            weight = self.task.file.probe.information_weight
            config = dataclasses.replace(config, information_weight=weight)
        substep = config.step_s / config.substeps
        delays = self.ensemble.delays
        ahead = start - stamp if delays is None else start - stamp + delays
        count = max(0, math.ceil(np.max(ahead) / substep - 1e-6))
        replayed = np.empty((0, len(self._first)))
        if count:  # the commands that act before those of this plan
            replayed = in_steps(commands, stamp, ahead, count, delays)[..., self._order]
        cost = self._enter_stage(state, stamp, tracks or {})
        if probing and self.task.probe_cost is not None:
            cost = self.task.probe_cost
        spread = articulation.fit_state(self.task, self.ensemble, state, tracks or {})
        begin = self.ensemble.predict(spread, replayed, ahead / max(count, 1))
        applied = commands(np.array([start]))[0]
        nominal, variance = self._nominal(start, applied), self._shifted_variance(start)
        point, traces = self.trace_point, []
        record = cost.record if point is None else sorted({*cost.record, point.field})
        if config.information_weight > 0.0:
            record = sorted({*record, *self._measurements.record})

        def evaluate(controls: Array) -> Costs:
            coarse, begins = controls[..., self._order], applied[self._order]
            fine = interpolation.upsample(coarse, begins, config.substeps, config.interpolation)
            records = self.ensemble.rollout(begin, fine, record)
            if point is not None:
                traces.append(trace_positions(records, point, config.substeps))
            costs = cost.evaluate(records, begin, config.substeps)
            if config.information_weight > 0.0:
                reward = config.information_weight * self._information(records, begin)
                costs = Costs(costs.running - reward, costs.terminal)
            return costs

        controls, info = mppi.plan(
            config, nominal, applied, self._limits, self._log_weights, evaluate, self._rng,
            applied if self.task.robot.command == 'position' else 0.0, variance,
        )  # fmt: skip
        self._controls, self._first, self._start = controls, applied, start
        self._variance = info.variance
        self.candidates = Candidates(traces[0], info.costs) if traces else None
        plan = plans.make(
            self.task.robot, start, applied, controls, config.step_s, config.interpolation
        )
        return plan, info

    def _information(self, records: Records, begin: State) -> Array:
        """Return the information that each step of the rollouts adds, (K, H) [nat]."""
        measured = Records(
            {name: records.fields[name] for name in self._measurements.record}, records.diverged
        )
        fields = at_plan_steps(measured, begin, self.settings.substeps)
        predictions = self._measurements.evaluate(fields)
        return information.per_step(predictions, self._log_weights)

    def _enter_stage(self, state: State, stamp: float, tracks: Mapping[str, Track]) -> Cost:
        """Advance the stage with a measured state; return its cost and activate its grasp."""
        before = self.stage
        self.stage = self._stage_tracker.advance(state, stamp, tracks, self._belief)
        if self.stage is not before:
            self.ensemble.activate(self.stage.grasp)
        return self.stage.cost

    def _nominal(self, start: float, applied: Array) -> Array:
        """Return the last plan shifted to `start`, or one that stays at rest."""
        config, robot = self.settings, self.task.robot
        if self._controls is None:
            rest = applied if robot.command == 'position' else np.zeros_like(applied)
            return np.tile(rest, (config.horizon, 1))
        return interpolation.shift(
            self._controls, self._first, start - self._start, config.step_s, config.interpolation
        )

    def _shifted_variance(self, start: float) -> Array | None:
        """Return the variance of the noise, shifted as the plan is; None if it is constant."""
        config, variance = self.settings, self._variance
        if variance is None:
            return None
        elapsed = start - self._start
        return interpolation.shift(
            variance, variance[0], elapsed, config.step_s, config.interpolation
        )
