"""Output of commands (JSON, aligned lines, progress bars) and types of their options."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
import json
import math
from pathlib import Path
import sys
from typing import Any

import numpy as np
from tqdm import tqdm

from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError

XML, YAML = ('.xml',), ('.yaml', '.yml')
_LEAST_S, _MOST_S = 0.1, 100_000.0  # of a duration: a few cycles, more than a day


def plain(value: Any) -> Any:
    """Convert a value to plain JSON types; NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_json(value: Mapping[str, Any]) -> str:
    """Return a mapping as one line of JSON."""
    return json.dumps(plain(value), allow_nan=False)


def show(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary as aligned lines, or as one line of JSON."""
    if as_json:
        print(to_json(summary), flush=True)
        return
    width = max(len(key) for key in summary)
    for key, value in summary.items():
        if isinstance(value, Mapping) and any(isinstance(v, Mapping) for v in value.values()):
            for name, item in value.items():
                print(f'{name:>{width}}  {_text(item)}')
        else:
            print(f'{key:>{width}}  {_text(value)}')


def warn(sentences: Sequence[str]) -> None:
    """Print warnings on stderr, one a line."""
    for sentence in sentences:
        print(f'warning: {sentence}', file=sys.stderr, flush=True)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return '  '.join(f'{key} {_text(item)}' for key, item in value.items())
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, float):
        return f'{value:.4g}' if math.isfinite(value) else '-'
    return str(value)


@contextmanager
def progress(what: str, total: float, unit: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr; yield a function that takes the work done and a note."""
    layout = '{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} {unit} [{elapsed}{postfix}]'
    if float(total).is_integer() and unit != 's':
        layout = layout.replace(':.1f}', ':.0f}')
    interval = 0.1 if sys.stderr.isatty() else 2.0  # s: a log file needs few updates
    with tqdm(
        total=total, desc=what, unit=unit, bar_format=layout, file=sys.stderr, mininterval=interval
    ) as bar:

        def advance(done: float, note: str = '') -> None:
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(min(done, total) - bar.n)

        yield advance


def number(
    check: Callable[[float], bool], expected: str, kind: Callable[[str], float] = float
) -> Callable[[str], Any]:
    """Return an option type: a number that passes a check; errors say what is expected."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not check(value):
            raise argparse.ArgumentTypeError(f'{text!r} must be {expected}')
        return value

    return read


duration = number(
    lambda seconds: _LEAST_S <= seconds <= _MOST_S,
    f'a time in seconds from {_LEAST_S:g} to {_MOST_S:.0f}',
)
positive = number(lambda value: 0.0 < value < math.inf, 'a positive number')
whole = number(lambda value: value >= 0, 'a non-negative integer', int)
count = number(lambda value: value >= 1, 'a positive integer', int)


def seeds(text: str) -> range:
    """Option type: seeds, as their number (from 0) or as a range such as 50-59."""
    first, dash, last = text.partition('-')
    if not dash:
        return range(count(text))
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(
            f'{text!r} must be a number of seeds, such as 10, or a range, such as 50-59'
        )
    return range(int(first), int(last) + 1)


def add_scheduler(parser: Any, of: str = '') -> None:
    """Add --scheduler, a cluster that computes; `of` names what, unless it is everything."""
    parser.add_argument(
        '--scheduler',
        metavar='ADDRESS',
        help='compute on the workers of this Dask cluster, which you trust (tcp://host:8786)' + of,
    )


def check_path(option: str, path: Path | None, *suffixes: str) -> None:
    """Raise ConfigError if a file, or without suffixes a folder, cannot be written."""
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        raise ConfigError(f'{option} {path}: expected a name that ends in {" or ".join(suffixes)}')
    paths.check_output(option, path, folder=not suffixes)


def check_files(options: argparse.Namespace, **suffixes: Sequence[str]) -> None:
    """Raise ConfigError if an option names a file that exists, or has another suffix."""
    for name, allowed in suffixes.items():
        path = getattr(options, name)
        if path is None:
            continue
        if path.suffix.lower() not in allowed:
            raise ConfigError(f'--{name}: found {path}, expected a name that ends in {allowed[0]}')
        if not path.parent.is_dir():
            raise ConfigError(f'--{name}: no such folder: {path.parent}')
        paths.check_new(path, options.overwrite)
