"""Parts that the reports of benchmarks share: their origin, and tables in Markdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
import datetime
import shlex
from typing import NamedTuple, Protocol


class Provenance(NamedTuple):
    """How and where the numbers were computed."""

    command: str
    date: str
    machine: Mapping[str, str]
    quick: bool = False


def provenance(
    words: Sequence[str], machine: Mapping[str, str], quick: bool = False
) -> Provenance:
    """Return the origin of numbers that are computed now by the command `emppi` with `words`."""
    date = datetime.datetime.now().astimezone().strftime('%Y-%m-%d %H:%M %Z')
    return Provenance(shlex.join(['emppi', *words]), date, machine, quick)


class Computed(Protocol):
    """A row, as far as its origin."""

    @property
    def compute_s(self) -> float:
        """Computing time [s]."""
        ...

    @property
    def made_by(self) -> str:
        """Version and processor."""
        ...


def origin(rows: Sequence[Computed], wanted: int, provenance: Provenance) -> Iterable[str]:
    """Yield the paragraphs on command, machine, date and computing time of some rows."""
    if provenance.quick:
        yield '**A quick run: it checks that everything works; its numbers are not evidence.**'
    yield f'```\n{provenance.command}\n```'
    yield table(['', ''], [[name, value] for name, value in provenance.machine.items()])
    seconds = sum(row.compute_s for row in rows)
    count = f'{len(rows)} of {wanted}' if len(rows) < wanted else str(wanted)
    yield f'{provenance.date}. {count} runs, {seconds / 60.0:.1f} minutes of computing.'


def makers(rows: Sequence[Computed]) -> Iterable[str]:
    """Yield a list of the versions and machines that computed the rows, if there are several."""
    counts = Counter(row.made_by for row in rows)
    if len(counts) > 1:
        yield 'Rows come from several versions or machines:'
        yield '\n'.join(f'- {count} by {maker}' for maker, count in counts.items())


def table(header: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    rows = [header, ['---'] * len(header), *lines]
    return '\n'.join('| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows)
