"""Run a study: compute the rows that are missing, and write tables, figures and the page."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
import functools
import importlib
from pathlib import Path
import sys
from typing import Any

from benchmarks import pages, row_store
from benchmarks.row_store import RowStore
from benchmarks.study import Results, Study
from emppi_ros.calibration import report
from emppi_ros.calibration.report import Provenance
from emppi_ros.cli import output
from emppi_ros.core.errors import BenchError, EmppiError
from emppi_ros.parallel import workers

PAGE = 'results.md'
RESUMES = """
Each finished run is stored as a row of DIR/rows.jsonl. The same command with the same DIR resumes
an interrupted benchmark, and computes runs again if their {outdated_by} have changed. After
another change of the code, use another DIR. The report is DIR/{page}.
"""


def add_commands(names: Iterable[str], studies: Any) -> None:
    """Add the studies of modules of `benchmarks.studies` to the parser of `emppi bench`."""
    for name in names:
        module = importlib.import_module(f'benchmarks.studies.{name}')
        if hasattr(module, 'STUDY'):
            add_command(module.STUDY, studies)
        else:
            module.add_command(studies)


def add_command(study: Study, studies: Any) -> None:
    """Add a study to the parser of `emppi bench`."""
    resumes = RESUMES.format(outdated_by=study.outdated_by, page=PAGE)
    parser = studies.add_parser(
        study.name,
        help=study.help,
        description=f'{study.description.strip()}\n{resumes}'.rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, axis in study.axes.items():
        parser.add_argument(
            f'--{name}', nargs='+', action='extend', metavar='NAME', help=axis.describe()
        )
    if study.seeds is not None:
        default = study.seeds_help or f'{study.seeds[0]}-{study.seeds[-1]}'
        parser.add_argument(
            '--seeds',
            metavar='N',
            type=output.seeds,
            help=f'seeds: their number, or a range such as 50-59 ({default})',
        )
    study.add_options(parser)
    if study.parallel:
        parser.add_argument(
            '--jobs',
            metavar='J',
            type=output.count,
            help='number of processes here (one per core); several use one thread each',
        )
        output.add_scheduler(parser)
    else:
        parser.set_defaults(jobs=1, scheduler=None)
    folder = Path('out') / study.name
    parser.add_argument(
        '--out',
        metavar='DIR',
        type=Path,
        default=folder,
        help=f'folder of the rows and the report ({folder})',
    )
    parser.add_argument(
        '--quick',
        action='store_true',
        help=f'check that everything works: {study.quick}; no evidence',
    )
    parser.add_argument(
        '--so-far', action='store_true', help='report the finished runs, compute nothing'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=functools.partial(run, study))


def run(study: Study, options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    workers.check(options.jobs, options.scheduler)
    names = {name: _split(words) for name in study.axes if (words := getattr(options, name))}
    selection = study.select(getattr(options, 'seeds', None), options.quick, options, **names)
    wanted, skipped = study.cells(selection)
    for line in skipped:
        say(f'skipped: {line}')
    store = RowStore(options.out, study.row)
    if getattr(options, 'fresh', False) and not options.so_far:
        store.forget(wanted)
    rows, outdated = store.finished(wanted), store.outdated(wanted)
    counts = {'runs': len(wanted), 'reused': len(rows), 'outdated': outdated}
    if rows:
        say(f'{len(rows)} of {len(wanted)} runs are already finished')
    if outdated:
        action = 'left out' if options.so_far else 'recomputed'
        say(f'{outdated} have outdated {study.outdated_by}: {action}')
    if not options.so_far:
        rows = _complete(study, options, store, wanted)
    elif rows:
        counts['runs'] = len(rows)
    else:
        raise BenchError(f'--so-far: none of these runs is finished in {store.path}')
    results = Results(rows, options.out, wanted)
    data, lines = write(study, results, _provenance(options), skipped)
    if options.json:
        print(output.to_json({**counts, 'out': str(options.out), **data}), flush=True)
        return
    output.show(counts, as_json=False)
    for line in lines:
        print(line)


def _split(words: Sequence[str]) -> list[str]:
    """Return the unique names in arguments such as `a,b c`."""
    return list(dict.fromkeys(name for word in words for name in word.split(',') if name))


def _complete(
    study: Study, options: argparse.Namespace, store: RowStore, wanted: Sequence[Any]
) -> list[Any]:
    """Return the rows of the wanted cells; compute those that are missing."""
    spread = functools.partial(workers.spread, jobs=options.jobs, scheduler=options.scheduler)
    try:
        with output.progress(study.name, len(wanted), 'runs') as advance:
            return row_store.complete(
                store, wanted, lambda cells: study.compute_all(cells, spread), advance
            )
    except (KeyboardInterrupt, EmppiError):
        count = len(store.finished(wanted))
        say(f'{count} of {len(wanted)} runs are stored in {store.path}; the same command resumes')
        raise


def _provenance(options: argparse.Namespace) -> Provenance:
    """Return command, date and machine of this run."""
    machine = dict(report.describe_machine())
    if options.scheduler is not None:
        at = options.scheduler
        machine['cluster'] = f'runs were computed on {at}; the machine is its client'
    return report.provenance(options.words, machine, options.quick)


def write(
    study: Study, results: Results, origin: Provenance, skipped: Sequence[str] = ()
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Write tables, figures and the page; return the numbers for JSON, and lines to print."""
    page = study.page(results)
    written = [*row_store.write_tables(results.folder, page.tables), *page.figures]
    parts = [
        pages.fill(page.template or study.name, page.values).rstrip(),
        pages.ORIGIN,
        *pages.origin(results.rows, len(results.cells), origin, skipped),
    ]
    written.append(report.write(results.folder / PAGE, parts))
    for path in written:
        say(f'wrote {path}')
    return page.data, list(page.lines)


def say(text: str) -> None:
    """Print a line for the operator."""
    print(text, file=sys.stderr)
