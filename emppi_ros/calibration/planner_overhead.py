"""
The overhead of a planning cycle over the physics that it needs.

Cycles are timed along a closed-loop run, with its states and its belief. Each is timed as a whole
(prediction to the start of the plan, noise, interpolation, rollouts with recording, costs,
weights, plan) and compared with its floor: stepping the same rollouts (same simulations, states,
controls, physics steps and threads) without recording. The prediction to the start of the plan
also steps physics, but counts as overhead.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
import copy
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.planning.plan_update import PlanInfo
from emppi_ros.planning.planner import Planner
from emppi_ros.robots.plan import Plan
from emppi_ros.state.time_series import Commands
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
WARM_UP = 10  # first cycles, which wait for measurements or warm up: they do not count


def measure(
    task: Task, pairs: int, seed: int = 0, progress: Callable[[float], None] = lambda _: None
) -> dict[str, float | int]:
    """Return the steps and threads of a plan, median times [ms] and the median of their ratios."""
    loop = ClosedLoop(task, seed)
    timed = TimedPlanner(task, np.random.default_rng(seed), progress)
    timed.set_belief(loop.filter.belief)
    loop.planner = timed
    loop.run((pairs + WARM_UP) / task.planner.rate_hz, stop_at_success=False)
    times = np.array(timed.pairs[-pairs:])  # (pairs, 2)
    config = timed.settings
    return {
        # the last step evaluates the final state
        'sim_steps': config.models * config.rollouts * (config.horizon * config.substeps + 1),
        'threads': timed.ensemble.batch.nthread,
        'plan_ms': 1e3 * float(np.median(times[:, 0])),
        'floor_ms': 1e3 * float(np.median(times[:, 1])),
        'ratio': float(np.median(times[:, 0] / times[:, 1])),
    }


class Rollouts(NamedTuple):
    """The rollouts of a plan: start state, and controls (M, K, physics steps, nu)."""

    start: State
    controls: Array


class RecordedEnsemble(Ensemble):
    """Ensemble that keeps what it rolled out last."""

    def __init__(self, of: Ensemble, threads: int) -> None:
        """Create an ensemble like `of`."""
        super().__init__(of.model, of.parameters, of.models, of.rollouts, threads)
        self.rolled = deque[Rollouts](maxlen=1)

    def rollout(
        self,
        start: State,
        controls: Array,
        record: Sequence[str],
        applied: Array | None = None,
    ) -> Records:
        """Simulate as `Ensemble` does."""
        self.rolled.append(Rollouts(start, controls))
        return super().rollout(start, controls, record, applied)


class RecordedPlanner(Planner):
    """Planner that keeps the rollouts of its last plan."""

    def __init__(
        self, task: Task, seed: int | np.random.Generator = 0, models: int | None = None
    ) -> None:
        """Create the ensemble; call `set_belief` before the first plan."""
        super().__init__(task, seed, models)
        self.ensemble = self._recorded = RecordedEnsemble(self.ensemble, self.config.threads)

    @property
    def last_rollouts(self) -> Rollouts:
        """The rollouts of the last plan; IndexError before the first one."""
        return self._recorded.rolled[-1]


class TimedPlanner(RecordedPlanner):
    """Planner that times each cycle and its floor."""

    def __init__(
        self, task: Task, rng: np.random.Generator, progress: Callable[[float], None]
    ) -> None:
        """Plan for a task; `pairs` collects the times of cycle and floor [s]."""
        super().__init__(task, rng)
        self.pairs: list[tuple[float, float]] = []
        self._random, self._progress = rng, progress

    def plan_from(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        tracks: Mapping[str, Track] | None = None,
    ) -> tuple[Plan, PlanInfo]:
        """Plan once to get the rollouts, then time the same cycle and its floor."""
        noise = self._random.bit_generator.state
        Planner.plan_from(copy.copy(self), state, stamp, start, commands, tracks)
        self._random.bit_generator.state = noise
        begin, controls = self.last_rollouts
        floor_first = len(self.pairs) % 2 == 0
        floor = stepping_s(self.ensemble, begin, controls) if floor_first else 0.0
        began = time.perf_counter()
        result = super().plan_from(state, stamp, start, commands, tracks)
        plan = time.perf_counter() - began
        floor = floor if floor_first else stepping_s(self.ensemble, begin, controls)
        self.pairs.append((plan, floor))
        self._progress(len(self.pairs))
        return result


def stepping_s(
    ensemble: Ensemble,
    begin: State,
    controls: Array,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the time of only stepping rollouts with controls (M, K, physics steps, nu) [s]."""
    flat = controls.reshape(-1, *controls.shape[2:])
    ensemble.set_state(begin)
    began = clock()
    ensemble.batch.rollout(flat.shape[1], flat, record=[])
    return clock() - began
