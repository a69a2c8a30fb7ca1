"""`emppi replay` and `emppi report`: rerun the computations of a bag, and plot it."""

import argparse
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.belief import explanations
from emppi_ros.cli import output, reports
from emppi_ros.core.errors import ConfigError
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.replay import bag_report, what_if
from emppi_ros.replay import replay as replaying
from emppi_ros.tasks.task import load_task

DIFFERENT = 1  # exit status


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        'replay',
        help='rerun belief and planner on a bag, and compare bit by bit',
        description='Rerun belief and planner on their recorded inputs. Exit status 0 if all '
        'beliefs and plans are bit-identical, 1 if not; the output names the first difference.',
    )
    _add_bag(parser)
    parser.add_argument(
        '--what-if', metavar='TASK', help='rerun the belief with the settings of another task'
    )
    parser.add_argument('--prior', metavar='FILE', help='with --what-if: start from this prior')
    parser.add_argument(
        '--seed',
        type=output.whole,
        help='with --what-if: random seed of the belief (the recorded one)',
    )
    parser.add_argument(
        '--out', metavar='DIR', type=Path, help='with --what-if: write plots to this folder'
    )
    parser.set_defaults(execute=replay)
    parser = commands.add_parser(
        'report', help='plot a bag', description='Write the plots of a bag.'
    )
    _add_bag(parser)
    parser.add_argument(
        '--out', metavar='DIR', type=Path, help='folder for the plots (BAG_report, beside the bag)'
    )
    parser.add_argument('--video', metavar='FILE', type=Path, help='write a video, .mp4 or .gif')
    parser.set_defaults(execute=report)


def _add_bag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('bag', metavar='BAG', type=Path, help='folder of a bag, or an .mcap file')
    parser.add_argument(
        '--namespace', metavar='NS', help='namespace of the nodes, if the bag has several robots'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def replay(options: argparse.Namespace) -> int:
    """Replay and print the comparison; return the exit status."""
    bag = Bag(options.bag, options.namespace)
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
    """Write the plots of a bag and print a summary."""
    if options.video is not None:
        reports.check_video(options.video)
    bag = Bag(options.bag, options.namespace)
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
