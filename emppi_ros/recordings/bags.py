"""
Signals from bags of `emppi record` and `ros2 bag record`, in MCAP or (up to Humble) SQLite.

Joint states hold positions, velocities and efforts; `emppi/applied` holds commands, in the one
field that is filled; `tracking/<object>` holds poses, and `tracking_covariance/<object>` how well
they are known. Times are those of the header stamps.
"""

from collections.abc import Iterator, Sequence
import itertools
from pathlib import Path
import re
from typing import Any

import numpy as np

from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings.bag_reader import SUFFIX, Bag, has_suffix
from emppi_ros.recordings.cleaning import source, unset
from emppi_ros.recordings.message_tables import NANO, stamp_ns
from emppi_ros.recordings.signals import SI, UNITS, Signal, covariance_triangles
from emppi_ros.recordings.sqlite_bag import SQLITE_SUFFIX, open_bag

_TOPIC = re.compile(
    r'(?:.+/)?(?P<kind>joint_states|emppi/applied'
    r'|(?P<tracked>tracking|tracking_covariance)/(?P<body>[^/]+))'
)
_TYPES = {
    'tracking': 'geometry_msgs/PoseStamped',
    'tracking_covariance': 'geometry_msgs/PoseWithCovarianceStamped',
}
_FIELDS = ('position', 'velocity', 'effort')  # of a JointState
_MISSING = {
    'position': 'no positions on a topic joint_states (sensor_msgs/JointState)',
    'pose': 'no poses on a topic tracking/<object> (geometry_msgs/PoseStamped)',
}
_Samples = list[tuple[int, tuple[float, ...]]]  # stamps [ns] and values
_TRACKED = ('pose', 'covariance')


def is_bag(path: Path) -> bool:
    """Return whether a path is to be read as a bag."""
    return path.is_dir() or has_suffix(path, SUFFIX) or has_suffix(path, SQLITE_SUFFIX)


def read(
    paths: Sequence[Path], needed: str = 'position', topic: str | None = None
) -> tuple[list[Signal], list[Path], list[str]]:
    """
    Return the signals of bags on one clock, the files, and notes, such as of a cut bag.

    Joints on several topics are read from `topic`. IdentificationError without a signal of the
    needed kind: 'position', or 'pose' for tracked poses with their covariances.
    """
    collected, files, notes, topics = [], list[Path](), list[str](), set[str]()
    for path in paths:
        bag = open_bag(path)
        group, states = _collect(bag)
        if needed == 'position' and states:
            group = _choose(group, bag, states, topic)
        collected.append(group)
        files += bag.files
        topics |= set(bag.counts)
        notes += [bag.cut] if bag.cut else []
    if not any(kind == needed for group in collected for kind, *_ in group):
        contents = '; '.join([', '.join(sorted(topics)) or 'no messages', *notes])
        raise IdentificationError(
            f'{", ".join(map(str, paths))}: {_MISSING[needed]}; the bag contains: {contents}'
        )
    notes += _drop_unset(collected)
    origin = min(stamp for group in collected for rows in group.values() for stamp, _ in rows)
    signals = [
        _signal(key, where, rows, origin)
        for group in collected
        for (*key, where), rows in group.items()
        if key[0] != 'covariance' or needed == 'pose'
        # drivers publish NaN for what they cannot measure
        if not (key[0] in ('velocity', 'effort') and np.isnan([value for _, value in rows]).all())
    ]
    return signals, files, notes


def _collect(
    bag: Bag,
) -> tuple[dict[tuple[str, str, str], _Samples], list[str]]:
    """Return the samples of a bag by kind, name and place, and its topics of joint states."""
    for _ in bag.messages(()):
        pass  # counts the messages, and learns the namespace of the bag
    matches = {topic: match for topic in bag.counts if (match := _TOPIC.fullmatch(topic))}
    samples: dict[tuple[str, str, str], _Samples] = {}
    for message in bag.messages(matches):
        where = f'{bag.path}: {message.topic}'
        match = matches[message.topic]
        try:
            stamp = stamp_ns(message.data.header.stamp)
            for kind, of, value in _values(match, message.data, where):
                place = where if kind in _TRACKED else f'{where}: {kind} of {of}'
                samples.setdefault((kind, of, place), []).append((stamp, value))
        except AttributeError:
            expected = _TYPES.get(match['tracked'], 'sensor_msgs/JointState')
            raise IdentificationError(
                f'{where}: another type of message, expected {expected}'
            ) from None
    states = (topic for topic, match in matches.items() if match['kind'] == 'joint_states')
    return samples, sorted(states)


def _choose(
    samples: dict[tuple[str, str, str], _Samples],
    bag: Bag,
    topics: Sequence[str],
    given: str | None,
) -> dict[tuple[str, str, str], _Samples]:
    """Return the samples of a bag without those of joints that are on the chosen topic, too."""
    chosen = given and given.removeprefix(bag.namespace).lstrip('/')
    if chosen is not None and chosen not in topics:
        raise IdentificationError(
            f'--topic {given}: {bag.path} has no such joint states; it has: {", ".join(topics)}'
        )
    begins = {f'{bag.path}: {topic}: ': topic for topic in topics}
    joints: dict[str, set[str]] = {topic: set() for topic in topics}
    for kind, of, where in samples:
        for begin, topic in begins.items():
            if kind in _FIELDS and where.startswith(begin):
                joints[topic].add(of)
    if chosen is None:
        for first, second in itertools.combinations(sorted(topics, key=bag.counts.__getitem__), 2):
            if both := sorted(joints[first] & joints[second]):
                raise IdentificationError(
                    f'{bag.path}: {", ".join(both)} on two topics: {second} '
                    f'({bag.counts[second]} messages) and {first} ({bag.counts[first]}): choose '
                    f'one, such as --topic {second}'
                )
        return samples
    excluded = tuple(begin for begin, topic in begins.items() if topic != chosen)
    return {
        key: rows
        for key, rows in samples.items()
        if not (key[1] in joints[chosen] and key[0] in _FIELDS and key[2].startswith(excluded))
    }


def _drop_unset(collected: Sequence[dict[tuple[str, str, str], _Samples]]) -> list[str]:
    """Remove the samples that nobody stamped, in place; return notes."""
    notes = []
    for group in collected:
        for (*_, where), rows in group.items():
            zero = unset(np.array([stamp for stamp, _ in rows]), NANO)
            if zero.any():
                text = f'dropped {np.sum(zero)} of {len(rows)} messages: their stamps are 0'
                notes.append(f'{source(where)}: {text}')
                rows[:] = [row for row, drop in zip(rows, zero, strict=True) if not drop]
    return list(dict.fromkeys(notes))


def _values(
    match: re.Match[str], message: Any, where: str
) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield kind, name and value."""
    if match['tracked'] == 'tracking':
        p, q = message.pose.position, message.pose.orientation
        yield 'pose', match['body'], (p.x, p.y, p.z, q.w, q.x, q.y, q.z)
        return
    if match['tracked']:
        rows = np.reshape(message.pose.covariance, (1, 6, 6))
        yield 'covariance', match['body'], tuple(covariance_triangles(rows)[0].tolist())
        return
    filled = {name: row for name in _FIELDS if len(row := getattr(message, name))}
    if match['kind'] == 'emppi/applied':
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


def _signal(key: list[str], where: str, rows: _Samples, origin: int) -> Signal:
    kind, of = key
    time = np.array([(stamp - origin) / NANO for stamp, _ in rows])
    values = np.array([value for _, value in rows])
    # drivers publish NaN before they have read a joint
    wrong = np.isinf(values) if kind in _FIELDS else ~np.isfinite(values)
    broken = np.flatnonzero(wrong.any(axis=1))
    if len(broken):
        stamp, value = rows[broken[0]]
        raise IdentificationError(
            f'{where}: at stamp {stamp / NANO:.6f} s: found {", ".join(f"{x:g}" for x in value)}, '
            'expected numbers'
        )
    if kind in _TRACKED:
        return Signal(kind, of, UNITS[kind][0], time, values, where)
    return Signal(kind, of, SI, time, values[:, 0], where)
