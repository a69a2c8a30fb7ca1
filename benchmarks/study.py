"""
A study: axes, cells, one row for each cell, and a page that is written from the rows.

A new study is a module of `benchmarks/studies`, its page `NAME.md` beside it, and one name in
`emppi_ros/cli/bench.py`. `benchmarks.runner` stores, resumes, and writes the page.
"""

from abc import ABC, abstractmethod
import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
import time
from typing import Any, ClassVar, NamedTuple, TypeVar

from benchmarks.row_store import Table
from emppi_ros.calibration import report
from emppi_ros.core.errors import ConfigError, unknown

T = TypeVar('T')


@dataclass(frozen=True)
class Run:
    """
    Base of cells and rows.

    The direct subclass has the fields that identify a run; a cell and its row derive from it.
    """

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that identify the run."""
        (kind,) = (kind for kind in type(self).__mro__ if Run in kind.__bases__)
        return {item.name: getattr(self, item.name) for item in fields(kind)}

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the run."""
        return tuple(self.identity.values())


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Base of rows."""

    digest: str  # of all that the result depends on
    compute_s: float = 0.0
    made_by: str = ''  # version and processor


def computed(cell: Any, began: float, runs: int = 1) -> dict[str, Any]:
    """Return identity and base of the row of a cell, one of several runs since `began` [s]."""
    seconds = (time.perf_counter() - began) / runs
    base = {'digest': cell.digest, 'compute_s': seconds, 'made_by': report.machine_label()}
    return {**cell.identity, **base}


@dataclass(frozen=True)
class Axis:
    """An option that selects names."""

    kind: str  # what a name is the name of, for messages
    names: Collection[str] = ()  # allowed names; empty if the cells check them
    # names that are selected without the option; empty for all, None if the cells choose
    default: Sequence[str] | None = ()
    help: str = ''  # description; '' for the list of names

    @property
    def selected(self) -> tuple[str, ...]:
        """Names that are selected without the option."""
        return () if self.default is None else tuple(self.default or self.names)

    def describe(self) -> str:
        """Return the help of the option."""
        text = self.help or ', '.join(self.names)
        if self.default:
            default = ', '.join(self.default)
            return f'{self.kind}s ({default}){": " if self.help else ", of "}{text}'
        return f'{self.kind}s ({"all" if self.default is not None else "as published"}): {text}'


def described(items: Mapping[str, Any]) -> str:
    """Return names with the descriptions of their values, for the help of an axis."""
    return '; '.join(
        f'{name}: {getattr(item, "description", item)}' for name, item in items.items()
    )


@dataclass(frozen=True)
class Selection:
    """What to run."""

    names: Mapping[str, Sequence[str]]  # by axis
    seeds: Sequence[int]  # empty: the study has no seeds, or each task has its own
    quick: bool = False
    options: argparse.Namespace = field(default_factory=argparse.Namespace)  # of this study only


class Cells(NamedTuple):
    """The runs of a selection, and a line for each thing that is left out, with the reason."""

    cells: Sequence[Any]
    skipped: Sequence[str] = ()


class Results(NamedTuple):
    """Rows of finished runs, and what they belong to."""

    rows: Sequence[Any]
    folder: Path  # of the figures
    cells: Sequence[Any] = ()  # also those that are not finished


class Page(NamedTuple):
    """What a study reports."""

    # name -> a value, or the paragraphs that replace `{name}` in the template of the page
    values: Mapping[str, Any]
    tables: Mapping[str, Table]  # file name -> header and lines, for CSV
    figures: Sequence[Path]  # pictures that were written
    lines: Iterable[str]  # the most important numbers, for the terminal
    data: Mapping[str, Any]  # the same, for JSON
    template: str = ''  # name of the template in `benchmarks/studies`; '' for that of the study


def grouped(rows: Iterable[T], *names: str) -> dict[Any, list[T]]:
    """
    Group rows by a field, or by a tuple of several, in order of first appearance.

    pandas is no help here: rows contain mappings, and groups are few.
    """
    groups: dict[Any, list[T]] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in names)
        groups.setdefault(key if len(names) > 1 else key[0], []).append(row)
    return groups


def ordered(rows: Sequence[T], **orders: Iterable[Any]) -> dict[Any, list[T]]:
    """Group rows by several fields, in the orders of their values; () is that of appearance."""
    groups = grouped(rows, *orders)
    ranks = [list(order) or list(grouped(rows, name)) for name, order in orders.items()]
    keys = sorted(groups, key=lambda key: [r.index(k) for r, k in zip(ranks, key, strict=True)])
    return {key: groups[key] for key in keys}


def if_any(measure: Callable[[Sequence[Any]], T], values: Sequence[Any]) -> T | None:
    """Return a measure of values; None without any."""
    return measure(values) if values else None


Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


class Study(ABC):
    """A benchmark."""

    name: ClassVar[str]
    help: ClassVar[str]
    description: ClassVar[str]
    row: ClassVar[type[Any]]
    axes: ClassVar[Mapping[str, Axis]]
    seeds: ClassVar[Sequence[int] | None] = None  # None: no option `--seeds`
    seeds_help: ClassVar[str] = ''  # '': the first and the last one
    quick: ClassVar[str]  # what a quick run is
    outdated_by: ClassVar[str]  # what a row was computed with, and may have changed
    parallel: ClassVar[bool] = True  # False: runs are timed, and computed one after the other
    # of this class or a module: the row of a cell, and optionally of the threads of a planner
    compute: ClassVar[Callable[..., Any]]

    def add_options(self, parser: Any) -> None:
        """Add options that are no axes."""
        return

    def select(
        self,
        seeds: Sequence[int] | None = None,
        quick: bool = False,
        options: argparse.Namespace | None = None,
        **names: Sequence[str],
    ) -> Selection:
        """Return a selection, with defaults for the rest; ConfigError if a name is unknown."""
        for name, given in names.items():
            allowed = self.axes[name].names
            for value in given if allowed else ():
                if value not in allowed:
                    raise ConfigError(f'--{name}: {unknown(self.axes[name].kind, value, allowed)}')
        chosen = {name: names.get(name) or axis.selected for name, axis in self.axes.items()}
        if seeds is None:
            seeds = (self.seeds or ())[: 1 if quick else None]
        return Selection(chosen, seeds, quick, options or argparse.Namespace())

    @abstractmethod
    def cells(self, selection: Selection) -> Cells:
        """Return the runs of a selection."""

    def compute_all(self, cells: Sequence[Any], spread: Spread) -> Iterable[Any]:
        """Yield the rows of cells; `spread` calls a function with each of some items."""
        return spread(self.compute, cells)

    @abstractmethod
    def page(self, results: Results) -> Page:
        """Write the figures of some results, and return what to report."""
