"""`emppi bench planner`: the overhead of a planning cycle over the physics that it needs."""

import argparse
from pathlib import Path
from typing import Any

from emppi_ros.calibration import planner_overhead as planner
from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.tasks.task import load_task


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'planner',
        help='overhead of a planning cycle over bare physics',
        description=planner.__doc__.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--task', default='panda_push', help='name of a task (panda_push)')
    parser.add_argument(
        '--pairs', type=output.whole, default=150, help='number of cycles to time (150)'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument(
        '--growth',
        type=Path,
        metavar='FILE.png',
        help='measure how times grow with models, rollouts and horizon, and plot them here',
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    task = load_task(options.task)
    pairs = max(options.pairs, 2)
    if options.growth is not None:
        paths.check_output('--growth', options.growth)
        with output.progress('planners of several sizes', pairs, 'cycles') as advance:
            lines = planner.measure_growth(task, pairs, options.seed, advance)
        planner.write_growth(task, lines, options.growth)
        output.show(planner.summarize_growth(lines), options.json)
        return
    with output.progress('planner against floor', pairs, 'pairs') as advance:
        summary = planner.measure(task, pairs, options.seed, advance)
    output.show(summary, options.json)
