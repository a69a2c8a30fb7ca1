"""Runs of controllers at points of sweeps: cells, and their rows, the same on any machine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
import math
import time
from typing import NamedTuple

from benchmarks.belief import compute as belief_runs
from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import belief_digest
from benchmarks.belief.worlds import in_world
from benchmarks.digests import task_digest
from benchmarks.paper.cells import LEARNER, ParameterEstimate, parse_with_threads
from benchmarks.paper.compute import estimates
from benchmarks.robustness.sweeps import SWEEPS
from benchmarks.study import Computed, Run, computed, grouped, if_any, ordered
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import Median, Share
from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks.task import parse_task


@dataclass(frozen=True)
class RobustnessRun(Run):
    """A controller at one point of a sweep."""

    task: str
    sweep: str
    values: tuple[float, ...]  # along the axes of the sweep
    controller: str
    seed: int


@dataclass(frozen=True)
class RobustnessCell(RobustnessRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML at this point

    @property
    def digest(self) -> str:
        """The digest of the task and, for a belief, of its code: others are outdated."""
        code = belief_digest(EMPPI) if self.controller == LEARNER else ''
        return f'{task_digest(self.text)}-{code}'

    def __str__(self) -> str:
        """Return a description for messages."""
        values = ', '.join(f'{value:g}' for value in self.values)
        return f'{self.task}, {self.sweep} {values}, {self.controller}, seed {self.seed}'


@dataclass(frozen=True)
class RobustnessRow(RobustnessRun, Computed):
    """The result of one cell."""

    success: bool
    time_s: float  # until success, else the limit
    limit_s: float
    fault: str = ''  # of the bridge, the first one; '' without
    misfit_s: float | None = None  # time at which a misfit is first shown; None: never
    # at the end; empty without a belief
    parameters: Mapping[str, ParameterEstimate] = field(default_factory=dict)
    missed: float | None = None  # share of plans that were late; None in simulated time
    holds: int | None = None  # times that the bridge held the arm; None in simulated time

    @property
    def inside(self) -> bool | None:
        """Whether all 90 % intervals that can be judged hold the truth; None without one."""
        judged = [
            estimate.inside for estimate in self.parameters.values() if estimate.inside is not None
        ]
        return all(judged) if judged else None


def task_texts(source: str, text: str, sweep: str) -> Iterator[tuple[tuple[float, ...], str]]:
    """Yield the values and the task's YAML of each point; ConfigError if it is invalid."""
    for point in SWEEPS[sweep].points(parse_task(text, source)):
        there = in_world(text, point.world)
        parse_task(there, source)
        yield point.values, there


def compute(cell: RobustnessCell, threads: int | None = None) -> RobustnessRow:
    """Return the row of a cell; `threads` replaces the threads of planner and filter."""
    began = time.perf_counter()
    try:
        task = parse_with_threads(cell.text, cell.task, threads)
        loop = ClosedLoop(task, cell.seed, cell.controller)
        misfit_s = None
        if cell.controller == LEARNER:
            misfit_s = belief_runs.run(loop)
        else:
            loop.run()
    except EmppiError as error:
        raise type(error)(f'{cell}: {error}') from None
    trace, limit = loop.trace, task.file.duration_s
    learned = cell.controller == LEARNER
    return RobustnessRow(
        **computed(cell, began),
        success=trace.success,
        time_s=limit if trace.success_time is None else trace.success_time,
        limit_s=limit,
        fault=trace.faults[0][1] if trace.faults else '',
        misfit_s=misfit_s,
        parameters=estimates(task, trace.truth, loop.filter.belief) if learned else {},
    )


class PointSummary(NamedTuple):
    """The runs of a controller at one point."""

    task: str
    sweep: str
    values: tuple[float, ...]
    controller: str
    success: Share
    time_s: Median  # to success; infinite without
    inside: Share | None  # 90 % intervals at the end that hold the truth; None without a belief
    misfit: Share | None  # runs that show one
    warned: Share | None  # runs in which all intervals hold the truth, or a misfit is shown
    faults: Mapping[str, int]  # runs by the bridge's first fault
    late: Median | None  # plans of a run that miss their deadline [%]; None in simulated time
    held: Share | None  # runs in which the bridge held the arm; None in simulated time


def summarize(rows: Sequence[RobustnessRow]) -> list[PointSummary]:
    """Summarize rows by point and controller, in the order of sweeps and of values."""
    values = sorted({row.values for row in rows})
    groups = ordered(rows, task=(), sweep=SWEEPS, values=values, controller=())
    return [_summary(key, of_key) for key, of_key in groups.items()]


def _summary(
    key: tuple[str, str, tuple[float, ...], str], rows: Sequence[RobustnessRow]
) -> PointSummary:
    judged = [row for row in rows if row.inside is not None]
    intervals = [
        estimate.inside
        for row in judged
        for estimate in row.parameters.values()
        if estimate.inside is not None
    ]
    faults = [row.fault for row in rows if row.fault]
    shown = [row.misfit_s is not None for row in judged]
    late = [100.0 * row.missed for row in rows if row.missed is not None]
    return PointSummary(
        *key,
        success=statistics.share([row.success for row in rows]),
        time_s=statistics.median([row.time_s if row.success else math.inf for row in rows]),
        inside=if_any(statistics.share, intervals),
        misfit=if_any(statistics.share, shown),
        warned=if_any(
            statistics.share,
            [bool(row.inside) or misfit for row, misfit in zip(judged, shown, strict=True)],
        ),
        faults={name: faults.count(name) for name in sorted(set(faults))},
        late=if_any(statistics.median, late),
        held=if_any(statistics.share, [row.holds > 0 for row in rows if row.holds is not None]),
    )


def lines(groups: Sequence[PointSummary]) -> Iterable[str]:
    """Yield the most important numbers, one line per group, below the name of the sweep."""
    for (task, sweep), points in grouped(groups, 'task', 'sweep').items():
        yield f'\n{task}, {sweep}'
        for point in points:
            values = ' '.join(f'{value:<8g}' for value in point.values)
            parts = [f'{values} {point.controller:10} success {point.success}']
            if point.inside is not None:
                parts.append(f'inside 90 %: {point.inside}')
                parts.append(f'inside or misfit: {point.warned}')
            if point.late is not None:
                parts.append(f'late plans: {point.late} %, held: {point.held}')
            yield '  '.join(parts)
