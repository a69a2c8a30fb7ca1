"""What commands print: one JSON object, a few aligned lines, a progress bar."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import json
import math
import sys
from typing import Any

import numpy as np
from tqdm import tqdm

from emppi_ros.core.errors import ConfigError


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: what is not finite becomes null."""
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
    """Return one line of JSON."""
    return json.dumps(plain(value), allow_nan=False)


def show(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary, as the last line of stdout if it is JSON."""
    if as_json:
        print(to_json(summary), flush=True)
        return
    width = max(len(key) for key in summary)
    for key, value in summary.items():
        if isinstance(value, Mapping) and any(isinstance(v, Mapping) for v in value.values()):
            for name, item in value.items():
                print(f'{name:>{width}}  {_words(item)}')
        else:
            print(f'{key:>{width}}  {_words(value)}')


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return '  '.join(f'{key} {_words(item)}' for key, item in value.items())
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, float):
        return f'{value:.4g}' if math.isfinite(value) else '-'
    return str(value)


@contextmanager
def progress(what: str, total: float, unit: str) -> Iterator[Callable[..., None]]:
    """Yield a function of how far the work is, and maybe a note; it moves a bar on stderr."""
    layout = '{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} {unit} [{elapsed}{postfix}]'
    if float(total).is_integer() and unit != 's':
        layout = layout.replace(':.1f}', ':.0f}')
    calm = 0.1 if sys.stderr.isatty() else 2.0  # s between updates: a log file needs few
    with tqdm(
        total=total, desc=what, unit=unit, bar_format=layout, file=sys.stderr, mininterval=calm
    ) as bar:

        def advance(done: float, note: str = '') -> None:
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(min(done, total) - bar.n)

        yield advance


def duration(text: str) -> float:
    """Return a duration in seconds from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 1e5:  # noqa: PLR2004  (less than a few cycles says nothing)
        raise argparse.ArgumentTypeError(f'{text!r} is no time in seconds from 0.1 to 100000')
    return value


def whole(text: str) -> int:
    """Return a whole number from 0 from the command line, such as a seed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'{text!r} is no whole number from 0')
    return int(text)


def count(text: str) -> int:
    """Return a whole number from 1 from the command line, such as a number of runs."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is no whole number from 1')
    return int(text)


def seeds(text: str) -> range:
    """Return which seeds from the command line: how many, from 0, or from which to which."""
    first, dash, last = text.partition('-')
    if not dash:
        return range(count(text))
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(
            f'{text!r} is neither how many seeds, such as 10, nor which, such as 50-59'
        )
    return range(int(first), int(last) + 1)


def add_workers(parser: Any) -> None:
    """Add who computes, for `parallel.workers`, to a parser or a group of its options."""
    parser.add_argument(
        '--jobs',
        metavar='J',
        type=count,
        help='processes on this machine (one per core); with several, each has a single thread',
    )
    add_scheduler(parser)


def add_scheduler(parser: Any, of: str = '') -> None:
    """Add a cluster that computes, for `parallel.workers`; `of` what, unless of everything."""
    parser.add_argument(
        '--scheduler',
        metavar='ADDRESS',
        help='compute on the workers of a Dask cluster that you trust, such as tcp://host:8786'
        + of,
    )


def assignments(
    texts: list[str], option: str = '--truth', such: str = 'block_mass=0.3'
) -> dict[str, float]:
    """Return name -> number from texts such as `block_mass=0.3`."""
    values: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition('=')
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (name and equals and math.isfinite(value)):
            raise ConfigError(f'{option} {text}: expected name=value, such as {such}')
        if name in values:
            raise ConfigError(f'{option} {text}: {name} is given twice')
        values[name] = value
    return values
