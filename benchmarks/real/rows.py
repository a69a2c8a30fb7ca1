"""The cells of the benchmark, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.real.datasets import RealRecording
from emppi_ros.calibration import statistics
from emppi_ros.core.arrays import Bools


@dataclass(frozen=True)
class Estimate:
    """One quantity of a mechanism."""

    value: float
    low: float  # 5 % quantile
    high: float  # 95 %
    published: float | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the 90 % interval holds the published value."""
        return None if self.published is None else self.low <= self.published <= self.high


@dataclass(frozen=True)
class ForecastError:
    """The forecasts of one joint over half a second."""

    rms: float  # of the median, rad
    median: float  # of the absolute errors of the median, rad
    inside: float  # share of measurements in the 90 % band
    inside_noisy: float | None = None  # with random torques; None: not computed


@dataclass(frozen=True)
class Score:
    """A measure of quality, with its 95 % interval where there is one; None: there is none."""

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None


def score_share(hits: Bools) -> Score:
    """Return the share [%] of true values."""
    share = statistics.share(hits.tolist())
    return Score(100.0 * share.rate, '%', 100.0 * share.low, 100.0 * share.high)


@dataclass(frozen=True)
class RealCell:
    """One method on one recording."""

    dataset: str
    recording: RealRecording
    method: str
    digest: str  # of recording and model

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the cell."""
        return self.dataset, self.recording.name, self.method


@dataclass(frozen=True)
class RealRow:
    """The result of one method on one recording."""

    dataset: str
    recording: str
    method: str
    digest: str
    refused: str  # why there is no estimate; '' if there is one
    quantities: Mapping[str, Estimate]
    forecasts: Mapping[str, ForecastError]  # by joint; empty if a simulation diverges
    compute_s: float
    made_by: str
    scores: Mapping[str, Score] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # what the monitor of a belief complains of
    identify_s: float | None = None  # time of identification alone
    steps: int | None = None  # of physics in it; 0 if a method needs none

    @property
    def key(self) -> tuple[str, ...]:
        """The cell that this is the result of."""
        return self.dataset, self.recording, self.method
