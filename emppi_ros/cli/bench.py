"""`emppi bench`: the planner's overhead, and the studies of a checkout (`benchmarks/studies`)."""

import importlib
import sys
from typing import Any

from emppi_ros.cli import bench_planner
from emppi_ros.core import paths

CHECKOUT = paths.PACKAGE.parent
# a new study is one module of benchmarks/studies and one name here
STUDIES = (
    'paper',
    'belief',
    'robustness',
    'real',
    'articulate',
    'video',
    'peers',
    'track',
    'watched',
)
_ELSEWHERE = (
    f'The studies {", ".join(STUDIES)} are not installed: run them in a checkout of the '
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
    bench_planner.add_command(studies)
    if here:
        if str(CHECKOUT) not in sys.path:
            sys.path.append(str(CHECKOUT))
        importlib.import_module('benchmarks.runner').add_commands(STUDIES, studies)
