"""Parts that reports share: the machine, their origin, tables, lists and pictures."""

from collections.abc import Iterable, Mapping, Sequence
import datetime
import functools
import os
from pathlib import Path
import platform
import shlex
import subprocess
from typing import Any, NamedTuple

import mujoco
import numpy
import scipy

import emppi_ros
from emppi_ros.core import paths


@functools.cache
def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:  # not Linux
        lines = []
    models = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return models[0] if models else platform.processor() or platform.machine()


@functools.cache
def commit() -> str:
    """Return the git commit of a checkout, with a + if files are changed; '' without git."""
    if not (paths.PACKAGE.parent / '.git').exists():  # installed, perhaps inside another checkout
        return ''
    command = ['git', '-C', str(paths.PACKAGE), 'describe', '--always', '--dirty=+', '--exclude=*']
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # git is missing or fails
        return ''
    return result.stdout.strip()


@functools.cache
def machine_label() -> str:
    """Return version, commit and processor in one line."""
    return f'emppi_ros {emppi_ros.__version__} {commit()}'.strip() + f' on {processor()}'


def describe_machine() -> Mapping[str, str]:
    """Return the machine and software versions by name."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return {
        'processor': processor(),
        'cores': str(os.cpu_count()),
        'memory': f'{memory / (1 << 30):.1f} GiB',
        'system': f'{platform.system()} {platform.release()}',
        'Python': platform.python_version(),
        'MuJoCo': mujoco.__version__,
        'NumPy': numpy.__version__,
        'SciPy': scipy.__version__,
        'emppi_ros': emppi_ros.__version__,
        'commit': commit() or 'none: not a git checkout',
    }


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
