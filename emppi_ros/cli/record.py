"""`emppi record`: a running graph into a bag."""

import argparse
from pathlib import Path
import sys
import time
from typing import Any

from emppi_ros.cli import output, ros
from emppi_ros.cli.interrupt import Ending

_EVERY_S = 5.0  # between two lines about what is heard


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'record',
        help='record a running graph into a bag, with all that a replay needs',
        description='Write what the graph says into a bag (MCAP; `ros2 bag` and Foxglove read '
        'it), together with what planner and belief use, cycle by cycle. Ctrl-C ends it.',
    )
    parser.add_argument(
        '--out', metavar='DIR', type=Path, help='folder to be made (bag_<date>_<time>)'
    )
    parser.add_argument('--duration', metavar='S', type=output.duration, help='seconds (no end)')
    parser.add_argument('--namespace', metavar='NS', default='', help="the nodes' namespace")
    parser.add_argument('--overwrite', action='store_true', help='replace a bag that is there')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=record)


def record(options: argparse.Namespace) -> None:
    """Record, saying what is heard; print a summary."""
    recording = ros.module('tools.bag_recorder')
    folder = options.out or Path(time.strftime('bag_%Y%m%d_%H%M%S'))
    ended = Ending().wait
    recorder = recording.record(
        folder, options.duration, options.namespace, options.overwrite, ended, _Teller(folder)
    )
    counts = recorder.counts
    summary = {
        'bag': str(folder),
        'messages': sum(counts.values()),
        'topics': counts,
        'silent': recorder.silent,
        'problem': recorder.problem,
    }
    if not options.json:
        for name in recorder.silent:
            print(f'nothing was heard on {name}', file=sys.stderr)
    output.show(summary, options.json)


class _Teller:
    """Says on stderr what is heard, every few seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._next, self._before = folder, 0.0, (0.0, dict[str, int]())
        self._said: list[str] = []

    def __call__(self, seconds: float, recorder: Any) -> None:
        if seconds < self._next:
            return
        if seconds < _EVERY_S:
            print(f'recording into {self._folder}; Ctrl-C ends it', file=sys.stderr)
        else:
            self._tell(seconds, recorder)
        self._next = seconds + _EVERY_S

    def _tell(self, seconds: float, recorder: Any) -> None:
        (before, counted), counts = self._before, recorder.counts
        self._before = seconds, counts
        rates = [
            f'{name} {(count - counted.get(name, 0)) / (seconds - before):.0f}/s'
            for name, count in counts.items()
            if count
        ]
        print(f'{seconds:.0f} s: {", ".join(rates) or "nothing is heard"}', file=sys.stderr)
        silent = [*recorder.silent, *filter(None, [recorder.problem])]
        if silent != self._said:
            self._said = silent
            print(f'not heard: {", ".join(silent) or "nothing"}', file=sys.stderr)
