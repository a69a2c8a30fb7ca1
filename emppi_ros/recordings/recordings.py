"""
Recordings: signals of one clock, from tables (CSV, Parquet) or from bags (MCAP, SQLite).

A table has a column `time_s` and columns such as `position/hinge [rad]`, `velocity/hinge [rad/s]`,
`command/motor [N m]` and `pose/block.x [m]`. Several files of a recording share one clock.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
import re

from emppi_ros.core.errors import IdentificationError
from emppi_ros.priors.prior_file import DataSource, hash_file
from emppi_ros.recordings import bags, tables
from emppi_ros.recordings.cleaning import WHOLE, Span, clean
from emppi_ros.recordings.repair import repair
from emppi_ros.recordings.signals import Signal, check_signal, unwrap

INPUT_KINDS = 'command', 'torque', 'effort'  # kinds of signals that drive a motion


@dataclass(frozen=True)
class Recording:
    """The signals of one run."""

    signals: Mapping[tuple[str, str], Signal]  # by kind and name
    sources: tuple[DataSource, ...]
    notes: tuple[str, ...] = ()  # corrections and omissions, for the user
    span: Span = WHOLE  # s since the start of the files: what was read of them

    def names(self, kind: str) -> list[str]:
        """Return the names of the signals of a kind."""
        return [name for other, name in self.signals if other == kind]

    def listed(self, kind: str) -> str:
        """Return the names of the signals of a kind, for an error message."""
        return ', '.join(self.names(kind)) or 'none'


def read_recording(
    paths: Sequence[Path], span: Span = WHOLE, topic: str | None = None
) -> Recording:
    """
    Return the recording in files, or what is within a span of seconds since its start.

    Joints that are on several topics of a bag are read from `topic`. IdentificationError names
    the file and column or topic.
    """
    are_bags = [bags.is_bag(path) for path in paths]
    if all(are_bags):
        read, files, notes = bags.read(paths, topic=topic)
    elif any(are_bags):
        bag, file = (paths[are_bags.index(is_bag)] for is_bag in (True, False))
        raise IdentificationError(
            f'{bag} is a bag, but {file} is a table: they do not share a clock: give only bags'
        )
    elif topic is not None:
        raise IdentificationError(f'--topic {topic}: {paths[0]} is a table: leave it out')
    else:
        loaded = [tables.load(path) for path in paths]
        read = [signal for table in loaded for signal in tables.signals_of(table)]
        files, notes = list(paths), [note for table in loaded for note in table.notes]
    for change in (lambda rows: clean(rows, span), repair):
        read, texts = change(read)
        notes = [*notes, *texts]
    signals: dict[tuple[str, str], Signal] = {}
    for signal in read:
        if (signal.kind, signal.of) in signals:
            other = signals[signal.kind, signal.of].where
            raise IdentificationError(f'{signal.where}: is in {other} already')
        try:
            checked = check_signal(signal)
        except IdentificationError as error:
            raise IdentificationError('; '.join([str(error), *notes])) from None
        whole = signals[signal.kind, signal.of] = unwrap(checked)
        if whole is not checked:
            notes = [*notes, f'{signal.where}: removed jumps by a whole turn']
    return Recording(signals, tuple(hash_file(path) for path in files), tuple(notes), span)


def delay_inputs(recording: Recording, lag_s: float) -> Recording:
    """Return a recording whose commands, torques and efforts act so much later."""
    signals = {
        key: signal._replace(time=signal.time + lag_s) if signal.kind in INPUT_KINDS else signal
        for key, signal in recording.signals.items()
    }
    return replace(recording, signals=signals)


def recording_names(recordings: Sequence[Recording]) -> list[str]:
    """Return the names of recordings: those of their files, numbered if they are not unique."""
    names = [', '.join(source.name for source in recording.sources) for recording in recordings]
    return [
        f'{name} (recording {i})' if names.count(name) > 1 else name
        for i, name in enumerate(names, 1)
    ]


def recording_digests(recordings: Sequence[Recording]) -> list[list[str]]:
    """Return the hashes of the files of each recording, and which part of them was read."""
    return [
        [source.sha256 for source in recording.sources]
        + ([str(recording.span)] if recording.span != WHOLE else [])
        for recording in recordings
    ]


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Prefix IdentificationErrors with the name of a recording, unless they contain it."""
    try:
        yield
    except IdentificationError as error:
        text, whole = str(error), rf'(?<![\w.-]){re.escape(name)}(?![\w.-])'
        if name and not re.search(whole, text):
            text = f'{name}: {text}'
        raise IdentificationError(text) from None


def check_distinct(recordings: Sequence[Recording]) -> None:
    """Raise IdentificationError if a file is in two recordings: it would count twice."""
    first = dict[str, str]()
    for recording in recordings:
        for source in recording.sources:
            if source.sha256 in first:
                raise IdentificationError(
                    f'{source.name} is {first[source.sha256]} again, byte by byte, and would '
                    'count twice: give each recording once'
                )
        first |= {source.sha256: source.name for source in recording.sources}


def check_same_joints(names: Sequence[str], joints: Sequence[set[str]]) -> None:
    """Raise IdentificationError unless all recordings have the same joints."""
    for name, own in zip(names, joints, strict=True):
        if other := own ^ joints[0]:
            raise IdentificationError(
                f'{name}: other joints than in {names[0]}: in one of them only: '
                f'{", ".join(sorted(other))}: record the same joints in all'
            )
