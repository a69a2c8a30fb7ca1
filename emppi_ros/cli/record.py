"""`emppi record`: record a running graph into a bag."""

import argparse
from collections.abc import Mapping
import math
from pathlib import Path
import sys
import time
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.cli.command import Subcommand
from emppi_ros.cli.interrupt import StopSignal

_POLL_S, _STATUS_S = 0.01, 5.0  # between two polls; between two status lines


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    add = Subcommand(commands, 'record', record).option
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
    ending, limit = StopSignal(), options.duration or math.inf
    with bag_recorder.recording(
        folder, options.namespace, options.overwrite, options.depth
    ) as recorder:
        print(f'recording into {folder}; stop with Ctrl-C', file=sys.stderr)
        start, shown, before = time.monotonic(), 0.0, recorder.counts
        while (seconds := time.monotonic() - start) < limit and not ending.wait(_POLL_S):
            recorder.poll()
            if seconds >= shown + _STATUS_S:
                status = _status(recorder, before, seconds - shown)
                print(f'{seconds:.0f} s: {status}', file=sys.stderr)
                shown, before = seconds, recorder.counts
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


def _status(recorder: Any, before: Mapping[str, int], seconds: float) -> str:
    """Return message rates since other counts, and missing topics."""
    rates = [
        f'{name} {(count - before.get(name, 0)) / seconds:.0f}/s'
        for name, count in recorder.counts.items()
        if count
    ]
    missing = [*recorder.silent, *filter(None, [recorder.problem])]
    return (', '.join(rates) or 'no messages') + (
        f'; missing: {", ".join(missing)}' if missing else ''
    )
