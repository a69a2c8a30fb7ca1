"""Run a study: compute the rows that are missing, and write tables, figures and the page."""

import argparse
from collections.abc import Mapping, Sequence
import functools
from typing import Any

from benchmarks import pages
from benchmarks.study import Results, Study
from emppi_ros.calibration import report, row_store
from emppi_ros.calibration.report import Provenance
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import output, resumable
from emppi_ros.parallel import workers

PAGE = 'results.md'
RESUMES = """
Each finished run is stored as a row of DIR/rows.jsonl. The same command with the same DIR resumes
an interrupted benchmark, and computes runs again if their {outdated_by} have changed. After
another change of the code, use another DIR. The report is DIR/{page}.
"""


def add_command(study: Study[Any, Any], studies: Any) -> None:
    """Add a study to the parser of `emppi bench`."""
    resumes = RESUMES.format(outdated_by=study.outdated_by, page=PAGE)
    parser = studies.add_parser(
        study.name,
        help=study.help,
        description=f'{study.description.strip()}\n{resumes}'.rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, axis in study.axes.items():
        resumable.add_names(parser, f'--{name}', axis.describe())
    if study.seeds is not None:
        default = study.seeds_help or f'{study.seeds[0]}-{study.seeds[-1]}'
        resumable.add_seeds(parser, default)
    study.add_options(parser)
    resumable.add_options(
        parser, f'out/{study.name}', f'{study.quick}; no evidence', study.parallel
    )
    parser.set_defaults(execute=functools.partial(run, study))


def run(study: Study[Any, Any], options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    workers.check(options.jobs, options.scheduler)
    selection = study.select(
        getattr(options, 'seeds', None),
        options.quick,
        options,
        **resumable.selected(options, *study.axes),
    )
    wanted, skipped = study.cells(selection)
    for line in skipped:
        resumable.report(f'skipped: {line}')
    store: RowStore[Any] = RowStore(options.out, study.row)
    if getattr(options, 'fresh', False) and not options.so_far:
        store.forget(wanted)
    spread = functools.partial(workers.spread, jobs=options.jobs, scheduler=options.scheduler)
    counts, rows = resumable.finish(
        options,
        study.name,
        store,
        wanted,
        lambda missing: study.compute_all(missing, spread),
        study.outdated_by,
    )
    origin = resumable.provenance(options)
    results = Results(rows, options.out, selection, wanted)
    data, lines = write(study, results, origin, skipped)
    if options.json:
        print(output.to_json({**counts, 'out': str(options.out), **data}), flush=True)
        return
    output.show(counts, as_json=False)
    for line in lines:
        print(line)


def write(
    study: Study[Any, Any], results: Results, origin: Provenance, skipped: Sequence[str] = ()
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Write tables, figures and the page; return the numbers for JSON, and lines to print."""
    page = study.page(results)
    written = [*row_store.write_tables(results.folder, page.tables), *page.figures]
    parts = [
        pages.fill(page.template or study.name, page.values).rstrip(),
        pages.ORIGIN,
        *report.origin(results.rows, len(results.cells) or len(results.rows), origin),
        *report.makers(results.rows),
        *report.left_out(skipped),
    ]
    written.append(report.write(results.folder / PAGE, parts))
    for path in written:
        resumable.report(f'wrote {path}')
    return page.data, list(page.lines)
