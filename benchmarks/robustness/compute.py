"""Compute the row of a cell, on any machine: the same cell gives the same bits."""

import time

from benchmarks.belief import compute as belief_runs
from benchmarks.paper.cells import LEARNER, changed
from benchmarks.paper.compute import estimates
from benchmarks.robustness.runs import RobustnessCell, RobustnessRow
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.calibration import hardware
from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks.task import parse_task


def compute(cell: RobustnessCell, threads: int | None = None) -> RobustnessRow:
    """Return the row of a cell; `threads` replaces the threads of planner and filter."""
    start = time.perf_counter()
    text = cell.text
    if threads is not None:
        text = changed(text, {'planner': {'threads': threads}})
    try:
        loop = ClosedLoop(parse_task(text, cell.task), cell.seed, cell.controller)
        misfit_s = None
        if cell.controller == LEARNER:
            misfit_s = belief_runs.run(loop)
        else:
            loop.run()
    except EmppiError as error:
        raise type(error)(f'{cell}: {error}') from None
    return _row(cell, loop, misfit_s, time.perf_counter() - start)


def _row(
    cell: RobustnessCell, loop: ClosedLoop, misfit_s: float | None, compute_s: float
) -> RobustnessRow:
    trace, limit = loop.trace, loop.task.file.duration_s
    learned = cell.controller == LEARNER
    return RobustnessRow(
        **cell.identity,
        digest=cell.digest,
        success=trace.success,
        time_s=limit if trace.success_time is None else trace.success_time,
        limit_s=limit,
        fault=trace.faults[0][1] if trace.faults else '',
        misfit_s=misfit_s,
        parameters=estimates(loop.task, trace.truth, loop.filter.belief) if learned else {},
        compute_s=compute_s,
        made_by=hardware.label(),
    )
