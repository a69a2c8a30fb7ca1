"""
Recorded runs: what each column of a CSV or Parquet file says, checked, on its own clock.

A file has a column `time_s` and columns such as `position/hinge [rad]`, `velocity/hinge [rad/s]`,
`torque/hinge [N m]` and `command/motor [N m]`. An empty cell is no sample: so every column has the
clock of the rows that it fills. Several files share one clock.
"""

from collections.abc import Mapping, Sequence
import csv
from dataclasses import dataclass
import importlib
from pathlib import Path
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.signal

from emppi_ros.belief.file import Source, digest
from emppi_ros.errors import IdentificationError

Array = npt.NDArray[np.float64]
UNITS = {
    'position': ('rad', 'm'),
    'velocity': ('rad/s', 'm/s'),
    'torque': ('N m', 'N'),
    'command': (),  # the actuator's own
}
FEWEST = 100  # samples: less says little about any parameter
_SLOWEST, _FASTEST = 5.0, 50_000.0  # Hz
_GAP = 5.0  # of the usual period
_ORDER = 2  # of the filter
_COLUMN = re.compile(r'(?P<kind>[a-z]+)/(?P<of>.+) \[(?P<unit>[^]]+)\]')


class Signal(NamedTuple):
    """What one column says."""

    kind: str
    of: str  # the joint or the actuator
    unit: str
    time: Array  # (n,) s
    values: Array  # (n,)
    where: str  # file and column, for errors

    @property
    def period(self) -> float:
        """The usual time between samples, in s."""
        return float(np.median(np.diff(self.time)))


@dataclass(frozen=True)
class Recording:
    """A recorded run."""

    signals: Mapping[tuple[str, str], Signal]  # by kind and name
    sources: tuple[Source, ...]

    def named(self, kind: str) -> list[str]:
        """Return of what there is a kind of signal."""
        return [of for found, of in self.signals if found == kind]


def read(paths: Sequence[Path]) -> Recording:
    """Return the recording in files; IdentificationError names the file, column and line."""
    signals: dict[tuple[str, str], Signal] = {}
    for path in paths:
        source_columns = _parquet(path) if path.suffix == '.parquet' else _csv(path)
        for signal in _signals(path, source_columns):
            if (signal.kind, signal.of) in signals:
                other = signals[signal.kind, signal.of].where
                raise IdentificationError(f'{signal.where}: is in {other} already')
            signals[signal.kind, signal.of] = signal
    return Recording(signals, tuple(digest(path) for path in paths))


def _csv(path: Path) -> dict[str, Array]:
    """Return the columns of a CSV file; what is empty is NaN, and nothing else is."""
    try:
        with path.open(newline='', encoding='utf-8-sig') as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise IdentificationError(f'{path}: cannot be read: {error}') from None
    if len(rows) < 2:
        raise IdentificationError(f'{path}: expected a header and rows of numbers')
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise IdentificationError(f'{path}: column {twice!r} is there twice')
    table = np.empty((len(rows) - 1, len(names)))
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise IdentificationError(
                f'{path}: line {line}: found {len(row)} cells, expected {len(names)}'
            )
        for column, cell in enumerate(row):
            table[line - 2, column] = _number(path, line, names[column], cell.strip())
    return dict(zip(names, table.T, strict=True))


def _number(path: Path, line: int, name: str, cell: str) -> float:
    if not cell:
        return np.nan
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise IdentificationError(
            f'{path}: line {line}: {name}: found {cell!r}, expected a number (an empty cell where '
            'there is no sample)'
        )
    return value


def _parquet(path: Path) -> dict[str, Array]:
    """Return the columns of a Parquet file; what is null is NaN, and nothing else is."""
    try:
        parquet = importlib.import_module('pyarrow.parquet')
    except ModuleNotFoundError:
        raise IdentificationError(
            f"{path}: pyarrow is not installed: pip install 'emppi_ros[identify]', or give CSV"
        ) from None
    try:
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


def _signals(path: Path, columns: Mapping[str, Array]) -> list[Signal]:
    """Return the columns as signals, each on its clock."""
    if 'time_s' not in columns:
        raise IdentificationError(
            f"{path}: no column 'time_s'; found {', '.join(map(repr, columns))}"
        )
    time = columns['time_s']
    found = []
    for name, values in columns.items():
        if name == 'time_s':
            continue
        match = _COLUMN.fullmatch(name)
        if match is None or match['kind'] not in UNITS:
            raise IdentificationError(
                f"{path}: column {name!r}: expected a name such as 'position/hinge [rad]'; kinds: "
                + ', '.join(UNITS)
            )
        kind, of, unit = match['kind'], match['of'], match['unit']
        if UNITS[kind] and unit not in UNITS[kind]:
            raise IdentificationError(
                f'{path}: column {name!r}: unit: found {unit!r}, expected '
                f'{" or ".join(UNITS[kind])}: nothing is converted'
            )
        here = ~np.isnan(values)
        signal = Signal(kind, of, unit, time[here], values[here], f'{path}: {name}')
        _check_clock(signal)
        found.append(signal)
    if not found:
        raise IdentificationError(f'{path}: no column but time_s')
    return found


def _check_clock(signal: Signal) -> None:
    """Raise unless samples are enough, in order, at a likely rate, and without gaps."""
    if len(signal.time) < FEWEST:
        raise IdentificationError(
            f'{signal.where}: too short: {len(signal.time)} samples; record {FEWEST} or more'
        )
    steps = np.diff(signal.time)
    if np.isnan(signal.time).any() or np.any(steps <= 0.0):
        row = int(np.argmax(~(steps > 0.0)))
        raise IdentificationError(
            f'{signal.where}: time_s: sample {row + 1} is not after the one before, at '
            f'{signal.time[row]:.6g} s: sort the rows, and leave out repeated ones'
        )
    rate = 1.0 / signal.period
    if not _SLOWEST <= rate <= _FASTEST:
        raise IdentificationError(
            f'{signal.where}: {rate:.3g} samples a second; expected {_SLOWEST:g} to {_FASTEST:g}: '
            'is time_s in seconds?'
        )
    widest = int(np.argmax(steps))
    if steps[widest] > _GAP * signal.period:
        raise IdentificationError(
            f'{signal.where}: gap of {steps[widest]:.3g} s after {signal.time[widest]:.6g} s, '
            f'where samples come every {signal.period:.3g} s: give one part, or record again'
        )


def smooth(values: Array, rate_hz: float, cutoff_hz: float) -> Array:
    """
    Return values (n, ...) through a low-pass filter without lag.

    It is a Butterworth filter of second order, forward and then backward. Where the cutoff is not
    below half the rate there is nothing to take out.
    """
    if cutoff_hz >= 0.5 * rate_hz:
        return values.copy()
    b, a = scipy.signal.butter(_ORDER, cutoff_hz, fs=rate_hz)
    return scipy.signal.filtfilt(b, a, values, axis=0)
