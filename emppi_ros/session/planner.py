"""One planning cycle of a task: predict, shift, roll out, weigh."""

from collections.abc import Callable, Mapping
import dataclasses
import math

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import particles
from emppi_ros.belief.particles import Belief
from emppi_ros.control import interpolation, mppi
from emppi_ros.control import plan as plans
from emppi_ros.control.mppi import Costs, PlanInfo, smoother
from emppi_ros.control.plan import Plan
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.session import candidates
from emppi_ros.session.candidates import Candidates, Place
from emppi_ros.session.stage_tracker import Staging
from emppi_ros.state import articulation
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost
from emppi_ros.tasks.stages import Stage
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
Commands = Callable[[Array], Array]  # times (n,) -> commands in force (n, joints)


class Planner:
    """Plans for a task with the models of a belief; remembers its last plan."""

    MEMORY = ('_rng', '_controls', '_applied', '_start', '_staging')

    def __init__(self, task: Task, rng: np.random.Generator, models: int | None = None) -> None:
        """Make the ensemble; `models` overrides the task's M, with as many rollouts in all."""
        self.task, self.config, self._rng = task, task.planner, rng
        count = self.config.models if models is None else models
        rollouts = self.config.models * self.config.rollouts // count
        self.settings = dataclasses.replace(self.config, models=count, rollouts=rollouts)
        self.ensemble = Ensemble(task.model, task.parameters, count, rollouts, self.config.threads)
        self._limits = task.robot.control_limits(self.config.step_s)
        # commanded joints -> model controls; mostly the same, then without a copy
        order = np.argsort(task.map.ctrl)
        same = np.array_equal(order, np.arange(len(order)))
        self._order: slice | npt.NDArray[np.intp] = slice(None) if same else order
        self._log_weights = np.full(count, -math.log(count))
        self._controls: Array | None = None
        self._applied = np.zeros(len(task.robot.commanded))
        self._start = -math.inf
        self._staging = Staging(task)
        self.stage: Stage = self._staging.stage
        self.watched: Place | None = None  # what of the next cycle's candidates is kept
        self.candidates: Candidates | None = None  # of the last cycle, if that was watched

    def believe(self, belief: Belief) -> None:
        """Plan with a belief's particles from now on."""
        chosen = particles.select(belief, self.ensemble.models)
        self.ensemble.write(chosen.theta)
        self._log_weights = chosen.log_weights

    def forget(self) -> None:
        """Start the next plan from rest, as after a pause."""
        self._controls = None

    def tune(self, task: Task) -> None:
        """Go on with a task that differs in numbers alone; plan, models and stage are kept."""
        self.task, self.config = task, task.planner
        self.settings = dataclasses.replace(
            task.planner, models=self.settings.models, rollouts=self.settings.rollouts
        )
        self._staging.tune(task)
        self.stage = self._staging.stage
        self.ensemble.activate(self.stage.grasp)  # which a planner that was restored did not yet

    def warm_up(self) -> None:
        """Roll out and fit once for nothing: the first cycle is then as quick as the others."""
        config = self.settings
        steps = config.horizon * config.substeps + 1
        controls = np.zeros((config.models, config.rollouts, steps, self.task.model.nu))
        self.ensemble.rollout(self.task.start(), controls, self.stage.cost.record)
        if config.filter_window:
            smoother(config.horizon, config.filter_window)

    def cycle(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        seen: Mapping[str, Track] | None = None,
    ) -> tuple[Plan, PlanInfo]:
        """
        Return a plan that begins at `start`, from the state measured at `stamp`.

        `commands` answers for the commands in force between the two: those applied already,
        then those of the plan before this one. `seen` holds the motions of jointed objects,
        which are another state in each model.
        """
        config = self.settings
        substep = config.step_s / config.substeps
        count = max(0, math.ceil((start - stamp) / substep - 1e-6))
        times = stamp + (np.arange(count) + 0.5) * (start - stamp) / max(count, 1)
        replayed = commands(times)[:, self._order] if count else np.empty((0, len(self._applied)))
        cost = self._enter_stage(state, stamp)
        spread = articulation.fit_state(self.task, self.ensemble, state, seen or {})
        begin = self.ensemble.predict(spread, replayed, (start - stamp) / max(count, 1))
        applied = commands(np.array([start]))[0]
        nominal = self._nominal(start, applied)
        watched, traces = self.watched, []
        record = cost.record if watched is None else sorted({*cost.record, watched.field})

        def evaluate(controls: Array) -> Costs:
            fine = interpolation.upsample(
                controls[..., self._order],
                applied[self._order],
                config.substeps,
                config.interpolation,
            )
            records = self.ensemble.rollout(begin, fine, record)
            if watched is not None:
                traces.append(candidates.trace(records, watched, config.substeps))
            return cost.evaluate(records, begin, config.substeps)

        controls, info = mppi.plan(
            config, nominal, applied, self._limits, self._log_weights, evaluate, self._rng
        )
        self._controls, self._applied, self._start = controls, applied, start
        self.candidates = Candidates(traces[0], info.costs) if traces else None
        plan = plans.make(
            self.task.robot, start, applied, controls, config.step_s, config.interpolation
        )
        return plan, info

    def _enter_stage(self, state: State, stamp: float) -> Cost:
        """Return the cost of the stage that a measured state belongs to; grasp as it does."""
        before, self.stage = self.stage, self._staging.advance(state, stamp)
        if self.stage is not before:
            self.ensemble.activate(self.stage.grasp)
        return self.stage.cost

    def _nominal(self, start: float, applied: Array) -> Array:
        """Return the last plan as it goes on at `start`, or one that stays at rest."""
        config, robot = self.settings, self.task.robot
        if self._controls is None:
            rest = applied if robot.command == 'position' else np.zeros_like(applied)
            return np.tile(rest, (config.horizon, 1))
        return interpolation.shift(
            self._controls, self._applied, start - self._start, config.step_s, config.interpolation
        )
