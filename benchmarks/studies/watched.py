"""`emppi bench watched`: the cost of visualization and recording for the planner."""

import argparse
import importlib
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.tasks.task import load_task


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'watched',
        help='cost of visualization and recording for the planner',
        description='Run the graph on this machine with the arm at rest, and compare planning '
        'times without observers, with markers for rviz, with `emppi record`, and with a '
        'headless client of `emppi view --ros`, in turns.',
    )
    parser.add_argument('--task', default='panda_push', help='name of a task (panda_push)')
    parser.add_argument('--turns', type=output.count, default=6, help='turns of each kind (6)')
    parser.add_argument(
        '--seconds',
        metavar='S',
        type=output.duration,
        default=20.0,
        help='duration of a turn (20)',
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    load_task(options.task)  # report an invalid task before anything starts
    extras.load_web_module('server')  # likewise missing packages
    extras.load_node_module('common.process')  # likewise ROS 2
    observers = importlib.import_module('benchmarks.observers')
    total = options.turns * len(observers.KINDS)
    with output.progress('watched', total, 'turns') as advance:
        times = observers.measure(
            options.task, options.turns, options.seconds, options.seed, advance
        )
    rows = observers.summarize(times)
    if options.json:
        print(output.to_json({'task': options.task, 'rows': rows, 'plan_ms': times}))
        return
    print(f'{"":10} {"plans":>6} {"p50":>10} {"p99":>10} {"p50":>16} {"p99":>16}')
    for kind, row in rows.items():
        print(
            f'{kind:10} {row["plans"]:6} {row["p50_ms"]:7.1f} ms {row["p99_ms"]:7.1f} ms '
            f'{row["p50_more_percent"]:+6.1f} +- {row["p50_more_error"]:3.1f} % '
            f'{row["p99_more_percent"]:+6.1f} +- {row["p99_more_error"]:3.1f} %'
        )
