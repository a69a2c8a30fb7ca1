"""Several recordings: what they are called, and whether they go together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import re

from emppi_ros.belief.prior_file import DataSource
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.dataset import Recording


def names_of(recordings: Sequence[Recording]) -> list[str]:
    """Return what recordings are called: as their files, or else by number."""
    found = [', '.join(source.name for source in one.sources) for one in recordings]
    return [
        f'{name} (recording {i})' if found.count(name) > 1 else name
        for i, name in enumerate(found, 1)
    ]


def sources_of(recordings: Sequence[Recording]) -> tuple[DataSource, ...]:
    """Return the files of all recordings."""
    return tuple(source for recording in recordings for source in recording.sources)


def digests_of(recordings: Sequence[Recording]) -> list[list[str]]:
    """Return the hashes of the files of each recording."""
    return [[source.sha256 for source in recording.sources] for recording in recordings]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let errors name the recording that they are about."""
    try:
        yield
    except IdentificationError as error:
        text, whole = str(error), rf'(?<![\w.-]){re.escape(name)}(?![\w.-])'
        if name and not re.search(whole, text):
            text = f'{name}: {text}'
        raise IdentificationError(text) from None


def check_different(recordings: Sequence[Recording]) -> None:
    """Raise if a file is in two recordings: what it says would count twice."""
    first = dict[str, str]()
    for recording in recordings:
        for source in recording.sources:
            if source.sha256 in first:
                raise IdentificationError(
                    f'{source.name} is {first[source.sha256]} again, byte by byte: what it says '
                    'would count twice: give each recording once'
                )
        first |= {source.sha256: source.name for source in recording.sources}


def check_same(names: Sequence[str], moving: Sequence[set[str]]) -> None:
    """Raise unless all recordings are of the same joints."""
    for name, joints in zip(names, moving, strict=True):
        if other := joints ^ moving[0]:
            raise IdentificationError(
                f'{name}: not of the same joints as {names[0]}: in one of them alone: '
                f'{", ".join(sorted(other))}: record the same joints in all'
            )
