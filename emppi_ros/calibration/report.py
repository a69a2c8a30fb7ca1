"""Parts that the reports of benchmarks share: their origin, tables, lists and pictures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
import datetime
from pathlib import Path
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
    """A result, as far as its computing time."""

    @property
    def compute_s(self) -> float:
        """Computing time [s]."""
        ...


class ComputedRow(Computed, Protocol):
    """A row, as far as its origin."""

    @property
    def made_by(self) -> str:
        """Version and processor."""
        ...


def header(
    title: str, rows: Sequence[ComputedRow], wanted: int, provenance: Provenance
) -> Iterable[str]:
    """Yield the title of a report, and the origin and the makers of its rows."""
    yield f'# {title}'
    yield from origin(rows, wanted, provenance)
    yield from makers(rows)


def origin(rows: Sequence[Computed], wanted: int, provenance: Provenance) -> Iterable[str]:
    """Yield the paragraphs on command, machine, date and computing time of some rows."""
    if provenance.quick:
        yield '**A quick run: it checks that everything works; its numbers are not evidence.**'
    yield f'```\n{provenance.command}\n```'
    yield table(['', ''], [[name, value] for name, value in provenance.machine.items()])
    seconds = sum(row.compute_s for row in rows)
    count = f'{len(rows)} of {wanted}' if len(rows) < wanted else str(wanted)
    yield f'{provenance.date}. {count} runs, {seconds / 60.0:.1f} minutes of computing.'


def makers(rows: Sequence[ComputedRow]) -> Iterable[str]:
    """Yield a list of the versions and machines that computed the rows, if there are several."""
    counts = Counter(row.made_by for row in rows)
    if len(counts) > 1:
        yield 'Rows come from several versions or machines:'
        yield bullets(f'{count} by {maker}' for maker, count in counts.items())


def left_out(skipped: Sequence[str]) -> Iterable[str]:
    """Yield a list of what a report leaves out, if anything."""
    if skipped:
        yield 'Left out:'
        yield bullets(skipped)


def bullets(lines: Iterable[str]) -> str:
    """Return a list in Markdown."""
    return '\n'.join(f'- {line}' for line in lines)


def picture(path: Path, caption: str) -> str:
    """Return a picture beside the report, and its caption below it."""
    return f'![{caption}]({path.name})\n\n{caption}'


def table(header: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    rows = [header, ['---'] * len(header), *lines]
    return '\n'.join('| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows)


def write(path: Path, parts: Iterable[str]) -> Path:
    """Write paragraphs, without empty ones, to a file in Markdown; return its path."""
    path.write_text('\n\n'.join(filter(None, parts)) + '\n', encoding='utf-8')
    return path
