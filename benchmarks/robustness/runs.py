"""Runs of controllers at points of sweeps: cells, and their rows, the same on any machine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
import time

from benchmarks.belief import compute as belief_runs
from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import code_digest
from benchmarks.belief.worlds import in_world
from benchmarks.paper.cells import LEARNER, parse_with_threads, task_digest
from benchmarks.paper.compute import estimates
from benchmarks.paper.rows import ParameterEstimate
from benchmarks.robustness.sweeps import SWEEPS
from benchmarks.study import Run
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.calibration import hardware
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
        code = code_digest(EMPPI) if self.controller == LEARNER else ''
        return f'{task_digest(self.text)}-{code}'

    def __str__(self) -> str:
        """Return a description for messages."""
        values = ', '.join(f'{value:g}' for value in self.values)
        return f'{self.task}, {self.sweep} {values}, {self.controller}, seed {self.seed}'


@dataclass(frozen=True)
class RobustnessRow(RobustnessRun):
    """The result of one cell."""

    digest: str
    success: bool
    time_s: float  # until success, else the limit
    limit_s: float
    fault: str  # of the bridge, the first one; '' without
    misfit_s: float | None  # time at which a misfit is first shown; None: never
    parameters: Mapping[str, ParameterEstimate]  # at the end; empty without a belief
    compute_s: float
    made_by: str  # version and processor
    missed: float | None = None  # share of plans that were late; None in simulated time
    holds: int | None = None  # times that the bridge held the arm; None in simulated time

    @property
    def inside(self) -> bool | None:
        """Whether all 90 % intervals that can be judged hold the truth; None without one."""
        judged = [one.inside for one in self.parameters.values() if one.inside is not None]
        return all(judged) if judged else None


def task_texts(source: str, text: str, sweep: str) -> Iterator[tuple[tuple[float, ...], str]]:
    """Yield the values and the task's YAML of each point; ConfigError if it is invalid."""
    for point in SWEEPS[sweep].points(parse_task(text, source)):
        there = in_world(text, point.world)
        parse_task(there, source)
        yield point.values, there


def compute(cell: RobustnessCell, threads: int | None = None) -> RobustnessRow:
    """Return the row of a cell; `threads` replaces the threads of planner and filter."""
    start = time.perf_counter()
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
        **cell.identity,
        digest=cell.digest,
        success=trace.success,
        time_s=limit if trace.success_time is None else trace.success_time,
        limit_s=limit,
        fault=trace.faults[0][1] if trace.faults else '',
        misfit_s=misfit_s,
        parameters=estimates(task, trace.truth, loop.filter.belief) if learned else {},
        compute_s=time.perf_counter() - start,
        made_by=hardware.label(),
    )
