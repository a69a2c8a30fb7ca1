"""`emppi bench belief`: estimators of parameters against one another, in worlds that change."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchmarks.belief import cells, results, rows, summary, worlds
from benchmarks.belief.cells import BeliefCell, BeliefRequest
from benchmarks.belief.compute import compute
from benchmarks.belief.estimators import ESTIMATORS
from benchmarks.belief.rows import BeliefRow
from emppi_ros.calibration import statistics
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import resumable
from emppi_ros.parallel import workers

DESCRIPTION = """
Compare estimators of a task's parameters in worlds that the task does not describe.

Each finished run is stored as a row of DIR/rows.jsonl. The same command with the same DIR resumes
an interrupted benchmark, and recomputes runs if a value in their task file, or the code of their
estimator, has changed. After another change of the code or of a scene, use --fresh. The report
consists of tables (CSV), plots and DIR/results.md.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'belief',
        help='compare estimators of parameters in worlds that change',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    resumable.add_names(
        parser, '--tasks', f'tasks, by name or YAML file ({", ".join(cells.TASKS)})'
    )
    described = '; '.join(f'{name}: {text}' for name, text in worlds.DESCRIPTIONS.items())
    resumable.add_names(parser, '--worlds', f'worlds (all): {described}')
    offered = '; '.join(f'{name}: {kind.description}' for name, kind in ESTIMATORS.items())
    default = ', '.join(BeliefRequest().estimators)
    resumable.add_names(parser, '--estimators', f'estimators ({default}): {offered}')
    resumable.add_seeds(parser, str(cells.SEEDS))
    parser.add_argument(
        '--fresh', action='store_true', help='compute all runs again, also finished ones'
    )
    resumable.add_options(parser, 'out/belief', f'one seed, {cells.QUICK_S} s a run; no evidence')
    parser.set_defaults(execute=belief)


def belief(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    seeds = options.seeds or range(cells.QUICK_SEEDS if options.quick else cells.SEEDS)
    request = BeliefRequest(
        **resumable.selected(options, 'tasks', 'worlds', 'estimators'),
        seeds=seeds,
        quick=options.quick,
    )
    workers.check(options.jobs, options.scheduler)
    wanted, skipped = cells.make_cells(request), cells.skipped(request)
    for line in skipped:
        resumable.report(f'skipped: {line}')
    store = RowStore(options.out, BeliefRow)
    if options.fresh and not options.so_far:
        store.forget(wanted)

    def compute_missing(missing: Sequence[BeliefCell]) -> Iterable[BeliefRow]:
        return _flat(workers.spread(compute, by_run(missing), options.jobs, options.scheduler))

    counts, finished = resumable.finish(
        options, 'belief', store, wanted, compute_missing, 'task settings or estimators'
    )
    groups = summary.summarize(finished)
    provenance = resumable.provenance(options)
    written = rows.write_tables(options.out, finished)
    written += results.write(options.out, finished, groups, provenance, len(wanted), skipped)
    for path in written:
        resumable.report(f'wrote {path}')
    resumable.show(options, counts, map(statistics.plain, groups), summary.lines(groups))


def by_run(missing: Sequence[BeliefCell]) -> list[tuple[BeliefCell, ...]]:
    """Return cells in groups that share a run."""
    groups: dict[tuple[str, ...], list[BeliefCell]] = {}
    for cell in missing:
        groups.setdefault(cell.run, []).append(cell)
    return [tuple(group) for group in groups.values()]


def _flat(groups: Iterable[list[BeliefRow]]) -> Iterator[BeliefRow]:
    for group in groups:
        yield from group
