"""`emppi demo`: run a task as a ROS 2 graph on this machine, and report the result."""

import argparse
from collections.abc import Callable, Mapping
import itertools
from pathlib import Path
import sys
from typing import Any

from emppi_ros.belief import explanations
from emppi_ros.cli import extras, output, reports, run_table
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.robots.robot import BACKENDS
from emppi_ros.sim.true_parameters import draw_truth, parse_truth
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.viz.report.recording import RunRecord


def _missed(row: Mapping[str, Any]) -> str:
    return f'{100.0 * row["deadline_misses"]:.1f}' if 'deadline_misses' in row else '-'


def _holds(row: Mapping[str, Any]) -> str:
    return str(row.get('bridge_holds', '-'))


_COLUMNS = {'missed %': _missed, 'holds': _holds}  # deadlines; stops on an overloaded machine


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
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    seed.add_argument(
        '--seeds',
        metavar='A-B',
        type=output.seeds,
        help='one run after the other for each seed, such as 0-9; print a table of success, time, '
        'z of each parameter, missed deadlines, and how each run ended',
    )
    parser.add_argument(
        '--repeat',
        metavar='N',
        type=output.count,
        help='run each seed N times, and print that table: no two runs in real time are the same',
    )
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
        help='write plots, a video, a bag and the summary to this folder; of several runs the bag '
        'and the logs of each',
    )
    parser.add_argument(
        '--backend',
        choices=[name for name, simulated in BACKENDS.items() if simulated],
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
    if options.seeds is None and options.repeat is None:
        _run_one(options, task)
    else:
        _run_several(options, task)


def _run_one(options: argparse.Namespace, task: Task) -> None:
    limit = options.duration or task.file.duration_s
    with output.progress(task.name, limit, 's') as advance:
        summary, record = _run_graph(options, options.seed, options.out, advance)
    summary['ended'] = run_table.describe_end(summary)
    if options.out is not None:
        reports.write_plots(task, record, summary, options.out)
        try:
            reports.write_video(task, record, options.out / 'motion.mp4')
        except EmppiError as error:  # the demo itself succeeded
            print(f'no video: {error}', file=sys.stderr)
    output.show(summary if options.json else explanations.readable(summary), options.json)
    output.warn(explanations.warnings(summary))
    output.warn(run_table.warnings(summary))


def _run_several(options: argparse.Namespace, task: Task) -> None:
    seeds = [options.seed] if options.seeds is None else options.seeds
    rows: list[dict[str, Any]] = []
    with output.progress(task.name, len(seeds) * (options.repeat or 1), 'runs') as advance:
        for seed, k in itertools.product(seeds, range(options.repeat or 1)):
            folder = None if options.out is None else options.out / f'seed_{seed}_{k}'
            rows.append(_compute_row(options, seed, folder))
            advance(len(rows))
    totals = run_table.total(rows)
    if options.json:
        print(output.to_json({'task': task.name, **totals, 'runs': rows}), flush=True)
    else:
        print('\n'.join(run_table.table(rows, totals, _COLUMNS)), flush=True)


def _compute_row(options: argparse.Namespace, seed: int, folder: Path | None) -> dict[str, Any]:
    return run_table.compute_row(seed, lambda: _run_graph(options, seed, folder)[0])


def _run_graph(
    options: argparse.Namespace,
    seed: int,
    folder: Path | None,
    advance: Callable[[float], None] | None = None,
) -> tuple[dict[str, Any], RunRecord]:
    """Run the graph once; return its summary and record."""
    graph = extras.load_node_module('tools.demo')
    result: tuple[dict[str, Any], RunRecord] = graph.run_demo(
        options.task,
        options.duration,
        seed,
        folder,
        advance,
        options.backend,
        options.prior,
        options.truth,
        options.tracking,
        options.articulation,
    )
    return result
