"""Compute the rows of a run, on any machine: the same cells give the same bits."""

from collections.abc import Sequence
import time
from typing import Any

import numpy as np

from benchmarks.belief import estimators
from benchmarks.belief.estimators import Observers, Record
from benchmarks.belief.runs import BeliefCell, BeliefRow, ParameterSeries
from benchmarks.belief.scores import Changes, change_times, score, truth_at
from benchmarks.paper.cells import parse_with_threads
from benchmarks.paper.compute import thinned
from benchmarks.study import computed
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.app.trace import Trace
from emppi_ros.calibration.belief_scores import summarize
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.calibration_record import scored_parameters
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.task import Task

LEAST_S = 6.0  # duration of a run also after success


def compute(cells: Sequence[BeliefCell], threads: int | None = None) -> list[BeliefRow]:
    """
    Return the rows of cells with the same run.

    `threads` replaces the threads of planner and estimators.
    """
    began, first = time.perf_counter(), cells[0]
    try:
        task = parse_with_threads(first.text, first.task, threads)
        loop, observers = make_loop(task, cells)
        misfit_s = run(loop)
        names = ('' if cell.kind.in_loop else cell.estimator for cell in cells)
        records = (observers.records[name] for name in names)
        pairs = zip(cells, records, strict=True)
        return [
            _row(cell, loop, record, misfit_s, computed(cell, began, len(cells)))
            for cell, record in pairs
        ]
    except EmppiError as error:
        raise type(error)(f'{first}: {error}') from None


def make_loop(task: Task, cells: Sequence[BeliefCell]) -> tuple[ClosedLoop, Observers]:
    """Return the closed loop of cells with the same run, and its estimators."""
    seed, kinds = cells[0].seed, {cell.estimator: cell.kind for cell in cells}
    in_loop = [kind for kind in kinds.values() if kind.in_loop]
    loop = ClosedLoop(task, seed, in_loop[0].controller if in_loop else 'emppi')
    first: estimators.ParameterEstimator = loop.filter
    if in_loop and in_loop[0].made_by:
        first = estimators.make(in_loop[0], task, seed)
    observing = {
        name: estimators.make(kind, task, seed) for name, kind in kinds.items() if not kind.in_loop
    }
    observers = Observers(loop.filter, first, observing)
    loop.belief.filter = observers  # type: ignore[assignment]  # the same calls and belief
    if in_loop and in_loop[0].made_by:
        loop.planner.set_belief(first.belief)
    return loop, observers


def run(loop: ClosedLoop) -> float | None:
    """
    Run until success and at least LEAST_S; to the end if true values change.

    Return the time [s] at which the belief's monitor first shows a misfit; None if it never does.
    """
    misfit_s = None
    task = loop.task
    least = LEAST_S if loop.robot.schedule.constant and not task.file.targets else np.inf
    for _ in range(round(task.file.duration_s / task.simulation.timestep_s)):
        stepped = loop.step()
        if misfit_s is None and loop.filter.monitor.misfit:
            misfit_s = loop.robot.time
        if stepped and loop.trace.success and loop.robot.time >= least - 1e-9:
            break
    return misfit_s


def _row(
    cell: BeliefCell,
    loop: ClosedLoop,
    record: Record,
    misfit_s: float | None,
    base: dict[str, Any],
) -> BeliefRow:
    task, trace = loop.task, loop.trace
    changes, pending = loop.robot.schedule.changes, loop.robot.schedule.pending
    success, time_s = None, None
    if cell.kind.in_loop:
        success, time_s = success_after_change(task, trace, changes)
        success = success and not pending  # a load that was never picked up
    beliefs = record.beliefs if cell.kind.believes else []
    chosen = thinned(len(beliefs)) if beliefs else []
    return BeliefRow(
        **base,
        success=success,
        time_s=time_s,
        limit_s=task.file.duration_s,
        updates=len(beliefs),
        update_ms=1e3 * float(np.mean(record.update_s)) if beliefs else None,
        degenerate=trace.degenerate if cell.kind.in_loop else 0,
        misfit_s=misfit_s if cell.kind.in_loop else None,
        scores=score(task, trace.truths, beliefs, changes) if beliefs else {},
        times=tuple(float(beliefs[i][0]) for i in chosen),
        series=series(task, trace.truths, [beliefs[i] for i in chosen]) if beliefs else {},
    )


def success_after_change(task: Task, trace: Trace, changes: Changes) -> tuple[bool, float]:
    """Return whether the task succeeds from the last change of the truth on, and the time [s]."""
    start = max(change_times(changes), default=0.0)
    limit = task.file.duration_s - start
    if not start:
        return trace.success, limit if trace.success_time is None else trace.success_time
    held, condition = HoldTimer(), task.file.success
    for frame in trace.frames:
        if frame.time > start and held.update(
            frame.error < condition.below, frame.time, condition.hold_s
        ):
            return True, frame.time - start
    return False, limit


def series(
    task: Task,
    truths: Sequence[tuple[float, Array]],
    beliefs: Sequence[tuple[float, Belief]],
) -> dict[str, ParameterSeries]:
    """Return truth, mean and 90 % interval of each scored parameter over time."""
    true = truth_at(truths, np.array([stamp for stamp, _ in beliefs]))
    result = {}
    for i in scored_parameters(task):
        summaries = np.array([summarize(belief, i) for _, belief in beliefs])
        mean, _, low, high = (tuple(column) for column in summaries.T.tolist())
        result[task.parameters[i].name] = ParameterSeries(
            tuple(true[:, i].tolist()), mean, low, high
        )
    return result
