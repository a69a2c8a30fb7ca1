"""Compute the row of a cell: a swing-up with a model that is simulated, or a trained network."""

from dataclasses import dataclass, field
import time
from typing import NamedTuple

import numpy as np

from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import belief_digest
from benchmarks.digests import code_digest, task_digest
from benchmarks.learned import dynamics
from benchmarks.learned.dynamics import LearnedModel, Network
from benchmarks.paper.cells import parse_with_threads
from benchmarks.study import Computed, Run, computed
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.tasks.task import Task

TASK, MEAN, ORACLE = 'cartpole_swingup', 'mppi-mean', 'mppi-true'
AFTER_S = 0.3, 1.2  # times of a prediction at which its error counts; the last is the horizon


class TrainingData(NamedTuple):
    """What a network is trained on."""

    seconds: float  # of motion
    same: bool = False  # of the pole of the run; else of as many poles of the prior


DATA = {
    'mppi-learned-100': TrainingData(100.0),
    'mppi-learned-1000': TrainingData(1000.0),
    'mppi-learned-5000': TrainingData(5000.0),
    'mppi-learned-true-1000': TrainingData(1000.0, same=True),
}
METHODS = (EMPPI, ORACLE, MEAN, *DATA)
_CODE = 'benchmarks/learned/dynamics.py', 'benchmarks/learned/compute.py'  # of networks


@dataclass(frozen=True)
class LearnedRun(Run):
    """A controller on the cart-pole."""

    method: str
    seed: int


@dataclass(frozen=True)
class LearnedCell(LearnedRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML
    updates: int = dynamics.UPDATES  # of a network in its training

    @property
    def digest(self) -> str:
        """The digest of the task and of the method's code: others are outdated."""
        code = belief_digest(EMPPI) if self.method == EMPPI else ''
        if self.method in DATA:
            code = f'{code_digest(*_CODE)}-{self.updates}'
        return f'{task_digest(self.text)}-{code}'


@dataclass(frozen=True)
class LearnedRow(LearnedRun, Computed):
    """The result of one cell."""

    success: bool
    time_s: float  # until success, else the limit
    errors: tuple[float, ...] | None  # of predicted angles, see `prediction_errors`; one model


def compute(cell: LearnedCell, threads: int | None = None) -> LearnedRow:
    """Return the row of a cell; `threads` replaces the threads of the planner."""
    began = time.perf_counter()
    task = parse_with_threads(cell.text, TASK, threads)
    data = DATA.get(cell.method)
    loop = ClosedLoop(task, cell.seed, cell.method if data is None else MEAN)
    truth = loop.trace.truth
    if data is not None:
        network = trained(task, data, truth, cell.seed, cell.updates)
        loop.planner.ensemble = LearnedModel(task, network, loop.planner.ensemble.rollouts)
    model = loop.planner.ensemble
    errors = prediction_errors(task, model, truth, cell.seed) if model.models == 1 else None
    trace = loop.run()
    limit = task.file.duration_s
    return LearnedRow(
        **computed(cell, began),
        success=trace.success,
        time_s=limit if trace.success_time is None else trace.success_time,
        errors=errors,
    )


def trained(task: Task, data: TrainingData, truth: Array, seed: int, updates: int) -> Network:
    """Return a network, another one for each seed, trained on motion of the truth or the prior."""
    rng = np.random.default_rng([seed, 6])
    count = round(data.seconds / (dynamics.STEPS * task.planner.step_s))
    theta = np.tile(truth, (count, 1)) if data.same else task.prior.sample(count, rng)
    return Network(task, dynamics.record(task, theta, rng), rng, updates)


def prediction_errors(task: Task, model: Ensemble, truth: Array, seed: int) -> tuple[float, ...]:
    """
    Return the median errors [rad] of predicted angles of the pole, at AFTER_S.

    The motion, one recording for each rollout of the model, is that of the true pole under random
    controls from random states, as in the training.
    """
    rng, step_s = np.random.default_rng([seed, 7]), task.planner.step_s
    motion = dynamics.record(task, np.tile(truth, (model.rollouts, 1)), rng)
    start = State(*(x[None, :, 0] for x in motion.states))
    records = model.rollout(start, motion.controls[None], State._fields)
    steps = np.array([round(after / step_s) for after in AFTER_S])
    (column,) = np.flatnonzero(task.model.jnt_type == scene.HINGE)
    predicted = records.fields['qpos'][0, :, steps * task.planner.substeps - 1, column]
    errors = np.abs(predicted - motion.states.qpos[:, steps, column].T)
    return tuple(float(median) for median in np.median(errors, axis=1))
