"""`emppi replay` and `emppi report`: rerun the computations of a bag, and plot it."""

import argparse
from collections.abc import Callable
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.belief import explanations
from emppi_ros.cli import output, reports
from emppi_ros.cli.command import Subcommand
from emppi_ros.core.errors import ConfigError
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.recordings.sqlite_bag import open_bag
from emppi_ros.replay import bag_report, what_if
from emppi_ros.replay import replay as replaying
from emppi_ros.tasks.task import load_task

DIFFERENT = 1  # exit status


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    add = _add_command(commands, 'replay', replay)
    add('--what-if', 'rerun the belief with the settings of another task', str, 'TASK')
    add('--prior', 'with --what-if: start from this prior', str, 'FILE')
    text = 'with --what-if: random seed of the belief (the recorded one)'
    add('--seed', text, output.whole)
    add('--out', 'with --what-if: write plots to this folder', Path, 'DIR')
    add = _add_command(commands, 'report', report)
    add('--out', 'folder for the plots (BAG_report, beside the bag)', Path, 'DIR')
    add('--video', 'write a video, .mp4 or .gif', Path, 'FILE')


def _add_command(commands: Any, name: str, execute: Callable[..., Any]) -> Callable[..., None]:
    """Add a command that reads a bag; return the function that adds an option."""
    add = Subcommand(commands, name, execute).option
    add('bag', 'folder of a bag, or an .mcap file', Path, 'BAG')
    add('--namespace', 'namespace of the nodes, if the bag has several robots', str, 'NS')
    add('--json', 'print one JSON object')
    return add


def replay(options: argparse.Namespace) -> int:
    """
    Rerun belief and planner on a bag, and compare bit by bit.

    Exit status 0 if all beliefs and plans are bit-identical, 1 if not; the output names the first
    difference.
    """
    bag = open_bag(options.bag, options.namespace)
    if options.what_if is not None:
        return _what_if(options, bag)
    for name in ('prior', 'seed', 'out'):
        if getattr(options, name) is not None:
            raise ConfigError(
                f'--{name} goes with --what-if: a replay uses the inputs and random numbers of '
                'the bag'
            )
    recorded = replaying.read(bag)
    count = sum(map(len, recorded.journals.values()))
    with output.progress('replay', count, 'messages') as advance:
        summary = replaying.replay(bag, recorded, advance)
    _show(options, summary)
    return 0 if summary['identical'] else DIFFERENT


def _what_if(options: argparse.Namespace, bag: Bag) -> int:
    recorded = replaying.read(bag)
    task = load_task(options.what_if).with_prior(options.prior or '')
    summary, record = what_if.run(bag, recorded, task, options.seed)
    if options.out is not None:
        reports.write_plots(task, record, summary, options.out)
    _show(options, summary)
    return 0


def _show(options: argparse.Namespace, summary: dict[str, Any]) -> None:
    """Print a summary; without --json, its notes go to stderr."""
    if not options.json:
        for note in summary.pop('notes'):
            print(f'note: {note}', file=sys.stderr)
        for verdict in summary.values():
            if isinstance(verdict, dict) and not verdict.get('first_difference', 'none'):
                del verdict['first_difference']
    output.show(summary, options.json)


def report(options: argparse.Namespace) -> None:
    """Plot a bag."""
    options.video = reports.check_video(options.video)
    bag = open_bag(options.bag, options.namespace)
    task, observer, notes = bag_report.observe(bag)
    summary, record = observer.summarize()
    for note in notes:
        print(f'note: {note}', file=sys.stderr)
    folder = options.out or options.bag.parent / f'{options.bag.stem}_report'
    reports.write_plots(task, record, summary, folder)
    if options.video is not None:
        if not np.isfinite(record.truth).all():
            raise ConfigError('--video: the bag has no true parameters: no simulator was recorded')
        reports.write_video(task, record, options.video)
    output.show(summary if options.json else explanations.readable(summary), options.json)
    output.warn(explanations.warnings(summary))
