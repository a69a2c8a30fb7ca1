"""`emppi record`: record a running graph into a bag."""

import argparse
from pathlib import Path
import sys
import time
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.cli.command import Command
from emppi_ros.cli.interrupt import StopSignal

_STATUS_S = 5.0  # between two status lines


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    add = Command(commands, 'record', record).option
    add('--out', 'folder to create (bag_<date>_<time>)', Path, 'DIR')
    add('--duration', 'stop after this time (never)', output.duration, 'S')
    add('--namespace', 'namespace of the nodes', str, 'NS', '')
    text = 'record depth images, too, for `emppi track` (4 MB/s at 320 x 240 px and 25 Hz)'
    add('--depth', text)
    add('--overwrite', 'replace an existing bag')
    add('--json', 'print one JSON object')


def record(options: argparse.Namespace) -> None:
    """
    Record a running graph into a bag that can be replayed.

    Write the topics of the graph, and the inputs of planner and belief in every cycle, into a bag
    (MCAP, readable by `ros2 bag` and Foxglove). Stop with Ctrl-C.
    """
    bag_recorder = extras.load_node_module('tools.bag_recorder')
    folder = options.out or Path(time.strftime('bag_%Y%m%d_%H%M%S'))
    stop, status = StopSignal().wait, _StatusPrinter(folder)
    recorder = bag_recorder.record(
        folder, options.duration, options.namespace, options.overwrite, options.depth, stop, status
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
        self._folder, self._next, self._at = folder, 0.0, 0.0
        self._counts: dict[str, int] = {}

    def __call__(self, seconds: float, recorder: Any) -> None:
        if seconds < self._next:
            return
        counts, before = recorder.counts, self._counts
        text = f'recording into {self._folder}; stop with Ctrl-C'
        if before:
            rates = [
                f'{name} {(count - before.get(name, 0)) / (seconds - self._at):.0f}/s'
                for name, count in counts.items()
                if count
            ]
            text = f'{seconds:.0f} s: {", ".join(rates) or "no messages"}'
            if missing := [*recorder.silent, *filter(None, [recorder.problem])]:
                text += f'; missing: {", ".join(missing)}'
        print(text, file=sys.stderr)
        self._next, self._at, self._counts = seconds + _STATUS_S, seconds, counts
