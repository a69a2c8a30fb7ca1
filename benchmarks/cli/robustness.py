"""`emppi bench robustness`: when a task works, and when it does not."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.robustness import cells, load, results, rows, summary
from benchmarks.robustness.cells import RobustnessCell, RobustnessRequest
from benchmarks.robustness.compute import compute
from benchmarks.robustness.rows import RobustnessRow
from benchmarks.robustness.sweeps import SWEEPS
from emppi_ros.app.closed_loop import CONTROLLERS
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import extras, resumable
from emppi_ros.core.errors import ConfigError
from emppi_ros.parallel import workers
from emppi_ros.tasks.task import load_task

DESCRIPTION = """
Vary what a task does not describe, and show how often it succeeds and how honest its belief is.

Each finished run is stored as a row of DIR/rows.jsonl. The same command with the same DIR resumes
an interrupted benchmark, and recomputes runs if a value in their task file, or the code of the
belief, has changed. After another change of the code or of a scene, use another DIR. The report
consists of a table (CSV), plots and DIR/results.md.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'robustness',
        help='success and honesty in worlds that are harder than the task describes',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    resumable.add_names(
        parser, '--tasks', f'tasks, by name or YAML file ({", ".join(cells.TASKS)})'
    )
    described = '; '.join(f'{name}: {sweep.description}' for name, sweep in SWEEPS.items())
    resumable.add_names(parser, '--sweeps', f'what to vary (all): {described}')
    default = ', '.join(RobustnessRequest().controllers)
    resumable.add_names(
        parser, '--controllers', f'controllers ({default}), of {", ".join(CONTROLLERS)}'
    )
    resumable.add_seeds(parser, str(cells.SEEDS))
    resumable.add_options(
        parser, 'out/robustness', f'one seed, {cells.QUICK_S} s a run, the first load; no evidence'
    )
    parser.set_defaults(execute=robustness)


def is_real_time(cell: RobustnessCell) -> bool:
    """Whether a run is one of the ROS 2 graph in real time."""
    return SWEEPS[cell.sweep].real_time


def robustness(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    request = RobustnessRequest(
        **resumable.selected(options, 'tasks', 'sweeps', 'controllers'),
        seeds=options.seeds or range(cells.QUICK_SEEDS if options.quick else cells.SEEDS),
        quick=options.quick,
    )
    workers.check(options.jobs, options.scheduler)
    wanted, skipped = cells.make_cells(request)
    if any(is_real_time(cell) for cell in wanted):
        try:
            graph = extras.load_node_module('tools.demo')
        except ConfigError as error:
            skipped.append(f'sweeps in real time: {error}')
            wanted = [cell for cell in wanted if not is_real_time(cell)]
    for line in skipped:
        resumable.report(f'skipped: {line}')
    store = RowStore(options.out, RobustnessRow)

    def compute_missing(missing: Sequence[RobustnessCell]) -> Iterable[RobustnessRow]:
        simulated = [cell for cell in missing if not is_real_time(cell)]
        yield from workers.spread(compute, simulated, options.jobs, options.scheduler)
        for cell in filter(is_real_time, missing):
            yield load.compute(cell, graph.run_demo)

    counts, finished = resumable.finish(
        options, 'robustness', store, wanted, compute_missing, 'task settings or beliefs'
    )
    groups = summary.summarize(finished)
    tasks = {task.name: task for task in map(load_task, request.tasks)}
    provenance = resumable.provenance(options)
    written = rows.write_table(options.out, finished)
    written += results.write(
        options.out, finished, groups, tasks, provenance, len(wanted), skipped
    )
    for path in written:
        resumable.report(f'wrote {path}')
    resumable.show(options, counts, map(summary.as_json, groups), summary.lines(groups))
