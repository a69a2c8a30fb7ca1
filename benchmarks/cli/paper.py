"""`emppi bench paper`: check the paper's claims on its tasks."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper import cells, claims, joint_pictures, plots, results, rows
from benchmarks.paper.cells import Cell, Request
from benchmarks.paper.compute import compute
from benchmarks.paper.rows import Row
from benchmarks.paper.summary import Summary, as_json, summarize
from emppi_ros.calibration.report import Provenance
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import output, resumable
from emppi_ros.parallel import workers

DESCRIPTION = f"""
Run tasks with several controllers and many seeds, and check the paper's claims.

Each finished run is stored as a row of DIR/rows.jsonl. The same command with the same DIR resumes
an interrupted benchmark, and recomputes runs if a value in their task file has changed. After a
change of the code or of a scene, use another DIR. The report consists of tables (CSV), plots and
DIR/results.md. {cells.STUDIED} adds an ablation over models and rollouts and the
calibration of the filter; {' and '.join(cells.LEARNING_S)} add longer runs of EMPPI,
in which estimates converge; {' and '.join(cells.RISK_TASKS)} add risk measures;
{' and '.join(cells.BOUNDS_TASKS)} add the oracle over the bounds of the parameters.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'paper',
        help="check the paper's claims on its tasks",
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option, description in (
        ('--tasks', f'tasks, by name or YAML file ({", ".join(cells.TASKS)})'),
        ('--controllers', f'controllers ({", ".join(Request().controllers)})'),
        ('--studies', f'studies ({", ".join(cells.STUDIES)})'),
    ):
        resumable.add_names(parser, option, description)
    parser.add_argument(
        '--seeds',
        metavar='N',
        type=output.count,
        help=f'runs per task and controller ({cells.SEEDS}, {cells.PANDA_SEEDS} for the Panda)',
    )
    resumable.add_options(parser, 'out/paper', f'one seed, {cells.QUICK_S} s a run; no evidence')
    parser.set_defaults(execute=paper)


def paper(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    request = Request(
        **resumable.selected(options, 'tasks', 'controllers', 'studies'),
        seeds=options.seeds,
        quick=options.quick,
    )
    workers.check(options.jobs, options.scheduler)
    wanted = cells.make_cells(request)
    store = RowStore(options.out, Row)
    compute_missing = resumable.spread(options, compute)
    counts, finished_rows = resumable.finish(
        options, 'paper', store, wanted, compute_missing, 'task settings'
    )
    summary = summarize(finished_rows)
    provenance = resumable.provenance(options)
    for path in _write(options.out, wanted, finished_rows, summary, provenance):
        resumable.report(f'wrote {path}')
    _show(summary, counts, options)


def _write(
    folder: Path,
    wanted: Sequence[Cell],
    finished: Sequence[Row],
    summary: Summary,
    provenance: Provenance,
) -> list[Path]:
    tables = rows.write_tables(folder, finished)
    pictures = plots.write_all(finished, summary, folder)
    pictures += joint_pictures.write_all(wanted, folder, resumable.report)
    report = results.write(folder, finished, summary, provenance, pictures, wanted)
    return [*tables, *pictures, report]


def _show(summary: Summary, counts: dict[str, int], options: argparse.Namespace) -> None:
    verdicts = [
        *claims.judge(summary),
        *claims.judge_calibration(summary),
        *claims.judge_bounds(summary),
    ]
    if options.json:
        judged = [verdict._asdict() for verdict in verdicts]
        numbers = {**counts, 'out': str(options.out), **as_json(summary), 'claims': judged}
        print(output.to_json(numbers), flush=True)
        return
    output.show(counts, as_json=False)
    for task, shares in summary.success.items():
        print(f'\n{task}')
        output.show({name: str(share) for name, share in shares.items()}, as_json=False)
    print()
    for verdict in verdicts:
        print(f'{verdict.task}: {verdict.claim}: {verdict.words}: {verdict.numbers}')
