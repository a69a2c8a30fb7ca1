"""
Cleaning of signals as drivers and recorders write them: NaN, stamps out of order, and gaps.

Signals with the same times are the columns of rows, such as the messages of a topic. What is left
out is said in notes. Times in notes count from the start of the recording.
"""

from collections.abc import Sequence
import itertools
import math
import re

import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings.signals import MIN_SAMPLES, Signal, longest_step, usual_step

Rows = npt.NDArray[np.intp]
Span = tuple[float, float]  # s since the start of a recording
WHOLE: Span = (0.0, math.inf)
_OPTIONAL = 'velocity'  # its gaps do not divide a recording
_LATE, _LATE_S = 3.0, 0.02  # usual periods or seconds by which a row may overtake another one
_MAX_LATE = 0.05  # share of rows that came late or are far off, above which two nodes publish
_MAX_SHARED = 1.1  # rows a stamp, above which the clock is coarse
_STRAY = 3  # rows in sequence with a wrong stamp
_LEADING = 0.2  # share of rows before the first measurement of all
_MOVED = 1e-3  # rad or m: a joint with another velocity than 0
_LISTED = 3  # gaps in a note


def unset(stamps: Array, second: float = 1.0) -> Bools:
    """Return which stamps (n,) are 0, because nobody set them: all others are later than 1 s."""
    zero = np.asarray(stamps == 0, np.bool_)
    if zero.all() or not zero.any() or not stamps[~zero].min() > second:
        zero[:] = False
    return zero


def source(where: str) -> str:
    """Return the file, or the topic of a bag, from where a signal is."""
    return re.split(r': (?=[a-z]+(?:/| of ))', where)[0]


def clean(signals: Sequence[Signal], span: Span = WHOLE) -> tuple[list[Signal], list[str]]:
    """
    Return signals within a span, whose times increase without gaps, and what was left out.

    IdentificationError if times do not tell when samples were taken.
    """
    start = min((s.time[0] for s in signals if len(s.time)), default=0.0)
    clocks = dict[bytes, list[int]]()
    for i, signal in enumerate(signals):
        clocks.setdefault(signal.time.tobytes(), []).append(i)
    cleaned, notes = list[Signal | None](signals), list[str]()
    for indices in clocks.values():
        group = [signals[i] for i in indices]
        if span != WHOLE:
            group = _within(group, start + span[0], start + span[1])
        rows, texts = _clean_rows(group, start)
        for i, signal in itertools.zip_longest(indices, rows):
            cleaned[i] = signal
        notes += [f'{source(group[0].where)}: {text}' for text in texts]
    if span != WHOLE and not any(s is not None and len(s.time) for s in cleaned):
        last = max((s.time[-1] for s in signals if len(s.time)), default=start) - start
        raise IdentificationError(
            f'--from {span[0]:g}{f" --to {span[1]:g}" if span[1] < math.inf else ""}: no samples '
            f'there: {source(signals[0].where)} lasts {last:.4g} s'
        )
    parts, texts = _longest_part([s for s in cleaned if s is not None], start)
    kept, more = _drop_velocities(parts)
    return kept, list(dict.fromkeys([*notes, *texts, *more]))


def _within(signals: Sequence[Signal], begin: float, end: float) -> list[Signal]:
    here = (signals[0].time >= begin) & (signals[0].time <= end)
    return [_take(signal, here) for signal in signals]


def _take(signal: Signal, rows: Rows | Bools) -> Signal:
    return signal._replace(time=signal.time[rows], values=signal.values[rows])


def _clean_rows(signals: Sequence[Signal], start: float) -> tuple[list[Signal], list[str]]:
    """Return the signals of one clock, in order and without NaN, or fewer signals, and notes."""
    if not len(signals[0].time):
        return list(signals), []  # an error later
    signals, notes = _drop_nan(signals)
    if not signals or len(signals[0].time) < MIN_SAMPLES or np.isnan(signals[0].time).any():
        return signals, notes  # an error later
    time = signals[0].time
    if np.all(np.diff(time) > 0.0) and not np.any(np.diff(time) > longest_step(time)):
        return signals, notes
    rows, texts = _order(signals, start)
    if len(rows) < len(time) or texts:
        signals = [_take(signal, rows) for signal in signals]
    return signals, notes + texts


def _drop_nan(signals: Sequence[Signal]) -> tuple[list[Signal], list[str]]:
    """Return signals without NaN: rows before the first complete one, then single samples."""
    count = len(signals[0].time)
    numbers: list[Bools] = [
        np.asarray(~np.isnan(signal.values.reshape(count, -1)).any(axis=1)) for signal in signals
    ]
    if all(row.all() for row in numbers):
        return list(signals), []
    measured = [i for i, row in enumerate(numbers) if row.any()]
    if not measured:
        return list(signals), []  # an error later
    notes = [
        f'{signals[i].kind} of {signals[i].of}: NaN in all {count} rows: not measured'
        for i in range(len(signals))
        if i not in measured
    ]
    complete = np.stack([numbers[i] for i in measured]).all(axis=0)
    first = int(np.argmax(complete)) if np.any(complete) else count
    if not 0 < first <= _LEADING * count:
        first = 0
    if first:
        absent = ', '.join(
            f'{signals[i].kind} of {signals[i].of}' for i in measured if not numbers[i][0]
        )
        notes.append(f'skipped the first {first} of {count} rows: NaN ({absent})')
    kept = list[Signal]()
    for i in measured:
        here = numbers[i] & (np.arange(count) >= first)
        if missing := count - first - int(np.sum(here)):
            notes.append(f'{signals[i].kind} of {signals[i].of}: {missing} of {count} are NaN')
        kept.append(_take(signals[i], here))
    return kept, notes


def _order(signals: Sequence[Signal], start: float) -> tuple[Rows, list[str]]:
    """Return the rows of signals of one clock to keep, in the order of their times, and notes."""
    time, where = signals[0].time, source(signals[0].where)
    if not np.any(np.diff(time)):
        raise IdentificationError(
            f'{where}: all {len(time)} rows have one stamp: the driver does not set it: record '
            'from one that does, or give a table with the times of the samples'
        )
    near = max(_LATE * usual_step(time), _LATE_S)
    rows, notes = _drop_strays(time, -near, longest_step(time))
    back = np.flatnonzero(np.diff(time[rows]) < -near) + 1
    pieces = np.split(rows, back)
    if len(pieces) > 1:
        rows = max(pieces, key=len)
        at = ', '.join(f'{time[piece[0] - 1] - start:.4g} s' for piece in pieces[1 : _LISTED + 1])
        notes.append(
            f'stamps go back after {at}: was the clock set back? Used the longest of '
            f'{len(pieces)} parts, {len(rows)} of {len(time)} rows'
        )
        if len(rows) < MIN_SAMPLES:
            raise IdentificationError(
                f'{where}: stamps go back {len(back)} times in {len(time)} rows, after {at}: do '
                'two nodes publish it? Record with one of them'
            )
    late = int(np.sum(time[rows] < np.maximum.accumulate(time[rows])))
    if late > _MAX_LATE * len(rows):
        raise IdentificationError(
            f'{where}: {late} of {len(rows)} rows are stamped before the row before them: do two '
            'nodes publish it? Record with one of them'
        )
    if late:
        rows = rows[np.argsort(time[rows], kind='stable')]
        notes.append(f'sorted {len(rows)} rows by their stamps: {late} came after a later one')
    again = np.concatenate([[False], np.diff(time[rows]) == 0.0])
    if again.any():
        same = np.all(
            [
                np.all(np.diff(s.values[rows].reshape(len(rows), -1), axis=0) == 0.0, axis=1)
                for s in signals
            ],
            axis=0,
        )
        equal = again & np.concatenate([[False], same])
        _check_clock(where, time[rows[~equal]])
        rows = rows[~again]
        if text := int(np.sum(equal)):
            notes.append(f'dropped {text} of {len(again)} rows: they repeat the row before')
        if text := int(np.sum(again & ~equal)):
            notes.append(f'dropped {text} of {len(again)} rows: another one has their stamp')
    return rows, notes


def _drop_strays(time: Array, late: float, gap: float) -> tuple[Rows, list[str]]:
    """Return the rows whose stamps are not far from those before and after, and a note."""
    steps = np.diff(time)
    runs = np.split(np.arange(len(time)), np.flatnonzero((steps < late) | (steps > gap)) + 1)
    kept = [runs[0]]
    for k, run in enumerate(runs[1:], start=1):
        after = time[runs[k + 1][0]] if k + 1 < len(runs) else math.inf
        between = after - time[kept[-1][-1]]
        if len(run) > _STRAY or not late <= between <= gap:
            kept.append(run)
    rows = np.concatenate(kept)
    if len(rows) == len(time):
        return rows, []
    if len(time) - len(rows) > _MAX_LATE * len(time):
        return np.arange(len(time)), []
    return rows, [f'dropped {len(time) - len(rows)} of {len(time)} rows: their stamps are far off']


def _check_clock(where: str, time: Array) -> None:
    """Raise IdentificationError if many rows share their stamps with others."""
    distinct = np.unique(time)
    if len(time) <= _MAX_SHARED * len(distinct):
        return
    step = float(np.median(np.diff(distinct)))
    raise IdentificationError(
        f'{where}: {len(time)} rows have {len(distinct)} different stamps: a clock of '
        f'{1.0 / step:.4g} Hz is too coarse for {len(time) / len(distinct) / step:.4g} samples a '
        'second: publish /clock more often, stamp by the clock of the system, or write times with '
        'more digits (or do two nodes publish it?)'
    )


def _longest_part(signals: Sequence[Signal], start: float) -> tuple[list[Signal], list[str]]:
    """Return signals without gaps, from the longest time in which none has any, and a note."""
    runs = dict[int, list[Rows]]()
    needed = [s for s in signals if s.kind != _OPTIONAL and len(s.time) >= MIN_SAMPLES]
    for i, signal in enumerate(signals):
        cuts = np.flatnonzero(np.diff(signal.time) > longest_step(signal.time)) + 1
        if len(cuts) and any(signal is other for other in needed):
            runs[i] = np.split(np.arange(len(signal.time)), cuts)
    if not runs:
        return list(signals), []
    first, last = max(s.time[0] for s in needed), min(s.time[-1] for s in needed)
    gaps = sorted(
        (float(signals[i].time[a[-1]]), float(signals[i].time[b[0]]), source(signals[i].where))
        for i, pieces in runs.items()
        for a, b in itertools.pairwise(pieces)
    )
    parts = []
    for before, after, _ in [*gaps, (last, last, '')]:
        parts.append((first, min(before, last)))
        first = max(first, after)
    begin, end = max(parts, key=lambda part: part[1] - part[0])
    result = list(signals)
    for i, pieces in runs.items():
        time = signals[i].time
        shared = [min(time[rows[-1]], end) - max(time[rows[0]], begin) for rows in pieces]
        rows = pieces[int(np.argmax(shared))]
        if len(rows) < MIN_SAMPLES:
            return list(signals), []  # an error later
        result[i] = _take(signals[i], rows)
    shown = list(dict.fromkeys(gaps))
    listed = ', '.join(f'{b - a:.3g} s after {a - start:.4g} s' for a, b, _ in shown[:_LISTED])
    excluded = ', '.join(
        f'{a - start:.4g} to {b - start:.4g} s'
        for a, b in parts
        if b > a and (a, b) != (begin, end)
    )
    return result, [
        f'{", ".join(dict.fromkeys(where for *_, where in gaps))}: no samples for {listed}'
        f'{", ..." if len(shown) > _LISTED else ""}: used the longest part without gaps, '
        f'{begin - start:.4g} to {end - start:.4g} s; left out: {excluded or "no other"} '
        '(--from and --to choose a part)'
    ]


def _drop_velocities(signals: Sequence[Signal]) -> tuple[list[Signal], list[str]]:
    """Return signals without velocities that are constant while positions move, or have gaps."""
    positions = {s.of: s for s in signals if s.kind == 'position' and len(s.time) >= MIN_SAMPLES}
    kept, notes = list[Signal](), list[str]()
    for signal in signals:
        why, position = '', positions.get(signal.of)
        if signal.kind == _OPTIONAL and position is not None and len(signal.time):
            inside = (signal.time >= position.time[0]) & (signal.time <= position.time[-1])
            here = _take(signal, inside)
            if np.ptp(signal.values) == 0.0 and np.ptp(position.values) > _MOVED:
                why = f'always {signal.values[0]:g} while positions move'
            elif len(here.time) < MIN_SAMPLES:
                why = f'{len(here.time)} samples beside {len(position.time)} positions'
            elif (steps := np.diff(here.time)).max() > longest_step(here.time):
                why = f'a gap of {steps.max():.3g} s where positions have none'
            signal = here if len(here.time) < len(signal.time) else signal  # noqa: PLW2901
        if why:
            notes.append(f'{signal.where}: ignored: {why}')
        else:
            kept.append(signal)
    return kept, notes
