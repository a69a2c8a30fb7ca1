"""
The results of cells: one frozen row each, stored as lines of JSON.

`rows.jsonl` is authoritative: a row is appended as soon as its cell is finished, and a later row
of the same cell replaces an earlier one. The tables are made from it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import csv
import dataclasses
from dataclasses import dataclass
import json
import os
from pathlib import Path

from emppi_ros.bench.paper.cells import Cell
from emppi_ros.core import config
from emppi_ros.core.errors import BenchError, ConfigError

ROWS, TABLE, ESTIMATES = 'rows.jsonl', 'table.csv', 'estimates.csv'
_CELL = ('study', 'task', 'controller', 'seed', 'models', 'rollouts')
_RESULT = (
    'success', 'time_s', 'limit_s', 'steps', 'squared_error', 'diverged', 'degenerate',
    'plan_ms', 'plan_p99_ms', 'period_ms', 'right_kind', 'compute_s', 'made_by', 'digest',
)  # fmt: skip
_ESTIMATE = ('true', 'mean', 'sd', 'low', 'high', 'inside', 'unit')


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
    squared_error: tuple[float, ...]  # see bench/paper/errors.py
    means: Mapping[str, tuple[float, ...]]  # of each parameter


@dataclass(frozen=True)
class AttemptResult:
    """One of several consecutive targets: when the attempt ended, and how."""

    ended_s: float
    reached: bool
    lost: bool


@dataclass(frozen=True)
class Row:
    """The result of one cell; calibration runs have no plans and no success."""

    study: str
    task: str
    controller: str
    seed: int
    models: int  # 0: the task's own
    rollouts: int
    digest: str  # of the task's keys and values
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
    compute_s: float
    made_by: str  # version and processor
    right_kind: float | None = None  # see `compute.share_after_moving`

    @property
    def key(self) -> tuple[str | int, ...]:
        """The cell that this is the result of."""
        return self.study, self.task, self.controller, self.seed, self.models, self.rollouts

    @property
    def goals_s(self) -> list[float]:
        """Times at which targets were reached [s]."""
        return [attempt.ended_s for attempt in self.attempts if attempt.reached]


def to_line(row: Row) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(dataclasses.asdict(row), allow_nan=False)


def from_line(line: str, where: str) -> Row:
    """Parse a row from a line of JSON."""
    try:
        return config.build(Row, json.loads(line), where)
    except (ValueError, ConfigError) as error:
        raise BenchError(
            f'{where}: not a row of this benchmark ({error}); '
            'remove the line, or choose another --out'
        ) from None


class RowStore:
    """A folder with the rows of finished cells."""

    def __init__(self, folder: Path) -> None:
        """Create the folder if it does not exist, and read its rows."""
        self.folder, self.path = folder, folder / ROWS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._cut_torn_line()
            lines = self.path.read_text(encoding='utf-8').splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f'--out {folder}: cannot be used: {error}') from None
        numbered = enumerate(lines, start=1)
        parsed = (from_line(line, f'{self.path} line {number}') for number, line in numbered)
        self._rows: dict[tuple[str | int, ...], Row] = {row.key: row for row in parsed}

    def _cut_torn_line(self) -> None:
        """Remove an incomplete last line, as after a power failure."""
        self.path.touch()
        with self.path.open('r+b') as file:
            content = file.read()
            file.truncate(content.rfind(b'\n') + 1)

    def finished(self, cells: Iterable[Cell]) -> list[Row]:
        """Return the rows of finished cells that were computed from the same task file."""
        pairs = ((cell, self._rows.get(cell.key)) for cell in cells)
        return [row for cell, row in pairs if row is not None and row.digest == cell.digest]

    def outdated(self, cells: Iterable[Cell]) -> int:
        """Return how many cells have a row that was computed from another task file."""
        pairs = ((cell, self._rows.get(cell.key)) for cell in cells)
        return sum(row is not None and row.digest != cell.digest for cell, row in pairs)

    def append(self, row: Row) -> None:
        """Write a row to disk."""
        try:
            with self.path.open('a', encoding='utf-8') as file:
                file.write(to_line(row) + '\n')
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BenchError(f'{self.path}: cannot be written: {error.strerror}') from None
        self._rows[row.key] = row


def write_tables(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Write one table of runs, and one of runs and parameters; return both paths."""
    by_parameter = (
        [*_values(row, _CELL), name, *_values(estimate, _ESTIMATE)]
        for row in rows
        for name, estimate in row.parameters.items()
    )
    tables: Mapping[str, tuple[Sequence[str], Iterable[Sequence[object]]]] = {
        TABLE: ((*_CELL, *_RESULT), (_values(row, (*_CELL, *_RESULT)) for row in rows)),
        ESTIMATES: ((*_CELL, 'parameter', *_ESTIMATE), by_parameter),
    }
    for name, (header, lines) in tables.items():
        with (folder / name).open('w', encoding='utf-8', newline='') as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(lines)
    return [folder / name for name in tables]


def _values(item: Row | ParameterEstimate, names: Sequence[str]) -> list[object]:
    values = {name: getattr(item, name) for name in names}
    own = {'models', 'rollouts'} & values.keys()  # 0: the task's own
    return [value or '' if name in own else value for name, value in values.items()]


def complete(
    store: RowStore,
    cells: Sequence[Cell],
    compute: Callable[[Sequence[Cell]], Iterable[Row]],
    progress: Callable[[float], None] = lambda _: None,
) -> list[Row]:
    """Return the rows of all cells in order; compute only those that are not finished."""
    done = {row.key: row for row in store.finished(cells)}
    missing = [cell for cell in cells if cell.key not in done]
    progress(len(done))
    for row in compute(missing) if missing else ():
        store.append(row)
        done[row.key] = row
        progress(len(done))
    return [done[cell.key] for cell in cells]
