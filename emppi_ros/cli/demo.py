"""`emppi demo`: run a task as a ROS 2 graph on this machine, and report the result."""

import argparse
from pathlib import Path
import sys
from typing import Any

from emppi_ros.belief import explanations
from emppi_ros.cli import extras, output, reports
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.robots.robot import BACKENDS
from emppi_ros.sim.true_parameters import draw_truth, parse_truth
from emppi_ros.tasks.task import load_task


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'demo',
        help='run a task as a ROS 2 graph on this machine',
        description='Start planner, belief, bridge and simulator as ROS 2 nodes in their own '
        'processes, and run in real time until the task succeeds or reaches its time limit.',
    )
    parser.add_argument(
        'task', metavar='TASK', nargs='?', default='panda_push', help='name of a task (panda_push)'
    )
    parser.add_argument(
        '--duration',
        metavar='S',
        type=output.duration,
        help="time limit in seconds (the task's own)",
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    output.add_truth(parser)
    output.add_prior(parser)
    parser.add_argument(
        '--tracking',
        choices=('truth', 'depth'),
        default='truth',
        help='where tracked poses come from: the simulator, true poses with noise, or the node '
        '`tracker`, which finds them in images of the simulated depth camera (truth)',
    )
    parser.add_argument(
        '--articulation',
        action='store_true',
        help='infer the joints of the task while they move, and let the belief start again from '
        'them; with --out their prior is kept',
    )
    parser.add_argument(
        '--out',
        metavar='DIR',
        type=Path,
        help='write plots, a video, a bag and the summary to this folder',
    )
    parser.add_argument(
        '--backend',
        choices=[name for name, backend in BACKENDS.items() if backend.simulated],
        default='forward',
        help='interface between bridge and simulator (forward)',
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=demo)


def demo(options: argparse.Namespace) -> None:
    """Run the graph, print a summary and write the report."""
    if options.out is not None:
        paths.check_output('--out', options.out, folder=True)
    task = load_task(options.task).with_prior(options.prior)
    draw_truth(task, options.seed, parse_truth(options.truth, '--truth'))  # raises before any work
    if not task.file.real_time:
        raise ConfigError(
            f'{task.name} cannot be planned in real time on two cores (`real_time: false`): '
            f'`emppi run {options.task}` runs it in simulated time'
        )
    if options.articulation and options.prior:
        raise ConfigError('--prior and --articulation: expected one, since both give the prior')
    if options.articulation and not task.jointed:
        raise ConfigError(f'--articulation: {task.name} has no object with `motion: jointed`')
    graph = extras.load_node_module('tools.demo')
    limit = options.duration or task.file.duration_s
    with output.progress(task.name, limit, 's') as advance:
        summary, record = graph.run_demo(
            options.task,
            options.duration,
            options.seed,
            options.out,
            advance,
            options.backend,
            options.prior,
            options.truth,
            options.tracking,
            options.articulation,
        )
    if options.out is not None:
        reports.write_plots(task, record, summary, options.out)
        try:
            reports.write_video(task, record, options.out / 'motion.mp4')
        except EmppiError as error:  # the demo itself succeeded
            print(f'no video: {error}', file=sys.stderr)
    output.show(summary if options.json else explanations.readable(summary), options.json)
    output.warn(explanations.warnings(summary))
