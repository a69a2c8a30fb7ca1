"""
Bags, as `emppi record` and `ros2 bag record` write them, to signals.

Joint states have positions, velocities and efforts; `emppi/applied` has the commands, in the one
field that is filled; `tracking/<object>` has poses. Clocks are those of the header stamps.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify import sqlite
from emppi_ros.identify.signals import SI, UNITS, Signal
from emppi_ros.identify.sqlite import SqliteBag
from emppi_ros.replay.bag_reader import SUFFIX, Bag
from emppi_ros.session.message_tables import NANO, stamp_ns

Array = npt.NDArray[np.float64]
_TOPIC = re.compile(r'(?:.+/)?(?P<what>joint_states|emppi/applied|tracking/(?P<body>[^/]+))')
_FIELDS = ('position', 'velocity', 'effort')  # of a JointState


class _Sample(NamedTuple):
    """What one message says of one thing."""

    stamp: int  # ns
    value: tuple[float, ...]


def is_bag(path: Path) -> bool:
    """Return whether a path is to be read as a bag."""
    return path.is_dir() or path.suffix.lower() in (SUFFIX, sqlite.SUFFIX)


def read(paths: Sequence[Path]) -> tuple[list[Signal], list[Path], list[str]]:
    """Return the signals of bags on one clock, the bags' files, and notes, such as of a cut."""
    found, files, notes, topics = [], list[Path](), list[str](), set[str]()
    for path in paths:
        bag = SqliteBag(path) if sqlite.is_one(path) else Bag(path)
        found.append(_collect(bag))
        files += bag.files
        topics |= set(bag.counts)
        notes += [bag.cut] if bag.cut else []
    if not any(kind == 'position' for one in found for kind, *_ in one):
        held = '; '.join([', '.join(sorted(topics)) or 'no messages', *notes])
        raise IdentificationError(
            f'{", ".join(map(str, paths))}: no positions on a topic joint_states '
            f'(sensor_msgs/JointState) in it; it holds: {held}'
        )
    samples = [rows for one in found for rows in one.values()]
    origin = min(row.stamp for rows in samples for row in rows)
    signals = [
        _signal(key, where, rows, origin)
        for one in found
        for (*key, where), rows in one.items()
        if not (key[0] in ('velocity', 'effort') and _is_absent(rows))
    ]
    return signals, files, notes


def _collect(bag: Bag | SqliteBag) -> dict[tuple[str, str, str], list[_Sample]]:
    """Return the samples of a bag by kind, name and where they are."""
    for _ in bag.messages(()):
        pass  # to count what there is, and to learn the bag's namespace
    wanted = {topic: match for topic in bag.counts if (match := _TOPIC.fullmatch(topic))}
    found: dict[tuple[str, str, str], list[_Sample]] = {}
    for heard in bag.messages(wanted):
        where = f'{bag.path}: {heard.topic}'
        match = wanted[heard.topic]
        try:
            stamp = stamp_ns(heard.data.header.stamp)
            for kind, of, value in _said(match, heard.data, where):
                place = where if kind == 'pose' else f'{where}: {kind} of {of}'
                found.setdefault((kind, of, place), []).append(_Sample(stamp, value))
        except AttributeError:
            kind = 'geometry_msgs/PoseStamped' if match['body'] else 'sensor_msgs/JointState'
            raise IdentificationError(
                f'{where}: another type of message, expected {kind}'
            ) from None
    return found


def _said(
    match: re.Match[str], message: Any, where: str
) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield kind, of what, and value."""
    if match['body']:
        p, q = message.pose.position, message.pose.orientation
        yield 'pose', match['body'], (p.x, p.y, p.z, q.w, q.x, q.y, q.z)
        return
    filled = {name: row for name in _FIELDS if len(row := getattr(message, name))}
    if match['what'] == 'emppi/applied':
        if len(filled) != 1:
            raise IdentificationError(
                f'{where}: filled are {", ".join(filled) or "none"} of {", ".join(_FIELDS)}; '
                'expected one: the kind of command'
            )
        filled = {'command': next(iter(filled.values()))}
    for kind, row in filled.items():
        if len(row) != len(message.name):
            raise IdentificationError(
                f'{where}: {len(row)} values of {kind} for {len(message.name)} names'
            )
        for name, value in zip(message.name, row, strict=True):
            yield kind, name, (value,)


def _is_absent(rows: list[_Sample]) -> bool:
    """Return whether nothing but NaN is said, as drivers do of what they cannot measure."""
    return bool(np.isnan([row.value for row in rows]).all())


def _signal(key: list[str], where: str, rows: list[_Sample], origin: int) -> Signal:
    kind, of = key
    rows = [row for i, row in enumerate(rows) if i == 0 or row != rows[i - 1]]  # said twice
    time = np.array([(row.stamp - origin) / NANO for row in rows])
    values = np.array([row.value for row in rows])
    broken = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(broken):
        row = rows[broken[0]]
        raise IdentificationError(
            f'{where}: at stamp {row.stamp / NANO:.6f} s: found '
            f'{", ".join(f"{value:g}" for value in row.value)}, expected numbers'
        )
    if kind == 'pose':
        return Signal(kind, of, UNITS['pose'][0], time, values, where)
    return Signal(kind, of, SI, time, values[:, 0], where)
