"""
How the time of a planning cycle grows with models M, rollouts K and horizon H.

Planners of several sizes plan from the states and beliefs of one closed-loop run, in turns, so
that other load on the machine affects all of them alike. Each cycle is paired with its floor, as
in `planner`.
"""

from collections.abc import Callable, Mapping, Sequence
import copy
import dataclasses
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
import numpy as np
import numpy.typing as npt

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.calibration.planner_overhead import WARM_UP, TimedPlanner
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.ensemble import State
from emppi_ros.planning.plan_update import PlanInfo
from emppi_ros.planning.planner import Planner
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan
from emppi_ros.state.time_series import Commands
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BLUE, GREY
from emppi_ros.viz.report.plots import styled

Array = npt.NDArray[np.float64]
SIZES = {'models': 'models M', 'rollouts': 'rollouts per model K', 'horizon': 'horizon H'}
FACTORS = (0.5, 1.0, 2.0, 3.0, 4.0)  # of the sizes in the task file


@dataclass(frozen=True)
class Line:
    """
    Times of one size: the line a + b n that fits them best in relative terms.

    Attributes
    ----------
    values : (n,) array
        The size.
    times : (n,) array
        Median times [ms].
    offset, slope : float
        a [ms] and b [ms per unit of size].

    """

    values: Array
    times: Array
    offset: float
    slope: float

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


def measure(
    task: Task, cycles: int, seed: int = 0, progress: Callable[[float], None] = lambda _: None
) -> dict[str, tuple[Line, Line]]:
    """
    Return size -> lines of the median time of a cycle and of its floor.

    ConfigError if the belief has fewer particles than the largest planner has models.
    """
    most = round(max(FACTORS) * task.planner.models)
    if most > task.belief.particles:
        raise ConfigError(
            f'{task.where}: belief: particles: {task.belief.particles}; the benchmark plans with '
            f'up to {most} models'
        )
    loop = ClosedLoop(task, seed)
    planners = {
        key: TimedPlanner(_resized(task, *key), np.random.default_rng(seed), lambda _: None)
        for key in dict.fromkeys((size, value) for size in SIZES for value in _values(task, size))
    }
    leader = _Leader(task, np.random.default_rng(seed), list(planners.values()), progress)
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
        followers: Sequence[Planner],
        progress: Callable[[float], None],
    ) -> None:
        super().__init__(task, rng)
        self._followers, self._progress, self._cycles = followers, progress, 0

    def set_belief(self, belief: Belief) -> None:
        super().set_belief(belief)
        for planner in self._followers:
            planner.set_belief(belief)

    def plan_from(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        tracks: Mapping[str, Track] | None = None,
    ) -> tuple[Plan, PlanInfo]:
        for planner in self._followers:
            planner.plan_from(state, stamp, start, commands, tracks)
        self._cycles += 1
        self._progress(self._cycles)
        return super().plan_from(state, stamp, start, commands, tracks)


def _values(task: Task, size: str) -> list[int]:
    return [max(1, round(factor * getattr(task.planner, size))) for factor in FACTORS]


def _resized(task: Task, size: str, value: int) -> Task:
    changed = copy.copy(task)
    sizes: dict[str, int] = {name: getattr(task.planner, name) for name in SIZES} | {size: value}
    changed.planner = dataclasses.replace(
        task.planner,
        models=sizes['models'],
        rollouts=sizes['rollouts'],
        horizon=sizes['horizon'],
    )
    return changed


def summarize(lines: Mapping[str, tuple[Line, Line]]) -> dict[str, float]:
    """Return slopes [ms per unit of size] and deviations from the lines, by size."""
    summary = {}
    for size, (plan, floor) in lines.items():
        summary[f'{size}_ms_each'] = plan.slope
        summary[f'{size}_floor_ms_each'] = floor.slope
        summary[f'{size}_deviation'] = plan.deviation
        summary[f'{size}_floor_deviation'] = floor.deviation
    return summary


def write_plot(task: Task, lines: Mapping[str, tuple[Line, Line]], path: Path) -> None:
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
