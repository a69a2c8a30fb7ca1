"""
The rows of a benchmark on disk.

`rows.jsonl` is the one truth: a row is appended as soon as its cell is finished, and a
later row of the same cell replaces an earlier one. The tables are made from it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import csv
import os
from pathlib import Path

from emppi_ros.bench.paper import rows
from emppi_ros.bench.paper.cells import Cell
from emppi_ros.bench.paper.rows import Row
from emppi_ros.core.errors import BenchError

ROWS, TABLE, ESTIMATES = 'rows.jsonl', 'table.csv', 'estimates.csv'
Key = tuple[str | int, ...]
_CELL = ('study', 'task', 'controller', 'seed', 'models', 'rollouts')
_RESULT = (
    'success', 'time_s', 'limit_s', 'steps', 'squared_error', 'diverged', 'degenerate',
    'plan_ms', 'plan_p99_ms', 'period_ms', 'right_kind', 'compute_s', 'made_by', 'digest',
)  # fmt: skip
_ESTIMATE = ('true', 'mean', 'sd', 'low', 'high', 'inside', 'unit')


class Store:
    """A folder with finished rows, read once, appended to."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if need be, and read what is finished."""
        self.folder, self.path = folder, folder / ROWS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._cut_torn_line()
            lines = self.path.read_text(encoding='utf-8').splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f'--out {folder}: cannot be used: {error}') from None
        found = (
            rows.from_line(line, f'{self.path} line {number}')
            for number, line in enumerate(lines, start=1)
        )
        self._rows: dict[Key, Row] = {row.key: row for row in found}

    def _cut_torn_line(self) -> None:
        """Forget a last line that was not written to its end, as when the power failed."""
        self.path.touch()
        with self.path.open('r+b') as file:
            content = file.read()
            file.truncate(content.rfind(b'\n') + 1)

    def finished(self, cells: Iterable[Cell]) -> list[Row]:
        """Return the rows of those cells that are finished, made by the very same settings."""
        found = ((cell, self._rows.get(cell.key)) for cell in cells)
        return [row for cell, row in found if row is not None and row.digest == cell.digest]

    def outdated(self, cells: Iterable[Cell]) -> int:
        """Return how many of these cells have a row that was made by other settings."""
        found = ((cell, self._rows.get(cell.key)) for cell in cells)
        return sum(row is not None and row.digest != cell.digest for cell, row in found)

    def append(self, row: Row) -> None:
        """Keep a row, whatever happens next."""
        try:
            with self.path.open('a', encoding='utf-8') as file:
                file.write(rows.to_line(row) + '\n')
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BenchError(f'{self.path}: a row cannot be written: {error.strerror}') from None
        self._rows[row.key] = row


def write_tables(folder: Path, found: Sequence[Row]) -> list[Path]:
    """Write one line a run, and one line a run and parameter; return both paths."""
    by_parameter = (
        [*_values(row, _CELL), name, *_values(estimate, _ESTIMATE)]
        for row in found
        for name, estimate in row.parameters.items()
    )
    tables: Mapping[str, tuple[Sequence[str], Iterable[Sequence[object]]]] = {
        TABLE: ((*_CELL, *_RESULT), (_values(row, (*_CELL, *_RESULT)) for row in found)),
        ESTIMATES: ((*_CELL, 'parameter', *_ESTIMATE), by_parameter),
    }
    for name, (header, lines) in tables.items():
        with (folder / name).open('w', encoding='utf-8', newline='') as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(lines)
    return [folder / name for name in tables]


def _values(item: Row | rows.Estimate, names: Sequence[str]) -> list[object]:
    values = {name: getattr(item, name) for name in names}
    own = {'models', 'rollouts'} & values.keys()  # 0: the task's own
    return [value or '' if name in own else value for name, value in values.items()]


def complete(
    store: Store,
    cells: Sequence[Cell],
    compute: Callable[[Sequence[Cell]], Iterable[Row]],
    progress: Callable[[float], None] = lambda _: None,
) -> list[Row]:
    """Return the rows of all cells in their order; only those not finished are computed."""
    done = {row.key: row for row in store.finished(cells)}
    missing = [cell for cell in cells if cell.key not in done]
    progress(len(done))
    for row in compute(missing) if missing else ():
        store.append(row)
        done[row.key] = row
        progress(len(done))
    return [done[cell.key] for cell in cells]
