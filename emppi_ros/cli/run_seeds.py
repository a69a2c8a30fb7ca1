"""`emppi run --seeds`: one run for each seed, on all cores, as a table."""

import argparse
from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.cli import output
from emppi_ros.core.errors import ConfigError
from emppi_ros.parallel import workers
from emppi_ros.session.closed_loop import ClosedLoop, summarize
from emppi_ros.sim.true_parameters import parse_truth
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.depth_camera import depth_camera

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
    totals = total(rows)
    if options.json:
        print(output.to_json({**totals, 'runs': rows}), flush=True)
    else:
        print('\n'.join(table(rows, totals)), flush=True)


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
    """Return the summary of one run, with z of each parameter."""
    loop = prepare(item.options, item.seed, item.threads)
    loop.run(item.options.duration, not item.options.no_stop)
    summary: dict[str, Any] = summarize(loop, item.options.controller, item.seed)
    for values in summary['parameters'].values():
        values['z'] = z_score(values)
    return summary


def z_score(values: Mapping[str, float]) -> float:
    """Return the error of the mean in standard deviations; NaN if both are 0."""
    error, sd = values['mean'] - values['true'], values['sd']
    return error / sd if sd > 0.0 else np.nan if error == 0.0 else np.copysign(np.inf, error)


def total(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the number of successes, the median time to success, and the rms of z."""
    times = [row['time_s'] for row in rows if row['success']]
    names = rows[0]['parameters']
    squares = {name: [row['parameters'][name]['z'] ** 2 for row in rows] for name in names}
    return {
        'task': rows[0]['task'],
        'controller': rows[0]['controller'],
        'successes': len(times),
        'of': len(rows),
        'median_time_s': float(np.median(times)) if times else None,
        'rms_z': {name: float(np.sqrt(np.mean(values))) for name, values in squares.items()},
    }


def table(rows: Sequence[Mapping[str, Any]], totals: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table: one for each seed, then the totals."""
    names = list(totals['rms_z'])
    lines = [['seed', 'success', 'time_s', *(f'z {name}' for name in names)]]
    for row in rows:
        found = (row['parameters'][name]['z'] for name in names)
        success = 'yes' if row['success'] else 'no'
        lines.append([
            str(row['seed']), success, f'{row["time_s"]:.2f}', *(f'{z:+.2f}' for z in found),
        ])  # fmt: skip
    median = totals['median_time_s']
    lines.append([
        'all', f'{totals["successes"]}/{totals["of"]}', '-' if median is None else f'{median:.2f}',
        *(f'{rms:.2f}' for rms in totals['rms_z'].values()),
    ])  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        '  '.join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    note = 'z: (mean - true) / sd at the end. all: successes, their median time, rms of z'
    return [*texts, note]
