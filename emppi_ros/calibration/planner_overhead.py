"""
The overhead of a planning cycle over the physics that it needs.

Cycles of a closed-loop run are timed as a whole, and compared with their floor: stepping the same
rollouts (simulations, states, controls, physics steps and threads) without recording. The
prediction to the start of the plan also steps physics, but counts as overhead.
"""

from collections.abc import Callable, Collection, Mapping
import copy
import dataclasses
from dataclasses import dataclass
from pathlib import Path
import time
from typing import Any, NamedTuple

from matplotlib.figure import Figure
import numpy as np

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.planning.plan_update import PlanInfo
from emppi_ros.planning.planner import Planner
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BLUE, GREY
from emppi_ros.viz.report.plots import styled

SIZES = {'models': 'models M', 'rollouts': 'rollouts per model K', 'horizon': 'horizon H'}
FACTORS = (0.5, 1.0, 2.0, 3.0, 4.0)  # of the sizes in the task file
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

    last: Rollouts

    def rollout(self, start: State, controls: Array, *arguments: Any, **keywords: Any) -> Records:
        """Simulate as `Ensemble` does."""
        self.last = Rollouts(start, controls)
        return super().rollout(start, controls, *arguments, **keywords)


class RecordedPlanner(Planner):
    """Planner that keeps the rollouts of its last plan."""

    ensemble: RecordedEnsemble

    def __init__(
        self, task: Task, seed: int | np.random.Generator = 0, models: int | None = None
    ) -> None:
        """Create the ensemble; call `set_belief` before the first plan."""
        super().__init__(task, seed, models)
        of = self.ensemble
        self.ensemble = RecordedEnsemble(
            of.model, of.parameters, of.models, of.rollouts, self.config.threads, of.device
        )


class TimedPlanner(RecordedPlanner):
    """Planner that times each cycle and its floor."""

    def __init__(
        self, task: Task, rng: np.random.Generator, progress: Callable[[float], None]
    ) -> None:
        """Plan for a task; `pairs` collects the times of cycle and floor [s]."""
        super().__init__(task, rng)
        self.pairs: list[tuple[float, float]] = []
        self._random, self._progress = rng, progress

    def plan_from(self, *args: Any, **kwargs: Any) -> tuple[Plan, PlanInfo]:
        """Plan once to get the rollouts, then time the same cycle and its floor."""
        noise = self._random.bit_generator.state
        Planner.plan_from(copy.copy(self), *args, **kwargs)
        self._random.bit_generator.state = noise
        begin, controls = self.ensemble.last
        floor_first = len(self.pairs) % 2 == 0
        floor = stepping_s(self.ensemble, begin, controls) if floor_first else 0.0
        began = time.perf_counter()
        result = super().plan_from(*args, **kwargs)
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


@dataclass(frozen=True)
class Line:
    """Times of one size: the line a + b n that fits them best in relative terms."""

    values: Array  # (n,) sizes
    times: Array  # (n,) medians [ms]
    offset: float  # a [ms]
    slope: float  # b [ms per unit of size]

    def at(self, values: Array) -> Array:
        """Return the times [ms] that the line gives."""
        return self.offset + self.slope * values

    @property
    def deviation(self) -> float:
        """The largest deviation of a time from the line, as a share of it."""
        return float(np.max(np.abs(self.times / self.at(self.values) - 1.0)))


def fit_line(values: Array, times: Array) -> Line:
    """Return the line with the least squares of relative errors; needs two sizes or more."""
    rows = np.column_stack([np.ones_like(values), values]) / times[:, None]
    (offset, slope), *_ = np.linalg.lstsq(rows, np.ones_like(times), rcond=None)
    return Line(values, times, float(offset), float(slope))


def measure_growth(
    task: Task, cycles: int, seed: int = 0, progress: Callable[[float], None] = lambda _: None
) -> dict[str, tuple[Line, Line]]:
    """
    Return size -> lines of the median time of a cycle and of its floor.

    Planners of several sizes plan from the states and beliefs of one closed-loop run, in turns, so
    that other load on the machine affects all of them alike. ConfigError if the belief has fewer
    particles than the largest planner has models.
    """
    most = round(max(FACTORS) * task.planner.models)
    if most > task.belief.particles:
        raise ConfigError(
            f'{task.where}: belief: particles: {task.belief.particles}; the benchmark plans with '
            f'up to {most} models'
        )
    loop = ClosedLoop(task, seed)
    planners = {
        (size, value): TimedPlanner(
            _resized(task, size, value), np.random.default_rng(seed), lambda _: None
        )
        for size in SIZES
        for value in _values(task, size)
    }
    leader = _Leader(task, np.random.default_rng(seed), planners.values(), progress)
    leader.set_belief(loop.filter.belief)
    loop.planner = leader
    loop.run((cycles + WARM_UP) / task.planner.rate_hz, stop_at_success=False)
    lines = {}
    for size in SIZES:
        values = _values(task, size)
        times = np.array([planners[size, value].pairs[-cycles:] for value in values])
        medians = 1e3 * np.median(times, axis=1)  # (sizes, 2)
        plan, floor = (fit_line(np.array(values, float), medians[:, i]) for i in range(2))
        lines[size] = plan, floor
    return lines


class _Leader(Planner):
    """Plans for the robot, and lets planners of other sizes plan from the same states."""

    def __init__(
        self,
        task: Task,
        rng: np.random.Generator,
        followers: Collection[Planner],
        progress: Callable[[float], None],
    ) -> None:
        super().__init__(task, rng)
        self._followers, self._progress, self._cycles = followers, progress, 0

    def set_belief(self, belief: Belief) -> None:
        super().set_belief(belief)
        for planner in self._followers:
            planner.set_belief(belief)

    def plan_from(self, *args: Any, **kwargs: Any) -> tuple[Plan, PlanInfo]:
        for planner in self._followers:
            planner.plan_from(*args, **kwargs)
        self._cycles += 1
        self._progress(self._cycles)
        return super().plan_from(*args, **kwargs)


def _values(task: Task, size: str) -> list[int]:
    return [max(1, round(factor * getattr(task.planner, size))) for factor in FACTORS]


def _resized(task: Task, size: str, value: int) -> Task:
    changed, sizes = copy.copy(task), dict[str, Any]({size: value})
    changed.planner = dataclasses.replace(task.planner, **sizes)
    return changed


def summarize_growth(lines: Mapping[str, tuple[Line, Line]]) -> dict[str, float]:
    """Return slopes [ms per unit of size] and deviations from the lines, by size."""
    summary = {}
    for size, (plan, floor) in lines.items():
        summary[f'{size}_ms_each'] = plan.slope
        summary[f'{size}_floor_ms_each'] = floor.slope
        summary[f'{size}_deviation'] = plan.deviation
        summary[f'{size}_floor_deviation'] = floor.deviation
    return summary


def write_growth(task: Task, lines: Mapping[str, tuple[Line, Line]], path: Path) -> None:
    """Write a PNG of the times by size, each beside its floor."""
    with styled():
        figure = Figure(figsize=(10, 3.4), layout='constrained')
        panels = figure.subplots(1, len(lines), sharey=True)
        for axes, (size, both) in zip(panels, lines.items(), strict=True):
            for line, name, color in zip(both, ('plan', 'floor'), (BLUE, GREY), strict=True):
                axes.plot(line.values, line.times, 'o', color=color, label=name)
                ends = np.array([0.0, line.values[-1]])
                axes.plot(ends, line.at(ends), '-', color=color, linewidth=1.0)
            axes.set(xlabel=SIZES[size], xlim=(0.0, None), ylim=(0.0, None))
            axes.set_title(f'within {100.0 * both[0].deviation:.0f} % of a line')
            axes.label_outer()
        figure.axes[0].set_ylabel('median time [ms]')
        figure.axes[0].legend()
        figure.suptitle(task.name)
        with paths.replacing(path) as temporary:
            figure.savefig(temporary, dpi=110)
