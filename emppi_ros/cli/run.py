"""`emppi run`: run the closed loop in one process, without ROS."""

import argparse
from pathlib import Path
from typing import Any

from emppi_ros.app.closed_loop import CONTROLLERS, summarize
from emppi_ros.app.synthetic_recording import write_recording
from emppi_ros.belief import explanations
from emppi_ros.cli import output, reports, run_seeds, run_table
from emppi_ros.core import paths
from emppi_ros.priors import prior_file
from emppi_ros.recordings import tables
from emppi_ros.viz import synthetic_video
from emppi_ros.viz.report import recording


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'run',
        help='run a task in one process, without ROS',
        description='Run a task with a simulated robot, whose true parameters are hidden from the '
        'planner, in simulated time. Runs with the same seed are bit-identical.',
    )
    parser.add_argument('task', metavar='TASK', help='name of a task, or a YAML file')
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    seed.add_argument(
        '--seeds',
        metavar='A-B',
        type=output.seeds,
        help='one run for each seed, such as 0-9, on all cores; print a table of success, time, '
        'z of each parameter, and how each run ended',
    )
    parser.add_argument(
        '--jobs', metavar='J', type=output.count, help='with --seeds: processes (one per core)'
    )
    parser.add_argument(
        '--controller',
        choices=CONTROLLERS,
        default='emppi',
        help='emppi learns while it runs; no-update keeps the prior; the others plan with a '
        "single model: mppi-true has the true parameters, mppi-mean the prior's mean, "
        "mppi-wrong the task's wrong values, mppi-nominal the values of the scene (emppi)",
    )
    output.add_truth(parser)
    output.add_prior(parser)
    parser.add_argument(
        '--duration',
        metavar='S',
        type=output.duration,
        help="simulated time limit in seconds (the task's own)",
    )
    parser.add_argument(
        '--probe',
        metavar='S',
        type=output.duration,
        default=0.0,
        help='gather information for the first seconds, as `probe` of the task says, then do the '
        'task (0)',
    )
    parser.add_argument(
        '--tracking',
        choices=('truth', 'depth'),
        default='truth',
        help='where tracked poses come from: true poses with noise, or images of the simulated '
        'depth camera, at its rate (truth)',
    )
    parser.add_argument(
        '--no-stop', action='store_true', help='continue after success, until the time limit'
    )
    _add_outputs(parser)
    parser.set_defaults(execute=run)


def _add_outputs(parser: Any) -> None:
    """Add what a run writes and prints."""
    parser.add_argument(
        '--save',
        metavar='FILE.yaml',
        type=Path,
        help='write the final belief, for --prior of another run',
    )
    parser.add_argument('--video', metavar='F.mp4', type=Path, help='write a video (.mp4, .gif)')
    parser.add_argument(
        '--record',
        metavar='FILE',
        type=Path,
        help='write measurements and commands for `emppi identify` (.csv, .parquet), and the true '
        'parameters (.truth.json)',
    )
    parser.add_argument(
        '--depth',
        metavar='FILE.npz',
        type=Path,
        help='write what a depth camera sees, with noise, for `emppi track`, and the true poses '
        'of tracked objects (.truth.csv); `simulation: depth_camera` of the task has its settings',
    )
    parser.add_argument(
        '--out', metavar='DIR', type=Path, help='write plots and a summary to this folder'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def run(options: argparse.Namespace) -> None:
    """Run the loop, print a summary and write the requested files."""
    if options.seeds is not None:
        run_seeds.run(options)
        return
    if options.video is not None:
        reports.check_video(options.video)
    if options.save is not None:
        paths.check_output('--save', prior_file.check_path(options.save))
    if options.record is not None:
        tables.check_writable('--record', options.record)
    if options.depth is not None:
        synthetic_video.check_path('--depth', options.depth)
    if options.out is not None:
        paths.check_output('--out', options.out, folder=True)
    loop = run_seeds.prepare(options, options.seed)
    task = loop.task
    limit = options.duration or task.file.duration_s
    with output.progress(task.name, limit, 's') as advance:
        trace = loop.run(options.duration, not options.no_stop, advance)
    summary = summarize(loop, options.controller, options.seed)
    summary['ended'] = run_table.describe_end(summary)
    record = recording.of_trace(trace)
    if options.out is not None:
        reports.write_plots(task, record, summary, options.out)
    if options.video is not None:
        reports.write_video(task, record, options.video)
    if options.record is not None:
        summary['truth_in'] = str(write_recording(options.record, task, trace, options.seed))
        summary['recorded'] = str(options.record)
    if options.depth is not None:
        with output.progress('depth', synthetic_video.count(task, record), 'images') as advance:
            beside = synthetic_video.write(options.depth, task, record, options.seed, advance)
        summary['depth'] = str(options.depth)
        summary['true_poses'] = str(beside)
    if options.save is not None:
        prior = prior_file.from_belief(
            task.name, task.parameters, loop.filter.belief, {'seed': options.seed}
        )
        kept = prior_file.save(options.save, prior)
        summary['saved'] = str(options.save) + (f'; before: {kept.name}' if kept else '')
    output.show(summary if options.json else explanations.readable(summary), options.json)
    output.warn(explanations.warnings(summary))
