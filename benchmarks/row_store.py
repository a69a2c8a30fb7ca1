"""
The results of a benchmark: one frozen row for each cell, stored as lines of JSON.

`rows.jsonl` is authoritative: a row is appended as soon as its cell is finished, and a later row
of the same cell replaces an earlier one. The tables are made from it. Cells and rows have a `key`,
which identifies the run, and a `digest` of everything that the result depends on: a row with
another digest than its cell is outdated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import csv
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from emppi_ros.core import config
from emppi_ros.core.errors import BenchError, ConfigError

ROWS = 'rows.jsonl'


class RowStore:
    """A folder with the rows of finished cells."""

    def __init__(self, folder: Path, kind: type[Any]) -> None:
        """Create the folder if it does not exist, and read its rows of the class `kind`."""
        self.path = folder / ROWS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._cut_torn_line()
            lines = self.path.read_text(encoding='utf-8').splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f'--out {folder}: cannot be used: {error}') from None
        numbered = enumerate(lines, start=1)
        parsed = (_parse(line, f'{self.path} line {number}', kind) for number, line in numbered)
        self._rows = {row.key: row for row in parsed}

    def _cut_torn_line(self) -> None:
        """Remove an incomplete last line, as after a power failure."""
        self.path.touch()
        with self.path.open('r+b') as file:
            content = file.read()
            file.truncate(content.rfind(b'\n') + 1)

    def finished(self, cells: Iterable[Any]) -> list[Any]:
        """Return the rows of finished cells that were computed from the same task file."""
        pairs = ((cell, self._rows.get(cell.key)) for cell in cells)
        return [row for cell, row in pairs if row is not None and row.digest == cell.digest]

    def outdated(self, cells: Sequence[Any]) -> int:
        """Return how many cells have a row that was computed from another task file."""
        return sum(cell.key in self._rows for cell in cells) - len(self.finished(cells))

    def forget(self, cells: Iterable[Any]) -> None:
        """Let cells count as not finished; their rows stay on disk until they are replaced."""
        for cell in cells:
            self._rows.pop(cell.key, None)

    def append(self, row: Any) -> None:
        """Write a row to disk."""
        line = json.dumps(dataclasses.asdict(row), allow_nan=False)
        try:
            with self.path.open('a', encoding='utf-8') as file:
                file.write(line + '\n')
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BenchError(f'{self.path}: cannot be written: {error.strerror}') from None
        self._rows[row.key] = row


def _parse(line: str, where: str, kind: type[Any]) -> Any:
    try:
        return config.build(kind, json.loads(line), where)
    except (ValueError, ConfigError) as error:
        raise BenchError(
            f'{where}: not a row of this benchmark ({error}); '
            'remove the line, or choose another --out'
        ) from None


def complete(
    store: RowStore,
    cells: Sequence[Any],
    compute: Callable[[Sequence[Any]], Iterable[Any]],
    progress: Callable[[float], None] = lambda _: None,
) -> list[Any]:
    """Return the rows of all cells in order; compute only those that are not finished."""
    done = {row.key: row for row in store.finished(cells)}
    missing = [cell for cell in cells if cell.key not in done]
    progress(len(done))
    for row in compute(missing) if missing else ():
        store.append(row)
        done[row.key] = row
        progress(len(done))
    return [done[cell.key] for cell in cells]


Table = tuple[Sequence[str], Iterable[Sequence[object]]]


def write_tables(folder: Path, tables: Mapping[str, Table]) -> list[Path]:
    """Write tables, header and lines by file name, as CSV; return the paths."""
    for name, (header, lines) in tables.items():
        with (folder / name).open('w', encoding='utf-8', newline='') as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(lines)
    return [folder / name for name in tables]
