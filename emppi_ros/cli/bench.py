"""`emppi bench`: benchmark studies, each in its own module with a function `add_command`."""

import importlib
from typing import Any

# a new study is one module of this folder and one line here
STUDIES = (
    'bench_planner',
    'bench_paper',
    'bench_belief',
    'bench_robustness',
    'bench_real',
    'bench_articulate',
    'bench_video',
    'bench_peers',
    'bench_track',
    'bench_identify',
    'bench_watched',
)


def add_commands(commands: Any) -> None:
    """Add the command and its studies to the parser."""
    parser = commands.add_parser(
        'bench',
        help='run a benchmark study',
        description='Measure the planner, reproduce the claims of the papers, or compare '
        'estimators of parameters or methods of identification.',
    )
    studies = parser.add_subparsers(title='studies', metavar='STUDY', required=True)
    for module in STUDIES:
        importlib.import_module(f'emppi_ros.cli.{module}').add_command(studies)
