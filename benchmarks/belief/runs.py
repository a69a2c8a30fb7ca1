"""Runs of estimators in worlds: cells, and their rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.belief.estimators import EMPPI, ESTIMATORS, EstimatorKind
from benchmarks.belief.scores import ParameterScores
from benchmarks.digests import code_digest, task_digest
from benchmarks.study import Computed, Run

_CODE = (  # of all beliefs
    'emppi_ros/belief/*.py',
    'emppi_ros/priors/*.py',
    'emppi_ros/calibration/belief_scores.py',
    'benchmarks/belief/compute.py',
    'benchmarks/belief/estimators.py',
    'benchmarks/belief/scores.py',
)


@dataclass(frozen=True)
class BeliefRun(Run):
    """An estimator in a world of a task."""

    task: str
    world: str
    estimator: str
    seed: int


@dataclass(frozen=True)
class BeliefCell(BeliefRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML in this world, with the estimator's changes

    @property
    def digest(self) -> str:
        """The digest of the task and of the estimator's code: others are outdated."""
        return f'{task_digest(self.text)}-{belief_digest(self.estimator)}'

    @property
    def kind(self) -> EstimatorKind:
        """The estimator's line in the registry."""
        return ESTIMATORS[self.estimator]

    @property
    def shared_run(self) -> tuple[str, ...]:
        """Identifies the loop: estimators that only observe share that of the particle filter."""
        return *self.key[:2], str(self.seed), self.estimator if self.kind.in_loop else EMPPI

    def __str__(self) -> str:
        """Return a description for messages."""
        return f'{self.task}, {self.world}, {self.estimator}, seed {self.seed}'


@dataclass(frozen=True)
class ParameterSeries:
    """True value, mean and 90 % interval of one parameter over time."""

    true: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class BeliefRow(BeliefRun, Computed):
    """The result of one cell; without a belief there are no scores."""

    success: bool | None  # after the last change of the truth; None: it does not control
    time_s: float | None  # until success, from the last change on; else the time that was left
    limit_s: float
    updates: int
    update_ms: float | None  # processor time of an update, mean
    degenerate: int  # updates that no particle explained
    misfit_s: float | None  # time at which a misfit is first shown; None: never
    scores: Mapping[str, ParameterScores]
    times: tuple[float, ...]  # of the series [s]
    series: Mapping[str, ParameterSeries]


def belief_digest(estimator: str) -> str:
    """Return a digest of the code that an estimator's scores depend on; '' without a belief."""
    kind = ESTIMATORS[estimator]
    if not kind.believes:
        return ''
    module = kind.made_by.partition(':')[0].replace('.', '/')
    return code_digest(*_CODE, f'{module}.py') if module else code_digest(*_CODE)
