"""
Repair of rows that a logger wrote at other moments than the robot measured them.

Repeated rows are dropped. The number of the robot's cycles between two rows follows from positions
and velocities: if it is whole on nearly all rows, stamps are replaced by robot time.
"""

from collections.abc import Sequence
import math

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.recordings.cleaning import source
from emppi_ros.recordings.noise import resolution, rounding_noise, uneven_difference_noise
from emppi_ros.recordings.signals import MIN_SAMPLES, Signal, unwrap

_MEASURED = 'position', 'velocity', 'effort', 'torque'  # sampled by the robot, in one row
_MOVING = 3.0  # resolutions by which a joint moves per row where a repetition is told from rest
_EVEN = 0.05  # deviation, in periods, of stamps that do not jitter
_SURE = 0.15  # standard deviation, in cycles, up to which a number of cycles is certain
_WHOLE = 0.25  # deviation, in cycles, of a whole number
_MIN_SURE, _MIN_WHOLE = 0.1, 0.95  # share of rows
_BETTER = 0.5  # ratio of deviations from robot time and from stamps
_OFFSET_ROWS = 25  # whose median delay tells how many cycles passed at rest


def repair(signals: Sequence[Signal]) -> tuple[list[Signal], list[str]]:
    """Return signals without repeated rows and on robot time where needed, and what was done."""
    clocks = dict[bytes, list[int]]()  # signals with the same times
    for i, signal in enumerate(signals):
        clocks.setdefault(signal.time.tobytes(), []).append(i)
    repaired, notes = list(signals), list[str]()
    for indices in clocks.values():
        group = [signals[i] for i in indices]
        time, kept, texts = _repair_clock(group)
        notes += [f'{source(group[0].where)}: {text}' for text in texts]
        if kept.all() and time is group[0].time:
            continue
        for i, signal in zip(indices, group, strict=True):
            if signal.kind in _MEASURED:
                repaired[i] = signal._replace(time=time[kept], values=signal.values[kept])
            else:
                repaired[i] = signal._replace(time=time)
    return repaired, notes


def _repair_clock(signals: Sequence[Signal]) -> tuple[Array, Bools, list[str]]:
    """Return repaired times (n,) of signals on one clock, the rows to keep, and what was done."""
    time = signals[0].time
    position, velocity = (
        {s.of: unwrap(s).values for s in signals if s.kind == kind}
        for kind in ('position', 'velocity')
    )
    if len(time) < MIN_SAMPLES or not position or not np.isfinite(time).all():
        return time, np.ones(len(time), np.bool_), []
    places = np.column_stack(list(position.values()))
    kept = ~repeated_rows(places)
    notes = []
    if not kept.all():
        notes.append(f'dropped {np.sum(~kept)} of {len(time)} rows: they repeat the row before')
    if np.any(np.diff(time[kept]) <= 0.0):
        return time, kept, notes  # an error later
    steps = np.diff(time)
    share = steps / float(np.median(steps))
    jitter = np.abs(share - np.maximum(np.round(share), 1.0))  # deviation from whole periods
    if np.mean(jitter > _EVEN) < _EVEN:
        return time, kept, notes + _count_missing(steps)
    robot = None
    if position.keys() <= velocity.keys():
        speeds = np.column_stack([velocity[name] for name in position])
        robot = robot_time(time[kept], places[kept], speeds[kept])
    if robot is None:
        return time, kept, notes
    low, high = 1e3 * np.quantile(steps, [0.01, 0.99])
    notes.append(
        f'stamps are {low:.3g} to {high:.3g} ms apart: replaced by robot time, with cycles of '
        f'{1e3 * np.median(np.diff(robot)):.4g} ms'
    )
    notes += _count_missing(np.diff(robot))
    # commands keep their rows: those between kept rows move along
    return np.interp(time, time[kept], robot), kept, notes


def _count_missing(steps: Array) -> list[str]:
    """Return a note of the samples that are missing between others, which are `steps` apart."""
    missing = int(np.sum(np.maximum(np.round(steps / np.median(steps)), 1.0) - 1.0))
    if not missing:
        return []
    total = len(steps) + 1 + missing
    return [f'{missing} of {total} samples are missing, and are interpolated']


def repeated_rows(position: Array) -> Bools:
    """
    Return which rows (n,) repeat the positions (n, j) of the row before while the arm moves.

    The arm moves if a joint's positions change by several resolutions before and after, in the
    same direction: at rest, and at turning points, positions may well be equal.
    """
    same = np.concatenate([[False], np.all(np.diff(position, axis=0) == 0.0, axis=1)])
    new = np.flatnonzero(~same)
    if len(new) < MIN_SAMPLES:
        return np.zeros(len(position), np.bool_)
    changes = np.diff(position[new], axis=0)  # to each new row but the first
    least = _MOVING * np.array([resolution(column) for column in position[new].T])
    before, after = changes[:-1], changes[1:]
    both = (np.minimum(np.abs(before), np.abs(after)) > least) & (before * after > 0.0)
    moving = np.zeros(len(new), np.bool_)
    moving[1:-1] = both.any(axis=1)
    return same & moving[np.cumsum(~same) - 1]


def robot_time(time: Array, position: Array, velocity: Array) -> Array | None:
    """
    Return the times (n,) at which a robot of even cycles measured rows that jitter.

    Positions and velocities are (n, j), stamps `time` (n,) increase. Offset and rate of the result
    are those of the stamps. None if the motion does not tell the number of cycles, or stamps fit
    it as well.
    """
    noise = [np.array([_row_noise(row) for row in rows.T]) for rows in (position, velocity)]
    for _ in range(2):
        counts = _count_cycles(time, position, velocity, *noise)
        if counts is None:
            return None
        cycles = np.concatenate([[0.0], np.cumsum(counts)])
        # on this clock, noise is told from missing rows
        noise = [
            np.array(
                [max(uneven_difference_noise(cycles, row), rounding_noise(row)) for row in rows.T]
            )
            for rows in (position, velocity)
        ]
    rate, begin = np.polyfit(cycles, time, 1)
    return np.asarray(begin + rate * cycles, dtype=np.float64)


def _count_cycles(
    time: Array, position: Array, velocity: Array, noise: Array, slow: Array
) -> Array | None:
    """
    Return the number of cycles between rows (n - 1,), or None if they are not whole.

    `noise` and `slow` (j,) are standard deviations of positions and velocities.
    """
    sums, moved = velocity[1:] + velocity[:-1], np.diff(position, axis=0)
    stamped = np.diff(time)
    period = float(np.median(stamped))
    weights = 1.0 / (2.0 * noise**2 + 0.5 * (slow * period) ** 2)
    information = np.sum(weights * sums**2, axis=1)
    elapsed = 2.0 * np.sum(weights * sums * moved, axis=1) / np.maximum(information, 1e-300)
    sure = information > (2.0 / (_SURE * period)) ** 2
    if np.mean(sure) < _MIN_SURE:
        return None
    cycle = float(np.median(elapsed[sure]))
    if not cycle > 0.0:
        return None
    counts = np.maximum(np.round(elapsed / cycle), 1.0)
    cycle = float(np.sum(elapsed[sure]) / np.sum(counts[sure]))
    off = elapsed[sure] - cycle * counts[sure]
    if np.mean(np.abs(off) < _WHOLE * cycle) < _MIN_WHOLE:
        return None
    if np.median(np.abs(off)) > _BETTER * np.median(np.abs(elapsed[sure] - stamped[sure])):
        return None
    counts[~sure] = 1.0
    _count_cycles_at_rest(counts, sure, time, cycle)
    return counts


def _count_cycles_at_rest(counts: Array, sure: Bools, time: Array, cycle: float) -> None:
    """Add cycles where the motion does not tell their number, as far as stamps show them."""
    delay = time - cycle * np.concatenate([[0.0], np.cumsum(counts)])
    # stretches between which at least so many rows are sure
    unsure = np.flatnonzero(~sure)
    for rows in np.split(unsure, np.flatnonzero(np.diff(unsure) > _OFFSET_ROWS) + 1):
        if not len(rows):
            continue
        before = delay[max(rows[0] - _OFFSET_ROWS, 0) : rows[0] + 1]
        after = delay[rows[-1] + 1 : rows[-1] + 1 + _OFFSET_ROWS]
        more = round(float(np.median(after) - np.median(before)) / cycle)
        for _ in range(max(more, 0)):
            lacking = time[rows + 1] - time[rows] - cycle * counts[rows]
            counts[rows[np.argmax(lacking)]] += 1.0


def _row_noise(column: Array) -> float:
    """Return about the standard deviation of the noise of rows (n,), many of which are missing."""
    # the smallest tenth of third differences hardly contains any across missing rows
    rest = np.quantile(np.abs(np.diff(column, 3)), 0.1)
    noise = float(rest) / (0.1257 * math.sqrt(20.0))
    scale = np.finfo(float).eps * float(np.max(np.abs(column)) + 1.0)
    return max(noise, rounding_noise(column), scale)
