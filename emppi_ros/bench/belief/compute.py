"""Compute the rows of a run, on any machine: the same cells give the same bits."""

from collections.abc import Mapping, Sequence
import time

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.distributions import to_unbounded
from emppi_ros.belief.particles import Belief
from emppi_ros.bench import hardware
from emppi_ros.bench.belief import estimators, scores
from emppi_ros.bench.belief.cells import BeliefCell
from emppi_ros.bench.belief.estimators import Observers, Record
from emppi_ros.bench.belief.rows import BeliefRow, ParameterScores, ParameterSeries
from emppi_ros.bench.paper import errors
from emppi_ros.bench.paper.cells import changed
from emppi_ros.core import weights
from emppi_ros.core.errors import EmppiError
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.session.trace import Trace
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.schema import ParameterChange
from emppi_ros.tasks.task import Task, parse_task

Array = npt.NDArray[np.float64]
Changes = Mapping[int, Sequence[ParameterChange]]  # by column, as in `TrueParameters`
LEAST_S = 6.0  # duration of a run also after success
MAX_TIMES = 60  # of a series: more are not visible in a plot
LOW, HIGH = 0.05, 0.95  # quantiles: the ends of a 90 % interval
_PRIOR_DRAWS = 10_000


def compute(cells: Sequence[BeliefCell], threads: int | None = None) -> list[BeliefRow]:
    """
    Return the rows of cells with the same run.

    `threads` replaces the threads of planner and estimators.
    """
    start, first = time.perf_counter(), cells[0]
    text = first.text
    if threads is not None:
        text = changed(text, {'planner': {'threads': threads}})
    try:
        task = parse_task(text, first.task)
        loop, observers = make_loop(task, cells)
        misfit_s = run(loop)
        elapsed = (time.perf_counter() - start) / len(cells)
        names = ('' if cell.kind.in_loop else cell.estimator for cell in cells)
        records = (observers.records[name] for name in names)
        pairs = zip(cells, records, strict=True)
        return [_row(cell, loop, record, misfit_s, elapsed) for cell, record in pairs]
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
    others = {
        name: estimators.make(kind, task, seed) for name, kind in kinds.items() if not kind.in_loop
    }
    observers = Observers(loop.filter, first, others)
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
    cell: BeliefCell, loop: ClosedLoop, record: Record, misfit_s: float | None, compute_s: float
) -> BeliefRow:
    task, trace = loop.task, loop.trace
    changes, pending = loop.robot.schedule.changes, loop.robot.schedule.pending
    success, time_s = None, None
    if cell.kind.in_loop:
        success, time_s = success_after_change(task, trace, changes)
        success = success and not pending  # a load that was never picked up
    beliefs = record.beliefs if cell.kind.believes else []
    chosen = _thinned(len(beliefs))
    return BeliefRow(
        task=cell.task,
        world=cell.world,
        estimator=cell.estimator,
        seed=cell.seed,
        digest=cell.digest,
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
        compute_s=compute_s,
        made_by=hardware.label(),
    )


def success_after_change(task: Task, trace: Trace, changes: Changes) -> tuple[bool, float]:
    """Return whether the task succeeds from the last change of the truth on, and the time [s]."""
    start = max(_starts(changes), default=0.0)
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


def _starts(changes: Changes) -> list[float]:
    """Return the times [s] at which the truth begins to change, in order."""
    return sorted({change.at_s for own in changes.values() for change in own})


def _thinned(count: int) -> list[int]:
    """Return up to MAX_TIMES of `count` indices, with the first and the last."""
    if not count:
        return []
    return np.unique(np.linspace(0, count - 1, min(count, MAX_TIMES)).round().astype(int)).tolist()


def _truth_at(truths: Sequence[tuple[float, Array]], stamps: Array) -> Array:
    """Return the true values (n, P) at stamps (n,); each holds until the next."""
    starts = [start for start, _ in truths]
    index = np.maximum(np.searchsorted(starts, stamps + 1e-9, 'right') - 1, 0)
    return np.array([value for _, value in truths])[index]


def scored(task: Task) -> list[int]:
    """Return the uncertain parameters, except those of joints with an uncertain axis."""
    judged = errors.has_interval(task)
    return [i for i in range(len(judged)) if judged[i] and task.prior.spread[i] > 0.0]


def score(
    task: Task,
    truths: Sequence[tuple[float, Array]],
    beliefs: Sequence[tuple[float, Belief]],
    changes: Changes,
) -> dict[str, ParameterScores]:
    """
    Return the scores of beliefs over time by parameter.

    Parameters
    ----------
    task : Task
        The task.
    truths : sequence
        Time [s] and true values (P,), each until the next.
    beliefs : sequence
        Time [s] and belief of each update.
    changes : mapping
        Changes of the truth by column.

    """
    stamps = np.array([stamp for stamp, _ in beliefs])
    true = _truth_at(truths, stamps)
    true_z = to_unbounded(task.parameters, true)
    draws = task.prior.sample(_PRIOR_DRAWS, np.random.default_rng(0))
    z = [to_unbounded(task.parameters, belief.theta) for _, belief in beliefs]
    counted = scores.settled(stamps, _starts(changes))
    result = {}
    for i in scored(task):
        parameter = task.parameters[i]
        own = [change.at_s for change in changes.get(i, ())]
        columns = [
            _score_one(belief, z[k][:, i], i, true[k, i], true_z[k, i], draws[:, i].std(), task)
            for k, (_, belief) in enumerate(beliefs)
        ]
        values = np.array(columns)  # (n, 5)
        inside = values[:, 1] > 0.0
        at_first = stamps < (own[0] if own else np.inf)
        means = values[counted].mean(axis=0).tolist() if counted.any() else [None] * 5
        last = beliefs[-1][1]
        mean, sd, low, high = _summary(last, i)
        result[parameter.name] = ParameterScores(
            *means,
            found_s=scores.recovery_time(stamps[at_first], inside[at_first], 0.0),
            changes=bool(own),
            recovered_s=scores.recovery_time(stamps, inside, own[-1]) if own else None,
            true=float(true[-1, i]),
            mean=mean,
            sd=sd,
            low=low,
            high=high,
            unit=parameter.unit,
        )
    return result


def _score_one(
    belief: Belief, z: Array, i: int, true: float, true_z: float, scale: float, task: Task
) -> tuple[float, float, float, float, float]:
    """Return the five scores of one belief about parameter `i`."""
    log_weights, values = belief.log_weights, belief.theta[:, i]
    mean, sd, _, _ = _summary(belief, i)
    error = (true - mean) / max(sd, scores.NARROWEST * scale)
    spread = task.prior.spread[i]
    mean_z = float(weights.mean(log_weights, z))
    sd_z = float(np.sqrt(weights.covariance(log_weights, z[:, None])[0, 0]))
    return (
        float(scores.is_inside(log_weights, values, true, 0.5)),
        float(scores.is_inside(log_weights, values, true, 0.9)),
        error**2,
        scores.crps(log_weights, values, true) / scale,
        scores.normal_log_score(
            mean_z / spread, max(sd_z / spread, scores.NARROWEST), true_z / spread
        ),
    )


def _summary(belief: Belief, i: int) -> tuple[float, float, float, float]:
    """Return mean, sd, and the ends of the 90 % interval of parameter `i`."""
    log_weights, values = belief.log_weights, belief.theta[:, i : i + 1]
    return (
        float(weights.mean(log_weights, values)[0]),
        float(np.sqrt(weights.covariance(log_weights, values)[0, 0])),
        float(weights.quantile(log_weights, values, LOW)[0]),
        float(weights.quantile(log_weights, values, HIGH)[0]),
    )


def series(
    task: Task,
    truths: Sequence[tuple[float, Array]],
    beliefs: Sequence[tuple[float, Belief]],
) -> dict[str, ParameterSeries]:
    """Return truth, mean and 90 % interval of each scored parameter over time."""
    true = _truth_at(truths, np.array([stamp for stamp, _ in beliefs]))
    result = {}
    for i in scored(task):
        summaries = np.array([_summary(belief, i) for _, belief in beliefs])
        mean, _, low, high = (tuple(column) for column in summaries.T.tolist())
        result[task.parameters[i].name] = ParameterSeries(
            tuple(true[:, i].tolist()), mean, low, high
        )
    return result
