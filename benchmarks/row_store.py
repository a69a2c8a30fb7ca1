"""
The results of a benchmark: one frozen row for each cell, stored as lines of JSON.

`rows.jsonl` is authoritative: a row is appended as soon as its cell is finished, and a later row
of the same cell replaces an earlier one. The tables are made from it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
import csv
import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from emppi_ros.core import config
from emppi_ros.core.errors import BenchError, ConfigError

ROWS = 'rows.jsonl'


class Keyed(Protocol):
    """A cell, or its row: a row with another digest is outdated."""

    @property
    def key(self) -> Hashable:
        """Identifies the cell."""
        ...

    @property
    def digest(self) -> str:
        """Identifies everything that the result depends on."""
        ...


C = TypeVar('C', bound=Keyed)
R = TypeVar('R', bound=Keyed)


def to_line(row: Any) -> str:
    """Return a row, a dataclass, as one line of JSON."""
    return json.dumps(dataclasses.asdict(row), allow_nan=False)


def from_line(line: str, where: str, kind: type[R]) -> R:
    """Parse a row from a line of JSON."""
    try:
        return config.build(kind, json.loads(line), where)
    except (ValueError, ConfigError) as error:
        raise BenchError(
            f'{where}: not a row of this benchmark ({error}); '
            'remove the line, or choose another --out'
        ) from None


class RowStore(Generic[R]):
    """A folder with the rows of finished cells."""

    def __init__(self, folder: Path, kind: type[R]) -> None:
        """Create the folder if it does not exist, and read its rows of the class `kind`."""
        self.folder, self.path = folder, folder / ROWS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._cut_torn_line()
            lines = self.path.read_text(encoding='utf-8').splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f'--out {folder}: cannot be used: {error}') from None
        numbered = enumerate(lines, start=1)
        parsed = (from_line(line, f'{self.path} line {number}', kind) for number, line in numbered)
        self._rows: dict[Hashable, R] = {row.key: row for row in parsed}

    def _cut_torn_line(self) -> None:
        """Remove an incomplete last line, as after a power failure."""
        self.path.touch()
        with self.path.open('r+b') as file:
            content = file.read()
            file.truncate(content.rfind(b'\n') + 1)

    def finished(self, cells: Iterable[Keyed]) -> list[R]:
        """Return the rows of finished cells that were computed from the same task file."""
        pairs = ((cell, self._rows.get(cell.key)) for cell in cells)
        return [row for cell, row in pairs if row is not None and row.digest == cell.digest]

    def outdated(self, cells: Iterable[Keyed]) -> int:
        """Return how many cells have a row that was computed from another task file."""
        pairs = ((cell, self._rows.get(cell.key)) for cell in cells)
        return sum(row is not None and row.digest != cell.digest for cell, row in pairs)

    def forget(self, cells: Iterable[Keyed]) -> None:
        """Let cells count as not finished; their rows stay on disk until they are replaced."""
        for cell in cells:
            self._rows.pop(cell.key, None)

    def append(self, row: R) -> None:
        """Write a row to disk."""
        try:
            with self.path.open('a', encoding='utf-8') as file:
                file.write(to_line(row) + '\n')
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BenchError(f'{self.path}: cannot be written: {error.strerror}') from None
        self._rows[row.key] = row


def complete(
    store: RowStore[R],
    cells: Sequence[C],
    compute: Callable[[Sequence[C]], Iterable[R]],
    progress: Callable[[float], None] = lambda _: None,
) -> list[R]:
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
