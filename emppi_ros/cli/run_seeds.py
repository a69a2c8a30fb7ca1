"""`emppi run --seeds`: one run for each seed, on all cores, as a table."""

import argparse
import dataclasses
from typing import Any, NamedTuple

from emppi_ros.app.closed_loop import ClosedLoop, summarize
from emppi_ros.cli import output, run_table
from emppi_ros.core.errors import ConfigError
from emppi_ros.parallel import workers
from emppi_ros.sim.true_parameters import parse_truth
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.simulated_camera import depth_camera

_SINGLE = ('video', 'record', 'save', 'out')  # options for files of a single run


class SeededRun(NamedTuple):
    """A run to compute in a process of its own."""

    options: argparse.Namespace
    seed: int
    threads: int  # of the planner; 0: all cores


def run(options: argparse.Namespace) -> None:
    """Run all seeds, and print a table or one JSON object."""
    for name in _SINGLE:
        if getattr(options, name) is not None:
            raise ConfigError(f'--{name}: is for a single run: give --seed instead of --seeds')
    workers.check(options.jobs, None)
    prepare(options, options.seeds[0])  # errors come before any work
    threads = 0 if options.jobs == 1 or len(options.seeds) == 1 else 1
    items = [SeededRun(options, seed, threads) for seed in options.seeds]
    jobs = 1 if len(items) == 1 else options.jobs
    rows: list[dict[str, Any]] = []
    with output.progress(f'{options.task}', len(items), 'runs') as advance:
        for row in workers.spread(compute, items, jobs):
            rows.append(row)
            advance(len(rows))
    rows.sort(key=lambda row: row['seed'])
    totals = run_table.total(rows)
    if options.json:
        labels = {'task': load_task(options.task).name, 'controller': options.controller}
        print(output.to_json({**labels, **totals, 'runs': rows}), flush=True)
    else:
        print('\n'.join(run_table.table(rows, totals, {})), flush=True)


def prepare(options: argparse.Namespace, seed: int, threads: int = 0) -> ClosedLoop:
    """Return the loop of one seed."""
    task = load_task(options.task).with_prior(options.prior)
    task.planner = dataclasses.replace(task.planner, threads=threads or task.planner.threads)
    view = None
    if options.tracking == 'depth':
        view = depth_camera(task, task.visual_model())
    truth = parse_truth(options.truth, '--truth')
    return ClosedLoop(task, seed, options.controller, truth, options.probe, view)


def compute(item: SeededRun, _threads: int = 0) -> dict[str, Any]:
    """Return the row of one run."""
    return run_table.compute_row(item.seed, lambda: _summarize(item))


def _summarize(item: SeededRun) -> dict[str, Any]:
    loop = prepare(item.options, item.seed, item.threads)
    loop.run(item.options.duration, not item.options.no_stop)
    return summarize(loop, item.options.controller, item.seed)
