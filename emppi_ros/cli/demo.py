"""`emppi demo`: the ROS 2 graph of a task on this machine, and a report of what it did."""

import argparse
from pathlib import Path
import sys
from typing import Any

from emppi_ros.cli import output, report_files, ros
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.tasks.task import load_task


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'demo',
        help='run a task as a ROS 2 graph on this machine',
        description='Start planner, belief, bridge and simulator as ROS 2 nodes in processes of '
        'their own, in real time, until the task is done or its time is over.',
    )
    parser.add_argument(
        'task', metavar='TASK', nargs='?', default='panda_push', help='a task (panda_push)'
    )
    parser.add_argument(
        '--duration', metavar='S', type=output.duration, help="seconds (the task's own)"
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='of all randomness (0)')
    parser.add_argument(
        '--out', metavar='DIR', type=Path, help='write plots, a video and the summary here'
    )
    parser.add_argument(
        '--backend',
        choices=['forward', 'trajectory'],
        default='forward',
        help='how the bridge talks to the simulator (forward)',
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=demo)


def demo(options: argparse.Namespace) -> None:
    """Run the graph, print its summary, write the report."""
    task = load_task(options.task)
    if not task.file.real_time:
        raise ConfigError(
            f'{task.name} cannot be planned in real time on two cores (`real_time: false`): '
            f'`emppi run {options.task}` runs it in simulated time'
        )
    graph = ros.module('tools.demo')
    limit = options.duration or task.file.duration_s
    with output.progress(task.name, limit, 's') as advance:
        summary, record = graph.run_demo(
            options.task, options.duration, options.seed, options.out, advance, options.backend
        )
    if options.out is not None:
        report_files.write_plots(task, record, summary, options.out)
        try:
            report_files.write_video(task, record, options.out / 'motion.mp4')
        except EmppiError as error:  # the demo itself went well
            print(f'no video: {error}', file=sys.stderr)
    output.show(summary, options.json)
