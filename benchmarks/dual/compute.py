"""Compute the row of a cell: a pendulum that takes a load, under a controller that learns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import time
from typing import NamedTuple

import numpy as np

from benchmarks import ASSETS
from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import belief_digest
from benchmarks.belief.scores import recovery_time, truth_at
from benchmarks.digests import code_digest, task_digest
from benchmarks.dual import stein
from benchmarks.paper.cells import parse_with_threads
from benchmarks.study import Computed, Run, computed
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.calibration.belief_scores import summarize
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import Belief
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.task import Task

TASK = ASSETS / 'dual_pendulum.yaml'
_FILES = 'benchmarks/assets/dual_pendulum.xml', 'benchmarks/assets/dual_pendulum_robot.yaml'
SETTLING_S, LAST_S, EVERY_S = 1.0, 1.0, 0.5
LEARNER, STEIN, TUNED = METHODS = (EMPPI, 'dust-mpc', 'dust-mpc-tuned')
TUNED_SD = 0.03  # the best of 0.1, 0.03 and the simulated noise on seeds 100 and 101
DESCRIPTIONS = {
    LEARNER: 'path integral control with a particle filter',
    STEIN: 'DuSt-MPC with the standard deviation of measurements in the example of its authors, '
    f'{stein.OBSERVATION_SD:g} rad and rad/s',
    TUNED: f'DuSt-MPC with {TUNED_SD:g} rad and rad/s, the best of three on seeds 100 and 101',
}


@dataclass(frozen=True)
class DualRun(Run):
    """A controller that learns, on a pendulum."""

    method: str
    seed: int


@dataclass(frozen=True)
class DualCell(DualRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML

    @property
    def digest(self) -> str:
        """The digest of the task, its files and the method's code: others are outdated."""
        stein_code = code_digest('benchmarks/dual/stein.py')
        code = belief_digest(EMPPI) if self.method == LEARNER else stein_code
        return f'{task_digest(self.text)}-{code_digest(*_FILES)}-{code}'


@dataclass(frozen=True)
class DualParameter:
    """How a belief follows a parameter, before and after the change of the mass."""

    inside_before: float  # share of 90 % intervals that hold the truth, after a second
    inside_after: float
    error_before: float  # mean of |mean - truth| / truth in the last second
    error_after: float
    recovered_s: float | None  # from the change until the interval holds the truth for 0.5 s
    errors: tuple[float, ...]  # every EVERY_S


@dataclass(frozen=True)
class DualRow(DualRun, Computed):
    """The result of one cell."""

    success_before: bool
    success_after: bool
    parameters: Mapping[str, DualParameter]


class DualMotion(NamedTuple):
    """The record of a run."""

    errors: Sequence[tuple[float, float]]  # times [s] and errors of the task
    truths: Sequence[tuple[float, Array]]  # times [s] and true parameters, each until the next
    beliefs: Sequence[tuple[float, Belief]]


def compute(cell: DualCell, threads: int | None = None) -> DualRow:
    """Return the row of a cell; `threads` replaces the threads of the planner."""
    began = time.perf_counter()
    task = parse_with_threads(cell.text, str(TASK), threads)
    motion = run_ours(task, cell.seed) if cell.method == LEARNER else run_stein(task, cell)
    change = task.simulation.changes[0].at_s
    before = [sample for sample in motion.errors if sample[0] < change]
    after = [sample for sample in motion.errors if sample[0] >= change]
    return DualRow(
        **computed(cell, began),
        success_before=_is_held(task, before),
        success_after=_is_held(task, after),
        parameters=_follow(task, motion, change),
    )


def run_ours(task: Task, seed: int) -> DualMotion:
    """Run the closed loop of the package."""
    loop = ClosedLoop(task, seed)
    trace = loop.run(stop_at_success=False)
    errors = [(frame.time, frame.error) for frame in trace.frames]
    return DualMotion(errors, trace.truths, trace.beliefs)


def run_stein(task: Task, cell: DualCell) -> DualMotion:
    """Run DuSt-MPC on the same simulated robot, from the same noisy measurements."""
    robot = SimulatedRobot(task, draw_truth(task, cell.seed), cell.seed)
    sd = TUNED_SD if cell.method == TUNED else stein.OBSERVATION_SD
    parameters = stein.SteinParameters(task, cell.seed, sd)
    plans = stein.SteinPlans(task, cell.seed)
    last: State | None = None
    control = np.zeros((1, 1))
    errors, truths, beliefs = [], [(0.0, robot.truth)], []
    for _ in range(round(task.file.duration_s / task.simulation.timestep_s)):
        reading = robot.read_joints()
        state = State(reading.position, reading.velocity)
        if last is not None:
            parameters.learn(last, control, state)
            beliefs.append((robot.time, parameters.belief))
        control = np.array([[plans.plan(state, parameters)]])
        last = state
        robot.command(control[0])
        robot.step()
        if robot.truth is not truths[-1][1]:
            truths.append((robot.time, robot.truth))
        errors.append((robot.time, task.error(robot.model, robot.data)))
    return DualMotion(errors, truths, beliefs)


def _is_held(task: Task, errors: Sequence[tuple[float, float]]) -> bool:
    """Return whether the task's condition holds for long enough."""
    held, condition = HoldTimer(), task.file.success
    return any(held.update(error < condition.below, t, condition.hold_s) for t, error in errors)


def _follow(task: Task, motion: DualMotion, change: float) -> dict[str, DualParameter]:
    """Return how the beliefs follow each parameter."""
    stamps = np.array([stamp for stamp, _ in motion.beliefs])
    truth = truth_at(motion.truths, stamps)
    end, result = stamps[-1], {}
    phases = (SETTLING_S, change), (change + SETTLING_S, np.inf)
    for i, parameter in enumerate(task.parameters):
        rows = np.array([summarize(belief, i) for _, belief in motion.beliefs])
        inside = (rows[:, 2] <= truth[:, i]) & (truth[:, i] <= rows[:, 3])
        error = np.abs(rows[:, 0] - truth[:, i]) / truth[:, i]
        inside_before, inside_after = (
            float(np.mean(inside[(a <= stamps) & (stamps < b)])) for a, b in phases
        )
        error_before, error_after = (
            float(np.mean(error[(b - LAST_S <= stamps) & (stamps < b)])) for b in (change, end)
        )
        times = np.arange(EVERY_S, end, EVERY_S)
        shown = error[np.searchsorted(stamps, times)]
        result[parameter.name] = DualParameter(
            inside_before, inside_after, error_before, error_after,
            recovery_time(stamps, inside, change), tuple(shown.tolist()),
        )  # fmt: skip
    return result
