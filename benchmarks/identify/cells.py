"""What the families of cells of `emppi bench identify` share: cells, rows, and means of rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
import functools
import hashlib
from pathlib import Path

from benchmarks import means
from benchmarks.study import Computed, Run
from emppi_ros.calibration.report import table
from emppi_ros.core import paths

CHECKOUT = paths.PACKAGE.parent
Values = Mapping[str, float]


@dataclass(frozen=True)
class IdentifyRun(Run):
    """A method on the data of a seed."""

    family: str
    case: str
    method: str
    seed: int


@dataclass(frozen=True)
class IdentifyCell(IdentifyRun):
    """A run to compute."""

    digest: str  # of the code of its family


@dataclass(frozen=True)
class IdentifyRow(IdentifyRun, Computed):
    """The result of a cell."""

    values: Values  # measures by name; without those that the run does not have
    refused: str = ''  # why the method returned no estimate


@dataclass(frozen=True)
class Family:
    """Cells of one experiment: each method on each case, with each seed."""

    description: str  # for the help
    cases: Sequence[str]
    methods: Mapping[str, str]  # with descriptions
    measure: Callable[[str, str, int], Values]  # of case, method and seed
    page: Callable[[Sequence[IdentifyRow]], Iterable[str]]  # paragraphs
    answer: Callable[[Sequence[IdentifyRow]], Iterable[str]]  # the most important numbers
    code: Sequence[str]  # patterns of the files that results depend on, from the checkout

    @functools.cached_property
    def digest(self) -> str:
        """Identifies the code of the family."""
        files = [file for pattern in self.code for file in sorted(CHECKOUT.glob(pattern))]
        return hashlib.sha256(b''.join(map(Path.read_bytes, files))).hexdigest()[:16]


def mean_of(rows: Iterable[IdentifyRow], name: str, digits: str = '.3g') -> str:
    """Return the mean of a measure with its 95 % interval; '-' where no run has it."""
    values = [row.values[name] for row in rows if name in row.values]
    return f'{means.mean(values):{digits}}' if values else '-'


def table_of(header: Sequence[str], rows: Mapping[str, Sequence[object]]) -> str:
    """Return a table with a line for each method."""
    return table(('method', *header), [(f'`{name}`', *cells) for name, cells in rows.items()])
