"""Cells and rows of `emppi bench csvgd`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.csvgd.estimators import ESTIMATORS, SamplerBudget
from benchmarks.digests import code_digest
from benchmarks.study import Computed, Run
from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem

Judged = tuple[Mapping[str, float], Array]  # values by measure, and particles (N, P)
_CODE = (
    'benchmarks/csvgd/estimators.py', 'benchmarks/csvgd/target.py', 'benchmarks/csvgd/nuts.py',
    'benchmarks/csvgd/sample_metrics.py', 'benchmarks/csvgd/simulation.py',
)  # fmt: skip


@dataclass(frozen=True)
class CsvgdRun(Run):
    """An estimator with a number of windows, on the data of a seed."""

    experiment: str
    method: str
    windows: int
    seed: int


@dataclass(frozen=True)
class CsvgdCell(CsvgdRun):
    """A run to compute."""

    digest: str  # of code, size and recordings
    budget: SamplerBudget
    folder: Path | None = None  # of recordings


@dataclass(frozen=True)
class CsvgdRow(CsvgdRun, Computed):
    """The result of a cell."""

    values: Mapping[str, float]  # by measure; those that exist
    theta: tuple[tuple[float, ...], ...] = ()  # particles, where a figure shows them
    refused: str = ''  # why there is no estimate


@dataclass(frozen=True)
class Experiment:
    """Cells of an experiment: each method with each number of windows."""

    description: str  # for the help
    runs: Sequence[tuple[str, int]]  # methods and windows
    budget: SamplerBudget
    seeds: int  # how many of the first seeds
    measures: Mapping[str, str]  # with descriptions and units
    measure: Callable[[CsvgdCell], Judged]
    code: Sequence[str]  # files that results depend on beside those of estimators
    recorded: bool = False  # needs a folder of recordings
    pictured: bool = False  # rows keep particles

    @property
    def digest(self) -> str:
        """Identifies the code of the experiment."""
        return code_digest(*_CODE, *self.code)


def estimate(cell: CsvgdCell, problem: ShootingProblem) -> Array:
    """Return the particles (N, P) of a cell's method on a problem."""
    sampler = ESTIMATORS[cell.method]
    return sampler(problem, cell.budget, cell.windows, cell.seed).theta
