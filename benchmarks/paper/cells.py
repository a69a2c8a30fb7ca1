"""The runs of the benchmark: each cell describes one completely, and a row is its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from benchmarks.digests import task_digest
from benchmarks.study import Computed, Run
from emppi_ros.core import config, yaml_edit
from emppi_ros.core.errors import ConfigError
from emppi_ros.strategies.risk import MEASURES as RISK_MEASURES
from emppi_ros.tasks.task import Task, parse_task, task_text

TASKS = (
    'halfcheetah_backflip',
    'shadow_dice',
    'adroit_door',
    'panda_drawer',
    'panda_cabinet',
    'panda_push',
    'panda_reconfigure',
    'cartpole_swingup',
)
LEARNER, ORACLE, WRONG = 'emppi', 'mppi-true', 'mppi-wrong'
CONTROLLERS = (LEARNER, ORACLE, WRONG, 'mppi-mean', 'no-update')
SUCCESS, LEARNING, ABLATION, CALIBRATION, RISK = STUDIES = (
    'success', 'learning', 'ablation', 'calibration', 'risk',
)  # fmt: skip

SEEDS, PANDA_SEEDS = 10, 20
LEARNING_S = {'halfcheetah_backflip': 10.0, 'shadow_dice': 4.0}  # also after success
STUDIED = 'cartpole_swingup'  # quick to run, and its parameters are identifiable
ABLATION_MODELS, ABLATION_ROLLOUTS, ABLATION_SEEDS = (1, 4, 16), (1, 4), 10
RISK_TASKS, RISK_SEEDS = (STUDIED, 'panda_push'), 10
MEASURES, RISK_SIZE = ('none', *RISK_MEASURES), {'models': 8, 'rollouts': 8}
CALIBRATION_RUNS = 120  # a rate of 0.9 then has a standard error of 0.027
QUICK_S, QUICK_SEEDS, QUICK_RUNS = 0.5, 1, 4


@dataclass(frozen=True)
class PaperRun(Run):
    """A controller on a task; nonzero `models` and `rollouts` replace the task's."""

    study: str
    task: str
    controller: str
    seed: int
    models: int = field(default=0, kw_only=True)
    rollouts: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class Cell(PaperRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML, with all changes

    @property
    def digest(self) -> str:
        """The task's digest: rows with another one are outdated."""
        return task_digest(self.text)

    def __str__(self) -> str:
        """Return a description for messages."""
        size = f' with {self.models} x {self.rollouts}' if self.models else ''
        return f'{self.study}: {self.task}, {self.controller}{size}, seed {self.seed}'


@dataclass(frozen=True)
class ParameterEstimate:
    """
    The final belief about one parameter.

    Components of an axis are those of unit vectors that point the same way as the true one.
    """

    true: float
    mean: float
    sd: float
    low: float  # 5 % quantile
    high: float  # 95 %
    unit: str = ''
    judged: bool = True  # False: component of an uncertain joint, not comparable by itself

    @property
    def inside(self) -> bool | None:
        """Whether the true value lies in the 90 % interval; None if it cannot be judged."""
        return self.low <= self.true <= self.high if self.judged else None


@dataclass(frozen=True)
class EstimateSeries:
    """The estimates at a few times from the start to the last update."""

    times: tuple[float, ...]  # s
    squared_error: tuple[float, ...]  # see `errors`
    means: Mapping[str, tuple[float, ...]]  # of each parameter


@dataclass(frozen=True)
class AttemptResult:
    """One of several consecutive targets: when the attempt ended, and how."""

    ended_s: float
    reached: bool
    lost: bool


@dataclass(frozen=True)
class Row(PaperRun, Computed):
    """The result of one cell; calibration runs have no plans and no success."""

    success: bool
    time_s: float  # until success, else the limit
    limit_s: float  # time limit
    steps: int  # plans
    squared_error: float  # at the end
    parameters: Mapping[str, ParameterEstimate]
    course: EstimateSeries
    attempts: tuple[AttemptResult, ...]  # of consecutive targets
    diverged: int  # rollouts
    degenerate: int  # belief updates that no particle explained
    plan_ms: float | None  # median; None without plans
    plan_p99_ms: float | None
    period_ms: float  # of planning: longer plans are not real time
    right_kind: float | None = None  # see `compute.share_after_moving`

    @property
    def goals_s(self) -> list[float]:
        """Times at which targets were reached [s]."""
        return [attempt.ended_s for attempt in self.attempts if attempt.reached]


class Request(NamedTuple):
    """The selection on the command line."""

    tasks: Sequence[str] = TASKS
    controllers: Sequence[str] = CONTROLLERS
    studies: Sequence[str] = STUDIES
    seeds: Sequence[int] | None = None  # None: each task's own number
    quick: bool = False


def make_cells(request: Request) -> list[Cell]:
    """
    Return all cells of a request, ordered by seed, so that partial results are comparable.

    Every task is loaded once, so that an invalid one is an error before anything runs.
    """
    cells: list[Cell] = []
    for name in request.tasks:
        text = task_text(name)
        task = parse_task(text, name)
        if request.quick:
            text = changed(text, {'duration_s': min(QUICK_S, task.file.duration_s)})
        if SUCCESS in request.studies:
            cells += _success(request, task, text)
        if LEARNING in request.studies:
            cells += _learning(request, task, text)
        if task.name == STUDIED:
            cells += _studies(request, task, text)
        if RISK in request.studies and task.name in RISK_TASKS:
            cells += _risk(request, task, text)
    return sorted(cells, key=lambda cell: cell.seed)  # stable: tasks keep their order


def seeds_of(request: Request, task: str) -> Sequence[int]:
    """Return the seeds of a task's runs."""
    if request.seeds is not None:
        return request.seeds
    if request.quick:
        return range(QUICK_SEEDS)
    return range(PANDA_SEEDS if task.startswith('panda_') else SEEDS)


def _success(request: Request, task: Task, text: str) -> list[Cell]:
    if WRONG in request.controllers and not task.simulation.wrong:
        raise ConfigError(
            f'{task.name}: controller {WRONG!r} needs a wrong model in the task file '
            '(simulation: wrong: {name: value})'
        )
    return [
        Cell(SUCCESS, task.name, controller, seed, text)
        for seed in seeds_of(request, task.name)
        for controller in request.controllers
    ]


def _learning(request: Request, task: Task, text: str) -> list[Cell]:
    """Return the cells of longer runs, which continue after success: estimates may converge."""
    seconds = LEARNING_S.get(task.name)
    if seconds is None or LEARNER not in request.controllers:
        return []
    longer = changed(text, {'duration_s': min(seconds, QUICK_S) if request.quick else seconds})
    return [
        Cell(LEARNING, task.name, LEARNER, seed, longer) for seed in seeds_of(request, task.name)
    ]


def _studies(request: Request, task: Task, text: str) -> list[Cell]:
    """Return the cells of the ablation over M and K, and of the calibration."""
    cells = []
    if ABLATION in request.studies:
        seeds = seeds_of(request, task.name)[:ABLATION_SEEDS]
        for models in ABLATION_MODELS:
            for rollouts in ABLATION_ROLLOUTS:
                size = {'models': models, 'rollouts': rollouts}
                smaller = changed(text, {'planner': size})
                cells += [
                    Cell(ABLATION, task.name, LEARNER, seed, smaller, **size) for seed in seeds
                ]
    if CALIBRATION in request.studies:
        runs = QUICK_RUNS if request.quick else CALIBRATION_RUNS
        cells += [Cell(CALIBRATION, task.name, 'filter', seed, text) for seed in range(runs)]
    return cells


def _risk(request: Request, task: Task, text: str) -> list[Cell]:
    """Return the cells of EMPPI with each risk measure, whose name replaces the controller's."""
    seeds = seeds_of(request, task.name)[:RISK_SEEDS]
    texts = {name: changed(text, {'planner': {'risk': name, **RISK_SIZE}}) for name in MEASURES}
    return [
        Cell(RISK, task.name, name, seed, weighed, **RISK_SIZE)
        for seed in seeds
        for name, weighed in texts.items()
    ]


def changed(text: str, changes: Mapping[str, Any]) -> str:
    """Return a task's YAML with some keys changed; mappings in it are merged."""
    data = yaml_edit.merged(config.parse(text, 'task'), changes)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def parse_with_threads(text: str, source: str, threads: int | None) -> Task:
    """Return a task; `threads` replaces the threads of planner and filter, if it is given."""
    if threads is not None:
        text = changed(text, {'planner': {'threads': threads}})
    return parse_task(text, source)
