"""`emppi bench watched`: what it costs the planner that somebody looks, or records."""

import argparse
from typing import Any

from emppi_ros.cli import output, ros, view
from emppi_ros.tasks.task import load_task


def add_command(kinds: Any) -> None:
    """Add the command to the parser of `emppi bench`."""
    parser = kinds.add_parser(
        'watched',
        help='what it costs the planner that somebody looks, or records',
        description='Run the graph on this machine, its arm at rest, and compare what plans take '
        'while nobody watches, while pictures are drawn for rviz, while `emppi record` writes a '
        'bag, and while a visitor without a screen takes the page of `emppi view --ros`; in '
        'turns.',
    )
    parser.add_argument('--task', default='panda_push', help='a task (panda_push)')
    parser.add_argument('--turns', type=output.count, default=6, help='of each kind (6)')
    parser.add_argument(
        '--seconds', metavar='S', type=output.duration, default=20.0, help='of a turn (20)'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='of all randomness (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    load_task(options.task)  # a wrong one is told here
    view.module('headless_client')  # what it needs, too
    watched = ros.module('tools.observer_benchmark')
    total = options.turns * len(watched.KINDS)
    with output.progress('watched', total, 'turns') as advance:
        found = watched.measure(
            options.task, options.turns, options.seconds, options.seed, advance
        )
    rows = watched.summarize(found)
    if options.json:
        print(output.to_json({'task': options.task, 'rows': rows, 'plan_ms': found}))
        return
    print(f'{"":10} {"plans":>6} {"p50":>10} {"p99":>10} {"p50":>16} {"p99":>16}')
    for kind, row in rows.items():
        print(
            f'{kind:10} {row["plans"]:6} {row["p50_ms"]:7.1f} ms {row["p99_ms"]:7.1f} ms '
            f'{row["p50_more_percent"]:+6.1f} +- {row["p50_more_error"]:3.1f} % '
            f'{row["p99_more_percent"]:+6.1f} +- {row["p99_more_error"]:3.1f} %'
        )
