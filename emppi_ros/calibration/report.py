"""Parts that reports share: their origin, tables, lists and pictures."""

from collections.abc import Iterable, Mapping, Sequence
import datetime
from pathlib import Path
import shlex
from typing import Any, NamedTuple


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


def origin(rows: Sequence[Any], wanted: int, provenance: Provenance) -> Iterable[str]:
    """Yield the paragraphs on command, machine, date and computing time, `compute_s`, of rows."""
    if provenance.quick:
        yield '**A quick run: it checks that everything works; its numbers are not evidence.**'
    yield f'```\n{provenance.command}\n```'
    yield table(['', ''], [[name, value] for name, value in provenance.machine.items()])
    seconds = sum(row.compute_s for row in rows)
    count = f'{len(rows)} of {wanted}' if len(rows) < wanted else str(len(rows))
    yield f'{provenance.date}. {count} runs, {seconds / 60.0:.1f} minutes of computing.'


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
