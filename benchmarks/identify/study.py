"""
Studies of `emppi bench identify`: the protocol that all of them fulfil, and their registry.

To add a study, derive a class from `Study` in a module of its own, and name it in STUDIES:
`emppi bench identify --method NAME` then offers it, with a flag for each of its options.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from emppi_ros.core.errors import IdentificationError, import_optional
from emppi_ros.identify.methods import NoOptions, ProgressBar, create, no_progress

STUDIES = {  # name -> module:class
    'regression': 'benchmarks.identify.regression_study:RegressionStudy',
    'prior': 'benchmarks.identify.prior_study:PriorStudy',
    'rigid-body': 'benchmarks.identify.rigid_body_study:RigidBodyStudy',
    'states': 'benchmarks.identify.states_study:StatesStudy',
    'stein': 'benchmarks.identify.csvgd_study:CsvgdStudy',
    'bayessim': 'benchmarks.identify.bayessim_study:BayesSimStudy',
}


@dataclass(frozen=True)
class StudySettings:
    """Settings that all studies share."""

    case: str
    trials: int
    seed: int = 0
    progress: ProgressBar = no_progress
    jobs: int | None = None  # processes, if the study runs in parallel; None: one per core
    scheduler: str | None = None  # address of a Dask cluster; None: compute here


class Study(ABC):
    """A benchmark of identification on data with known truth."""

    description: ClassVar[str]  # part of `emppi bench identify --help`
    options: ClassVar[type] = NoOptions  # frozen dataclass; each field is a command-line option
    cases: ClassVar[Mapping[str, int]] = {'': 10}  # case -> default number of trials
    parallel: ClassVar[bool] = False  # runs in several processes, or on a cluster

    @abstractmethod
    def run(self, options: Any, settings: StudySettings) -> dict[str, Any]:
        """Return the results, for JSON."""

    @abstractmethod
    def show(self, results: Mapping[str, Any]) -> None:
        """Print the results as tables."""


def load_library(module: str) -> ModuleType:
    """Import a module of the extra `identify`; IdentificationError if it is not installed."""
    return import_optional(
        module,
        lambda error: f"{error.name} is not installed: pip install 'emppi_ros[identify]'",
        IdentificationError,
    )


def load(name: str) -> Study:
    """Return the study of a name in STUDIES; only then is its module imported."""
    return create(STUDIES[name])
