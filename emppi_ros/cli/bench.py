"""`emppi bench`: the planner's overhead, and the studies of a checkout (`benchmarks/studies`)."""

import argparse
import importlib
from pathlib import Path
import sys
from typing import Any

from emppi_ros.calibration import planner_overhead
from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.tasks.task import load_task

CHECKOUT = paths.PACKAGE.parent
STUDIES = tuple(
    sorted(path.stem for path in (CHECKOUT / 'benchmarks' / 'studies').glob('[a-z]*.py'))
)
_ELSEWHERE = (
    'Studies, such as paper and belief, are not installed: run them in a checkout of the '
    'repository, with `pip install -e .` there.'
)


def add_commands(commands: Any) -> None:
    """Add the command and its studies to the parser."""
    here = (CHECKOUT / 'benchmarks').is_dir()
    parser = commands.add_parser(
        'bench',
        help='run a benchmark study',
        description='Measure the planner, reproduce the claims of the papers, or compare '
        'estimators of parameters or methods of identification.',
        epilog=None if here else _ELSEWHERE,
    )
    studies = parser.add_subparsers(title='studies', metavar='STUDY', required=True)
    add = Subcommand(studies, 'planner', bench_planner).option
    add('--task', 'name of a task', str, default='panda_push')
    add('--pairs', 'number of cycles to time', output.whole, default=150)
    add('--seed', 'random seed', output.whole, default=0)
    text = 'measure how times grow with models, rollouts and horizon, and plot them here'
    add('--growth', text, Path, 'FILE.png')
    add('--json', 'print one JSON object')
    if here:
        if str(CHECKOUT) not in sys.path:
            sys.path.append(str(CHECKOUT))
        importlib.import_module('benchmarks.runner').add_commands(STUDIES, studies)


def bench_planner(options: argparse.Namespace) -> None:
    """
    Overhead of a planning cycle over bare physics.

    Time cycles along a closed-loop run, each as a whole, and compare them with their floor:
    stepping the same rollouts (same simulations, states, controls, physics steps and threads)
    without recording. The prediction to the start of the plan counts as overhead.
    """
    task = load_task(options.task)
    pairs = max(options.pairs, 2)
    if options.growth is not None:
        paths.check_output('--growth', options.growth)
        with output.progress('planners of several sizes', pairs, 'cycles') as advance:
            lines = planner_overhead.measure_growth(task, pairs, options.seed, advance)
        planner_overhead.write_growth(task, lines, options.growth)
        output.show(planner_overhead.summarize_growth(lines), options.json)
        return
    with output.progress('planner against floor', pairs, 'pairs') as advance:
        summary = planner_overhead.measure(task, pairs, options.seed, advance)
    output.show(summary, options.json)
