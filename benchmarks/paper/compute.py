"""Compute the row of a cell, on any machine: the same cell gives the same bits."""

from collections.abc import Sequence
import time

import numpy as np

from benchmarks.paper import errors
from benchmarks.paper.cells import (
    CALIBRATION,
    LEARNER,
    LEARNING,
    RISK,
    AttemptResult,
    Cell,
    EstimateSeries,
    ParameterEstimate,
    Row,
    parse_with_threads,
)
from benchmarks.study import computed
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.app.trace import Trace
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.model import uncertain_joints
from emppi_ros.model.parameters import with_parameters
from emppi_ros.priors.particles import Belief
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.state.estimator import Estimator
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.calibration_record import has_interval
from emppi_ros.tasks.task import Task

MAX_TIMES = 60  # of an estimate series: more are not visible in a plot
LOW, HIGH = 0.05, 0.95  # quantiles: the ends of a 90 % interval
DURATION_S = 2.0  # of a calibration run
RATE_HZ = 100.0  # of its commands
SHARE = 0.3  # of the limits: a cart stays on its rail
WAVES, LOWEST_HZ, HIGHEST_HZ = 4, 0.5, 3.0


def compute(cell: Cell, threads: int | None = None) -> Row:
    """Return the row of a cell; `threads` replaces the threads of each planner and filter."""
    began = time.perf_counter()
    try:
        task = parse_with_threads(cell.text, cell.task, threads)
        if cell.study == CALIBRATION:
            trace, prior = run_open_loop(task, cell.seed)
        else:
            controller = LEARNER if cell.study == RISK else cell.controller
            loop = ClosedLoop(task, cell.seed, controller)
            prior = loop.filter.belief
            trace = loop.run(stop_at_success=cell.study != LEARNING)
    except EmppiError as error:
        raise type(error)(f'{cell}: {error}') from None
    return _row(cell, task, trace, prior, began)


def _row(cell: Cell, task: Task, trace: Trace, prior: Belief, began: float) -> Row:
    limit = task.file.duration_s
    beliefs: Sequence[tuple[float, Belief]] = [(0.0, prior), *trace.beliefs]
    course = estimate_series(task, trace.truth, beliefs)
    plan_ms = 1e3 * np.array(trace.plan_s)
    return Row(
        **computed(cell, began),
        success=trace.success,
        time_s=limit if trace.success_time is None else trace.success_time,
        limit_s=limit,
        steps=len(trace.plan_s),
        squared_error=course.squared_error[-1],
        parameters=estimates(task, trace.truth, beliefs[-1][1]),
        course=course,
        attempts=tuple(
            AttemptResult(float(attempt.end), bool(attempt.reached), bool(attempt.lost))
            for attempt in trace.attempts
        ),
        diverged=trace.diverged,
        degenerate=trace.degenerate,
        plan_ms=float(np.median(plan_ms)) if len(plan_ms) else None,
        plan_p99_ms=float(np.percentile(plan_ms, 99)) if len(plan_ms) else None,
        period_ms=1e3 / task.planner.rate_hz,
        right_kind=share_after_moving(task, trace),
    )


def run_open_loop(task: Task, seed: int) -> tuple[Trace, Belief]:
    """
    Return the trace of a calibration run, and the prior.

    The belief filters while random smooth commands move the robot, without any control. The true
    values are drawn from the prior: only then must a 90 % interval hold 90 % of them.
    """
    (truth,) = task.prior.sample(1, np.random.default_rng([seed, 0]))
    trace, robot = Trace([(0.0, truth)]), SimulatedRobot(task, truth, seed)
    belief = ParticleFilter(task, np.random.default_rng([seed, 2]))
    before = belief.belief
    dt, duration = task.simulation.timestep_s, min(DURATION_S, task.file.duration_s)
    plan = smooth_commands(task, np.random.default_rng([seed, 3]), duration)
    applied, estimator = TimeSeries('applied commands', reach_s=np.inf), Estimator(task)
    every = {
        'reading': max(1, round(1.0 / task.simulation.joint_state_rate_hz / dt)),
        'command': max(1, round(1.0 / RATE_HZ / dt)),
        'update': max(1, round(task.belief.interval_s / dt)),
    }
    for step in range(round(duration / dt)):
        now = robot.time
        if step % every['reading'] == 0:
            reading = robot.read_joints()
            estimator.add_joints(reading.stamp, reading.position, reading.velocity)
        if step % every['update'] == 0:
            update = belief.observe(now, estimator.observation(now), applied)
            if update is not None:
                trace.degenerate += update.reinjected
                trace.beliefs.append((now, belief.belief))
        if step % every['command'] == 0:
            command = plan[step // every['command']]
            robot.command(command)
            applied.append(now, command)
        robot.step()
    return trace, before


def smooth_commands(task: Task, rng: np.random.Generator, duration_s: float) -> Array:
    """
    Return smooth random commands (n, joints) at RATE_HZ: a sum of cosines for each joint.

    Cosines start at their maximum, so that a cart under a force swings about its start instead
    of drifting away.
    """
    limits = task.robot.control_limits(task.planner.step_s)
    count = len(task.robot.commanded)
    times = np.arange(int(duration_s * RATE_HZ) + 1) / RATE_HZ
    frequency = rng.uniform(LOWEST_HZ, HIGHEST_HZ, (WAVES, count))
    size = rng.standard_normal((WAVES, count)) / np.sqrt(WAVES)
    waves = size * np.cos(2.0 * np.pi * frequency * times[:, None, None])  # (n, WAVES, joints)
    centre, reach = 0.5 * (limits.upper + limits.lower), 0.5 * (limits.upper - limits.lower)
    return np.clip(centre + SHARE * reach * waves.sum(axis=1), limits.lower, limits.upper)


def estimates(task: Task, truth: Array, belief: Belief) -> dict[str, ParameterEstimate]:
    """Return mean, sd and 90 % interval of each parameter."""
    theta, log_weights = errors.comparable(task, belief.theta, truth), belief.log_weights
    (true,) = errors.comparable(task, truth[None], truth)
    mean = errors.mean(task, belief, truth)
    sd = np.sqrt(np.diag(weights.covariance(log_weights, theta)))
    low, high = (weights.quantile(log_weights, theta, at) for at in (LOW, HIGH))
    judged = has_interval(task)
    return {
        parameter.name: ParameterEstimate(
            true=float(true[i]),
            mean=float(mean[i]),
            sd=float(sd[i]),
            low=float(low[i]),
            high=float(high[i]),
            unit=parameter.unit,
            judged=judged[i],
        )
        for i, parameter in enumerate(task.parameters)
    }


def thinned(count: int) -> list[int]:
    """Return up to MAX_TIMES of `count` indices, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, MAX_TIMES)).round().astype(int)).tolist()


def estimate_series(
    task: Task, truth: Array, beliefs: Sequence[tuple[float, Belief]]
) -> EstimateSeries:
    """Return the means of stamped beliefs, thinned evenly; the first and last are kept."""
    chosen = thinned(len(beliefs))
    means = np.array([errors.mean(task, beliefs[i][1], truth) for i in chosen])
    return EstimateSeries(
        times=tuple(float(beliefs[i][0]) for i in chosen),
        squared_error=tuple(errors.squared_error(task, beliefs[i][1], truth) for i in chosen),
        means={
            parameter.name: tuple(means[:, i].tolist())
            for i, parameter in enumerate(task.parameters)
        },
    )


def share_after_moving(task: Task, trace: Trace) -> float | None:
    """
    Return the belief's share of the true kind of an uncertain joint once its body has moved.

    That is the first belief after the body was `uncertain_joints.MOVED_M` from its start; with
    several uncertain joints the least share. None without an uncertain joint, such a motion or
    an update of the belief.
    """
    shares = []
    true = with_parameters(task.model, task.parameters, trace.truth)
    qpos = np.array([frame.qpos for frame in trace.frames])
    for joint in uncertain_joints.uncertain(task.model, task.parameters):
        moved = uncertain_joints.first_moved(
            true, joint, task.start(), qpos, uncertain_joints.MOVED_M
        )
        if moved is None:
            continue
        since = trace.frames[moved].time
        belief = next((belief for stamp, belief in trace.beliefs if stamp >= since), None)
        if belief is not None:
            shares.append(errors.share_of_kind(task, joint, belief, trace.truth))
    return min(shares, default=None)
