"""What the families of cells of `emppi bench identify` share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.digests import code_digest
from benchmarks.study import Computed, Run

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

    values: Values  # by measure; those that a failed run has
    refused: str = ''  # why the method returned no estimate


@dataclass(frozen=True)
class Family:
    """Cells of an experiment: each method on each case, with each seed."""

    description: str  # for the help
    cases: Sequence[str]
    methods: Mapping[str, str]  # with descriptions, '' if the name says it
    measures: Mapping[str, str]  # with descriptions and units; less is better
    measure: Callable[[str, str, int], Values]  # of case, method and seed
    claims: Sequence[tuple[str, str]]  # methods, and the measures that compare them with baselines
    baselines: Sequence[str]
    code: Sequence[str]  # patterns of files that results depend on, from the checkout

    @property
    def digest(self) -> str:
        """Identifies the code of the family."""
        return code_digest(*self.code)
