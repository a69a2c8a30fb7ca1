"""`emppi record`: record a running graph into a bag."""

import argparse
from pathlib import Path
import sys
import time
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.cli.interrupt import StopSignal

_STATUS_S = 5.0  # between two status lines


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'record',
        help='record a running graph into a bag that can be replayed',
        description='Write the topics of the graph, and the inputs of planner and belief in every '
        'cycle, into a bag (MCAP, readable by `ros2 bag` and Foxglove). Stop with Ctrl-C.',
    )
    parser.add_argument(
        '--out', metavar='DIR', type=Path, help='folder to create (bag_<date>_<time>)'
    )
    parser.add_argument(
        '--duration', metavar='S', type=output.duration, help='stop after this time (never)'
    )
    parser.add_argument('--namespace', metavar='NS', default='', help='namespace of the nodes')
    parser.add_argument(
        '--depth',
        action='store_true',
        help='record depth images and their intrinsics, too, for `emppi track` (4 MB/s at 320 x '
        '240 px and 25 Hz, before compression)',
    )
    parser.add_argument('--overwrite', action='store_true', help='replace an existing bag')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=record)


def record(options: argparse.Namespace) -> None:
    """Record with status lines on stderr; print a summary."""
    bag_recorder = extras.load_node_module('tools.bag_recorder')
    folder = options.out or Path(time.strftime('bag_%Y%m%d_%H%M%S'))
    stop, status = StopSignal().wait, _StatusPrinter(folder)
    recorder = bag_recorder.record(
        folder,
        options.duration,
        options.namespace,
        options.overwrite,
        options.depth,
        stop,
        status,
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
            print(f'no messages on {name}', file=sys.stderr)
    output.show(summary, options.json)


class _StatusPrinter:
    """Prints message rates and missing topics to stderr, every few seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._next, self._before = folder, 0.0, (0.0, dict[str, int]())
        self._missing: list[str] = []

    def __call__(self, seconds: float, recorder: Any) -> None:
        if seconds < self._next:
            return
        if seconds < _STATUS_S:
            print(f'recording into {self._folder}; stop with Ctrl-C', file=sys.stderr)
        else:
            self._print_rates(seconds, recorder)
        self._next = seconds + _STATUS_S

    def _print_rates(self, seconds: float, recorder: Any) -> None:
        (before, counted), counts = self._before, recorder.counts
        self._before = seconds, counts
        rates = [
            f'{name} {(count - counted.get(name, 0)) / (seconds - before):.0f}/s'
            for name, count in counts.items()
            if count
        ]
        print(f'{seconds:.0f} s: {", ".join(rates) or "no messages"}', file=sys.stderr)
        missing = [*recorder.silent, *filter(None, [recorder.problem])]
        if missing != self._missing:
            self._missing = missing
            print(f'missing: {", ".join(missing) or "nothing"}', file=sys.stderr)
