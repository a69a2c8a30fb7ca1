"""`emppi demo`: run a task as a ROS 2 graph on this machine, and report the result."""

import argparse
from collections.abc import Callable
import itertools
from pathlib import Path
import sys
from typing import Any

from emppi_ros.belief import explanations
from emppi_ros.cli import extras, output, reports, run_table
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, EmppiError, prefix_errors
from emppi_ros.robots.robot import BACKENDS
from emppi_ros.sim.true_parameters import draw_truth, parse_truth
from emppi_ros.tasks import calibration_record
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.viz.report.recording import RunRecord

# deadlines; stops on an overloaded machine
_COLUMNS: run_table.Columns = {
    'missed %': lambda row: (
        f'{100.0 * row["deadline_misses"]:.1f}' if 'deadline_misses' in row else '-'
    ),
    'holds': lambda row: str(row.get('bridge_holds', '-')),
}


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    command = Subcommand(commands, 'demo', demo)
    add = command.option
    add('task', 'name of a task', str, 'TASK', 'panda_push', nargs='?')
    add('--duration', "time limit in seconds (the task's own)", output.duration, 'S')
    command.add_seeds(
        'one run after the other for each seed, such as 0-9; print a table of success, time, z of '
        'each parameter, missed deadlines, and how each run ended',
    )
    text = 'run each seed N times, and print that table: no two runs in real time are the same'
    add('--repeat', text, output.count, 'N')
    command.add_truth()
    command.add_prior()
    text = 'source of tracked poses: true poses with noise, or the node `tracker` on depth images'
    add('--tracking', text, choices=('truth', 'depth'), default='truth')
    text = (
        'infer joints while they move, and restart the belief from them; --out keeps their prior'
    )
    add('--articulation', text)
    text = 'write plots, video, bag and summary to this folder; of several runs bags and logs'
    add('--out', text, Path, 'DIR')
    simulated = [name for name, is_simulated in BACKENDS.items() if is_simulated]
    text = 'interface between bridge and simulator'
    add('--backend', text, choices=simulated, default='forward')
    add('--json', 'print one JSON object')


def demo(options: argparse.Namespace) -> None:
    """
    Run a task as a ROS 2 graph on this machine.

    Planner, belief, bridge and simulator run as nodes in their own processes, in real time, until
    the task succeeds or reaches its time limit.
    """
    output.check_path('--out', options.out)
    task = load_task(options.task).with_prior(options.prior)
    draw_truth(task, options.seed, parse_truth(options.truth, '--truth'))  # raises before any work
    if not task.file.real_time:
        raise ConfigError(
            f'{task.name} cannot be planned in real time on two cores (`real_time: false`): '
            f'`emppi run {options.task}` runs it in simulated time'
        )
    robot = paths.find_config(
        'robots', task.file.robot, paths.find_config('tasks', options.task).parent
    )
    prefix_errors(str(robot), task.robot.command_topic)
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
    summary['intervals'] = calibration_record.describe(task, options.task, options.prior)
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
    run_table.show(rows, {'task': task.name}, _COLUMNS, options.json)


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
    more = options.backend, options.prior, options.truth, options.tracking, options.articulation
    result: tuple[dict[str, Any], RunRecord] = graph.run_demo(
        options.task, options.duration, seed, folder, advance, *more
    )
    return result
