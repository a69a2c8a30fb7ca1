"""From a cell to its row, on whatever machine: the same bits for the same cell."""

from collections.abc import Sequence
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.bench import hardware
from emppi_ros.bench.paper import rows
from emppi_ros.bench.paper.cells import CALIBRATION, LEARNER, LEARNING, RISK, Cell, changed
from emppi_ros.bench.paper.excitation import excite
from emppi_ros.bench.paper.rows import Attempt, Row
from emppi_ros.core.errors import EmppiError
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.session.trace import Trace
from emppi_ros.tasks.task import Task, parse_task

Array = npt.NDArray[np.float64]


class Run(NamedTuple):
    """What happened: the trace, and the belief before anything did."""

    trace: Trace
    prior: Belief


def compute(cell: Cell, threads: int | None = None) -> Row:
    """Return a cell's row; `threads` of each planner and filter replace the task's."""
    began = time.perf_counter()
    text = cell.text
    if threads is not None:
        text = changed(text, {'planner': {'threads': threads}})
    try:
        task = parse_task(text, cell.task)
        run = _observe(task, cell) if cell.study == CALIBRATION else _control(task, cell)
    except EmppiError as error:
        raise type(error)(f'{cell}: {error}') from None
    return _row(cell, task, run, time.perf_counter() - began)


def _control(task: Task, cell: Cell) -> Run:
    loop = ClosedLoop(task, cell.seed, LEARNER if cell.study == RISK else cell.controller)
    prior = loop.filter.belief
    return Run(loop.run(stop_at_success=cell.study != LEARNING), prior)


def _observe(task: Task, cell: Cell) -> Run:
    trace, prior = excite(task, cell.seed)
    return Run(trace, prior)


def _row(cell: Cell, task: Task, run: Run, compute_s: float) -> Row:
    trace, limit = run.trace, task.file.duration_s
    beliefs: Sequence[tuple[float, Belief]] = [(0.0, run.prior), *trace.beliefs]
    course = rows.course(task, trace.truth, beliefs)
    plan_ms = 1e3 * np.array(trace.plan_s)
    return Row(
        study=cell.study,
        task=cell.task,
        controller=cell.controller,
        seed=cell.seed,
        models=cell.models,
        rollouts=cell.rollouts,
        digest=cell.digest,
        success=trace.success,
        time_s=limit if trace.success_time is None else trace.success_time,
        limit_s=limit,
        steps=len(trace.plan_s),
        squared_error=course.squared_error[-1],
        parameters=rows.estimates(task, trace.truth, beliefs[-1][1]),
        course=course,
        attempts=tuple(
            Attempt(float(one.ended), bool(one.reached), bool(one.lost)) for one in trace.attempts
        ),
        diverged=trace.diverged,
        degenerate=trace.degenerate,
        plan_ms=float(np.median(plan_ms)) if len(plan_ms) else None,
        plan_p99_ms=float(np.percentile(plan_ms, 99)) if len(plan_ms) else None,
        period_ms=1e3 / task.planner.rate_hz,
        compute_s=compute_s,
        made_by=hardware.label(),
        right_kind=rows.share_after_moving(task, trace),
    )
