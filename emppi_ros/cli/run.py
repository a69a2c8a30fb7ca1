"""`emppi run`: run the closed loop in one process, without ROS."""

import argparse
import dataclasses
import functools
from pathlib import Path
from typing import Any

from emppi_ros.app.closed_loop import CONTROLLERS, ClosedLoop, summarize
from emppi_ros.app.synthetic_recording import write_recording
from emppi_ros.belief import explanations
from emppi_ros.cli import output, reports, run_table
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.parallel import workers
from emppi_ros.priors import prior_file
from emppi_ros.recordings import tables
from emppi_ros.sim.true_parameters import parse_truth
from emppi_ros.tasks import calibration_record
from emppi_ros.tasks.task import load_task
from emppi_ros.viz import synthetic_video
from emppi_ros.viz.renderer import depth_camera
from emppi_ros.viz.report import recording

_SINGLE = ('video', 'record', 'save', 'out')  # options for files of a single run


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    command = Subcommand(commands, 'run', run)
    add = command.option
    add('task', 'name of a task, or a YAML file', str, 'TASK')
    command.add_seeds(
        'one run for each seed, such as 0-9, on all cores; print a table of success, time, z of '
        'each parameter, and how each run ended'
    )
    add('--jobs', 'with --seeds: processes (one per core)', output.count, 'J')
    text = (
        'emppi learns while it runs; no-update keeps the prior; the others plan with a single '
        "model: mppi-true has the true parameters, mppi-mean the prior's mean, mppi-wrong the "
        "task's wrong values, mppi-nominal the values of the scene"
    )
    add('--controller', text, choices=CONTROLLERS, default='emppi')
    command.add_truth()
    command.add_prior()
    add('--duration', "simulated time limit in seconds (the task's own)", output.duration, 'S')
    text = 'gather information for the first seconds, as `probe` of the task says'
    add('--probe', text, output.duration, 'S', 0.0)
    text = 'source of tracked poses: true poses with noise, or images of the depth camera'
    add('--tracking', text, choices=('truth', 'depth'), default='truth')
    add('--no-stop', 'continue after success, until the time limit')
    add('--save', 'write the final belief, for --prior of another run', Path, 'FILE.yaml')
    add('--video', 'write a video (.mp4, .gif)', Path, 'F.mp4')
    text = 'write a table for `emppi identify` (.csv, .parquet) and true parameters (.truth.json)'
    add('--record', text, Path, 'FILE')
    text = 'write a depth video for `emppi track`, and true poses of tracked objects (.truth.csv)'
    add('--depth', text, Path, 'FILE.npz')
    add('--out', 'write plots and a summary to this folder', Path, 'DIR')
    add('--json', 'print one JSON object')


def run(options: argparse.Namespace) -> None:
    """
    Run a task in one process, without ROS.

    Robot and time are simulated; true parameters are hidden from the planner. Runs with the same
    seed are bit-identical.
    """
    if options.seeds is not None:
        _run_seeds(options)
        return
    options.video = reports.check_video(options.video)
    output.check_path('--depth', options.depth, '.npz')
    output.check_path('--out', options.out)
    if options.save is not None:
        paths.check_output('--save', prior_file.check_path(options.save))
    if options.record is not None:
        tables.check_writable('--record', options.record)
    loop = _prepare(options, options.seed)
    task = loop.task
    limit = options.duration or task.file.duration_s
    with output.progress(task.name, limit, 's') as advance:
        trace = loop.run(options.duration, not options.no_stop, advance)
    summary = summarize(loop, options.controller, options.seed)
    summary['ended'] = run_table.describe_end(summary)
    summary['intervals'] = calibration_record.describe(task, options.task, options.prior)
    record = recording.of_trace(trace)
    if options.out is not None:
        reports.write_plots(task, record, summary, options.out)
    if options.video is not None:
        reports.write_video(task, record, options.video)
    if options.record is not None:
        summary['truth_in'] = str(write_recording(options.record, task, trace, options.seed))
        summary['recorded'] = str(options.record)
    if options.depth is not None:
        count = len(synthetic_video.image_rows(task, record))
        with output.progress('depth', count, 'images') as advance:
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


def _run_seeds(options: argparse.Namespace) -> None:
    """Run all seeds, and print a table or one JSON object."""
    for name in _SINGLE:
        if getattr(options, name) is not None:
            raise ConfigError(f'--{name}: is for a single run: give --seed instead of --seeds')
    workers.check(options.jobs, None)
    _prepare(options, options.seeds[0])  # errors come before any work
    jobs = 1 if len(options.seeds) == 1 else options.jobs
    compute = functools.partial(_compute_row, options)
    rows: list[dict[str, Any]] = []
    with output.progress(f'{options.task}', len(options.seeds), 'runs') as advance:
        for row in workers.spread(compute, options.seeds, jobs):
            rows.append(row)
            advance(len(rows))
    rows.sort(key=lambda row: row['seed'])
    labels = {'task': load_task(options.task).name, 'controller': options.controller}
    run_table.show(rows, labels, {}, options.json)


def _compute_row(options: argparse.Namespace, seed: int, threads: int = 0) -> dict[str, Any]:
    """Compute the row of one seed; without `threads` the planner has those of its task."""

    def run_loop() -> dict[str, Any]:
        loop = _prepare(options, seed, threads)
        loop.run(options.duration, not options.no_stop)
        return summarize(loop, options.controller, seed)

    return run_table.compute_row(seed, run_loop)


def _prepare(options: argparse.Namespace, seed: int, threads: int = 0) -> ClosedLoop:
    """Return the loop of one seed."""
    task = load_task(options.task).with_prior(options.prior)
    task.planner = dataclasses.replace(task.planner, threads=threads or task.planner.threads)
    view = depth_camera(task, task.visual_model()) if options.tracking == 'depth' else None
    truth = parse_truth(options.truth, '--truth')
    return ClosedLoop(task, seed, options.controller, truth, options.probe, view)
