"""What a cell came to: one frozen row, which travels as a line of JSON."""

from collections.abc import Mapping, Sequence
import dataclasses
from dataclasses import dataclass
import json

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.bench.paper import errors
from emppi_ros.core import config, weights
from emppi_ros.core.errors import BenchError, ConfigError
from emppi_ros.model import uncertain_joints
from emppi_ros.model.parameters import with_parameters
from emppi_ros.session.trace import Trace
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
MOMENTS = 60  # of a course, at most: more are not seen in a plot
LOW, HIGH = 0.05, 0.95  # quantiles: the ends of a 90 % interval


@dataclass(frozen=True)
class Estimate:
    """
    What was believed of one parameter at the end.

    Elements of an axis are those of unit vectors whose sign is the true one's.
    """

    true: float
    mean: float
    sd: float
    low: float  # 5 % quantile
    high: float  # 95 %
    unit: str = ''
    judged: bool = True  # False: part of an open joint, whose numbers are not to be told apart

    @property
    def inside(self) -> bool | None:
        """Whether the true value lies in the 90 % interval; None if that would say nothing."""
        return self.low <= self.true <= self.high if self.judged else None


@dataclass(frozen=True)
class Course:
    """How the estimates went on, at a few moments from the start to the last update."""

    times: tuple[float, ...]  # s
    squared_error: tuple[float, ...]  # see bench/paper/errors.py; units squared, summed
    means: Mapping[str, tuple[float, ...]]  # of each parameter


@dataclass(frozen=True)
class Attempt:
    """One of a row of targets: when it ended, and how."""

    ended_s: float
    reached: bool
    lost: bool


@dataclass(frozen=True)
class Row:
    """One finished cell; those of a calibration plan nothing and succeed at nothing."""

    study: str
    task: str
    controller: str
    seed: int
    models: int  # 0: the task's own
    rollouts: int
    digest: str  # of the task's YAML
    success: bool
    time_s: float  # until success, or all that was allowed
    limit_s: float  # what was allowed
    steps: int  # plans
    squared_error: float  # at the end
    parameters: Mapping[str, Estimate]
    course: Course
    attempts: tuple[Attempt, ...]  # where targets follow one another
    diverged: int  # rollouts
    degenerate: int  # belief updates that no particle could explain
    plan_ms: float | None  # at the median; None without a plan
    plan_p99_ms: float | None
    period_ms: float  # between plans: longer ones are not real time
    compute_s: float
    made_by: str  # version and processor
    right_kind: float | None = None  # see `share_after_moving`

    @property
    def key(self) -> tuple[str | int, ...]:
        """What tells its cell from all others."""
        return self.study, self.task, self.controller, self.seed, self.models, self.rollouts

    @property
    def goals_s(self) -> list[float]:
        """When targets were reached."""
        return [attempt.ended_s for attempt in self.attempts if attempt.reached]


def to_line(row: Row) -> str:
    """Return a row as JSON, on one line."""
    return json.dumps(dataclasses.asdict(row), allow_nan=False)


def from_line(line: str, where: str) -> Row:
    """Return the row in a line of JSON."""
    try:
        return config.build(Row, json.loads(line), where)
    except (ValueError, ConfigError) as error:
        raise BenchError(
            f'{where}: no row of this benchmark ({error}); remove the line, or give another --out'
        ) from None


def estimates(task: Task, truth: Array, belief: Belief) -> dict[str, Estimate]:
    """Return mean, sd and 90 % interval of each parameter."""
    theta, log_weights = errors.told(task, belief.theta, truth), belief.log_weights
    (true,) = errors.told(task, truth[None], truth)
    columns = (
        errors.centre(task, belief, truth),
        np.sqrt(np.diag(weights.covariance(log_weights, theta))),
        weights.quantile(log_weights, theta, LOW),
        weights.quantile(log_weights, theta, HIGH),
    )
    judged = errors.has_interval(task)
    return {
        parameter.name: Estimate(
            float(true[i]), *(float(column[i]) for column in columns), parameter.unit, judged[i]
        )
        for i, parameter in enumerate(task.parameters)
    }


def course(task: Task, truth: Array, beliefs: Sequence[tuple[float, Belief]]) -> Course:
    """Return how the means went on over stamped beliefs, thinned evenly; the ends stay."""
    count = min(len(beliefs), MOMENTS)
    chosen = np.unique(np.linspace(0, len(beliefs) - 1, count).round().astype(int))
    means = np.array([errors.centre(task, beliefs[i][1], truth) for i in chosen])
    return Course(
        times=tuple(float(beliefs[i][0]) for i in chosen),
        squared_error=tuple(errors.squared_error(task, beliefs[i][1], truth) for i in chosen),
        means={
            parameter.name: tuple(means[:, i].tolist())
            for i, parameter in enumerate(task.parameters)
        },
    )


def share_after_moving(task: Task, trace: Trace) -> float | None:
    """
    Return the share of the belief on the true kind of an open joint once its body has moved.

    It is that of the first belief after the body was joints.MOVED_M from its start; the least, if
    several joints are open. None: no joint is, none has moved so far, or nothing was learned.
    """
    found = []
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
            found.append(errors.share_of_kind(task, joint, belief, trace.truth))
    return min(found, default=None)
