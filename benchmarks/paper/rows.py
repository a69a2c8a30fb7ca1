"""The results of cells: one frozen row each."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.paper.cells import PaperRun
from benchmarks.study import Computed


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
