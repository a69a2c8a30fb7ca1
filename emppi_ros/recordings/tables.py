"""
Signals from tables (CSV, Parquet) and to them.

A table has a header and a column of times. Empty cells (nulls) are not samples, so the clock of a
signal is that of the rows with a value.
"""

from collections.abc import Mapping, Sequence
import csv
import importlib.util
import itertools
import math
from pathlib import Path
import re
from types import ModuleType
from typing import NamedTuple

import numpy as np

from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError, import_optional
from emppi_ros.recordings.cleaning import unset
from emppi_ros.recordings.signals import UNITS, Signal, usual_step

SUFFIXES = ('.csv', '.parquet')
_CLOCK = 'time_s'
_INDEX = ('', 'index', '__index_level_0__')  # names that pandas writes
# factor, and steps between rows that are 10 to 5000 Hz: no two units overlap, nor do seconds
_SUBUNITS = {
    'milliseconds': (1e-3, 0.201, 100.0),
    'microseconds': (1e-6, 200.0, 1e5),
    'nanoseconds': (1e-9, 2.0e5, 1e8),
}
_DELIMITERS = (',', ';', '\t')
_TWIST = {'x': 'm', 'y': 'm', 'z': 'm', 'rx': 'rad', 'ry': 'rad', 'rz': 'rad'}
_PARTS = {  # of kinds with several columns, with their units
    'pose': {'x': 'm', 'y': 'm', 'z': 'm', 'qw': '1', 'qx': '1', 'qy': '1', 'qz': '1'},
    'covariance': {
        f'{first}.{second}': f'{_TWIST[first]}^2'
        if _TWIST[first] == _TWIST[second]
        else f'{_TWIST[first]} {_TWIST[second]}'
        for first, second in itertools.combinations_with_replacement(_TWIST, 2)
    },
}
_EXAMPLES = {'pose': 'pose/block.x [m]', 'covariance': 'covariance/block.x.rx [m rad]'}
_COLUMN = re.compile(r'(?P<kind>[a-z]+)/(?P<of>.+) \[(?P<unit>[^]]+)\]')


class SignalTable(NamedTuple):
    """Times and the other columns (n,) by name, with NaN for empty cells; and what was changed."""

    path: Path
    time: Array
    columns: dict[str, Array]
    notes: list[str]


def read(path: Path) -> list[Signal]:
    """Return the signals of a file; IdentificationError names file, column and line."""
    return signals_of(load(path))


def signals_of(table: SignalTable) -> list[Signal]:
    """Return the signals of a table; IdentificationError names a wrong column."""
    path, time, columns, _ = table
    signals, vectors = [], dict[tuple[str, str], dict[str, Array]]()
    for name, values in columns.items():
        kind, of, part, unit = parse_column(path, name)
        allowed = (_PARTS[kind][part],) if part else UNITS[kind]
        if allowed and unit not in allowed:
            raise IdentificationError(
                f'{path}: column {name!r}: unit: found {unit!r}, expected '
                f'{" or ".join(allowed)}: units are not converted'
            )
        if part:
            vectors.setdefault((kind, of), {})[part] = values
            continue
        here = ~np.isnan(values)
        signals.append(Signal(kind, of, unit, time[here], values[here], f'{path}: {name}'))
    return signals + [_vector(path, *of, time, parts) for of, parts in vectors.items()]


def load(path: Path, any_rate: bool = False) -> SignalTable:
    """
    Return a table with times in s, without row numbers and rows that have no time.

    Smaller units are told by the rate of the rows, unless they may have any rate.
    """
    columns, notes = (_parquet(path), []) if _is_parquet(path) else _csv(path)
    for name in [name for name, values in columns.items() if _is_index(name, values)]:
        del columns[name]
        notes.append(f'{path}: ignored column {name!r}: row numbers')
    time = columns.pop(_CLOCK)
    time, text = (time, '') if any_rate else _seconds(time)
    notes += [f'{path}: {text}'] if text else []
    zero = unset(time)
    if zero.any():
        time, columns = time[~zero], {name: values[~zero] for name, values in columns.items()}
        notes.append(f'{path}: dropped {np.sum(zero)} of {len(zero)} rows: their time is 0')
    if not columns:
        raise IdentificationError(f'{path}: no column except {_CLOCK}')
    return SignalTable(path, time, columns, notes)


def _is_index(name: str, values: Array) -> bool:
    """Return whether a column without a name, or of an index, has row numbers or nothing."""
    if not (name.lower() in _INDEX or name.startswith('Unnamed: ')):
        return False
    steps = np.diff(values)
    return bool(np.isnan(values).all() or (np.all(steps > 0.0) and np.all(steps % 1.0 == 0.0)))


def _seconds(time: Array) -> tuple[Array, str]:
    """Return times (n,) in seconds, and a note if they were in another unit, told by the steps."""
    usual = usual_step(time)
    for unit, (factor, low, high) in _SUBUNITS.items():
        if low <= usual <= high:
            return time * factor, (
                f'{_CLOCK} is in {unit}, because rows are {usual:.4g} apart: taken as '
                f'{usual * factor:.4g} s ({1.0 / (usual * factor):.4g} Hz)'
            )
    return time, ''


def check_writable(option: str, path: Path) -> None:
    """Raise IdentificationError if a table cannot be written to the path of an option."""
    if path.suffix.lower() not in SUFFIXES:
        raise IdentificationError(
            f'{option}: found {path}, expected a name that ends in {" or ".join(SUFFIXES)}'
        )
    if _is_parquet(path) and importlib.util.find_spec('pyarrow') is None:
        raise IdentificationError(
            f"{option}: pyarrow is not installed: pip install 'emppi_ros[identify]', or give .csv"
        )
    if not path.parent.is_dir():
        raise IdentificationError(f'{option}: no such folder: {path.parent}')
    paths.check_output(option, path)


def write(path: Path, signals: Sequence[Signal]) -> None:
    """Write signals as a table, from which `read` returns the same; ConfigError if that fails."""
    times = np.unique(np.concatenate([signal.time for signal in signals]))
    columns = {_CLOCK: times}
    for signal in signals:
        names = [f'{signal.kind}/{signal.of} [{signal.unit}]']
        if signal.kind in _PARTS:
            units = _PARTS[signal.kind].items()
            names = [f'{signal.kind}/{signal.of}.{part} [{unit}]' for part, unit in units]
        rows = np.searchsorted(times, signal.time)
        for name, values in zip(names, signal.values.reshape(len(rows), -1).T, strict=True):
            columns[name] = np.full(len(times), np.nan)
            columns[name][rows] = values
    with paths.replacing(path) as temporary:
        if _is_parquet(path):
            arrow, parquet = (_arrow(path, name) for name in ('pyarrow', 'pyarrow.parquet'))
            table = {name: arrow.array(c, from_pandas=True) for name, c in columns.items()}
            parquet.write_table(arrow.table(table), temporary)
            return
        with temporary.open('w', newline='', encoding='utf-8') as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for row in zip(*(column.tolist() for column in columns.values()), strict=True):
                writer.writerow(['' if np.isnan(value) else repr(value) for value in row])


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == '.parquet'


def parse_column(path: Path, name: str) -> tuple[str, str, str, str]:
    """Return kind, name, part and unit of a column, as they are; scalars have no part."""
    match = _COLUMN.fullmatch(name)
    if match is None or match['kind'] not in UNITS:
        raise IdentificationError(
            f"{path}: column {name!r}: expected a name such as 'position/hinge [rad]'; kinds: "
            + ', '.join(UNITS)
        )
    kind, of, part = match['kind'], match['of'], ''
    if kind in _PARTS:  # such as `block.x` and `block.x.rx`
        words = of.rsplit('.', 2 if kind == 'covariance' else 1)
        of, part = words[0], '.'.join(words[1:])
        if not of or part not in _PARTS[kind]:
            raise IdentificationError(
                f'{path}: column {name!r}: expected a name such as {_EXAMPLES[kind]!r}; parts of '
                f'a {kind}: ' + ', '.join(_PARTS[kind])
            )
    return kind, of, part, match['unit']


def _vector(path: Path, kind: str, body: str, time: Array, parts: Mapping[str, Array]) -> Signal:
    """Return the poses or covariances of a body, from a column for each part."""
    where, named = f'{path}: {kind}/{body}', _PARTS[kind]
    if missing := [part for part in named if part not in parts]:
        raise IdentificationError(
            f'{where}: no column for {", ".join(missing)}: a {kind} has {", ".join(named)}'
        )
    values = np.column_stack([parts[part] for part in named])
    here = ~np.isnan(values)
    there = here.all(axis=1)
    partial = np.flatnonzero(here.any(axis=1) & ~there)
    if len(partial):
        raise IdentificationError(
            f'{where}: at {time[partial[0]]:.6g} s some columns have a number and some have none: '
            f'a {kind} is all {len(named)}'
        )
    return Signal(kind, body, UNITS[kind][0], time[there], values[there], where)


def _check_header(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise IdentificationError(f'{path}: column {twice!r} appears twice')
    if _CLOCK not in names:
        hint = ': are columns separated by commas?' if len(names) == 1 else ''
        raise IdentificationError(
            f'{path}: no column {_CLOCK!r}; found {", ".join(map(repr, names))}{hint}'
        )


def _csv(path: Path) -> tuple[dict[str, Array], list[str]]:
    """Return the columns of a CSV file, with NaN for cells that are empty or `nan`, and notes."""
    try:
        lines = path.read_text(encoding='utf-8-sig').splitlines()
        begin, delimiter = _find_header(lines)
        rows = list(csv.reader(lines[begin:], delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise IdentificationError(f'{path}: cannot be read: {error}') from None
    while rows and not ''.join(rows[-1]).strip():  # blank lines at the end
        rows.pop()
    if len(rows) < 2:
        raise IdentificationError(f'{path}: expected a header and rows of numbers')
    names = [name.strip() for name in rows[0]]
    names[0] = names[0].lstrip('#').strip()
    _check_header(path, names)
    notes = []
    if delimiter == ';' and any(',' in cell for row in rows[1:] for cell in row):
        if any('.' in cell for row in rows[1:] for cell in row):
            raise IdentificationError(
                f'{path}: numbers with both . and , in a table that is separated by ;: write '
                'decimals with a point, and no separators of thousands'
            )
        rows[1:] = [[cell.replace(',', '.') for cell in row] for row in rows[1:]]
        notes.append(f'{path}: read commas as decimal commas: columns are separated by ;')
    table = np.empty((len(rows) - 1, len(names)))
    for line, row in enumerate(rows[1:], start=begin + 2):
        if len(row) != len(names):
            hint = ' (are these decimal commas? Separate columns by ;)'
            raise IdentificationError(
                f'{path}: line {line}: found {len(row)} cells, expected {len(names)}'
                f'{hint if delimiter == "," and len(row) == 2 * len(names) else ""}'
            )
        values = [_number(cell.strip()) for cell in row]
        if None in values:
            column = values.index(None)
            raise IdentificationError(
                f'{path}: line {line}: {names[column]}: found {row[column].strip()!r}, expected a '
                'number (an empty cell where there is no sample)'
            )
        table[line - begin - 2] = values
    return dict(zip(names, table.T, strict=True)), notes


def _find_header(lines: Sequence[str]) -> tuple[int, str]:
    """Return the line of the header, after comments with #, and what separates its columns."""
    for number, line in enumerate(lines):
        for delimiter in _DELIMITERS:
            if _CLOCK in [name.strip('# "') for name in line.split(delimiter)]:
                return number, delimiter
        if not line.startswith('#'):
            return number, ','
    return 0, ','


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN for an empty cell, or None for any other text."""
    if cell.lower() in ('', 'nan'):
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _parquet(path: Path) -> dict[str, Array]:
    """Return the columns of a Parquet file, with NaN for nulls only."""
    parquet = _arrow(path, 'pyarrow.parquet')
    try:
        _check_header(path, parquet.read_schema(path).names)
        table = parquet.read_table(path)
        columns = {
            name: table.column(name).to_numpy().astype(np.float64) for name in table.column_names
        }
    except (OSError, ValueError, TypeError) as error:
        raise IdentificationError(f'{path}: cannot be read: {error}') from None
    for name, values in columns.items():
        nulls = table.column(name).is_null().to_numpy()
        broken = np.flatnonzero(~np.isfinite(values) & ~nulls)
        if len(broken):
            raise IdentificationError(
                f'{path}: row {broken[0]}: {name}: found {values[broken[0]]}, expected a number '
                '(null where there is no sample)'
            )
    return columns


def _arrow(path: Path, name: str) -> ModuleType:
    return import_optional(
        name,
        lambda _: (
            f"{path}: pyarrow is not installed: pip install 'emppi_ros[identify]', or give CSV"
        ),
        IdentificationError,
    )
