"""`emppi bench real`: identification from recordings of real mechanisms."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.real import cells, results
from benchmarks.real.compute import METHODS, OTHERS, compute
from benchmarks.real.datasets import DATASETS
from benchmarks.real.rows import RealRow
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import output, resumable
from emppi_ros.identify import methods
from emppi_ros.parallel import workers

DESCRIPTION = """
Identify real mechanisms from recordings that others published, and forecast what was held out.

The recordings are not part of this package: --data is a folder with a folder for each data set.
Each finished run is stored as a row of DIR/rows.jsonl, and the same command with the same DIR
resumes an interrupted benchmark. After a change of the code, use another DIR.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'real',
        help='identify real mechanisms from published recordings',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    folders = ', '.join(f'{one.folder} ({one.source})' for one in DATASETS.values())
    parser.add_argument(
        '--data', metavar='FOLDER', type=Path, required=True, help=f'folder with {folders}'
    )
    described = '; '.join(f'{name}: {one.description}' for name, one in DATASETS.items())
    resumable.add_names(parser, '--datasets', f'data sets (all): {described}')
    resumable.add_names(
        parser,
        '--methods',
        f'methods ({", ".join(METHODS)}), of {", ".join((*methods.METHODS, *OTHERS))}',
    )
    parser.add_argument(
        '--recordings',
        metavar='N',
        type=output.count,
        help='use the first N recordings of each data set (all)',
    )
    resumable.add_options(parser, 'out/real', 'one recording of each data set; no evidence')
    parser.set_defaults(execute=real)


def real(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    given = resumable.selected(options, 'datasets', 'methods')
    workers.check(options.jobs, options.scheduler)
    wanted, skipped = cells.make_cells(
        options.data,
        given.get('datasets', tuple(DATASETS)),
        given.get('methods', METHODS),
        1 if options.quick else options.recordings,
    )
    for line in skipped:
        resumable.report(f'skipped: {line}')
    store = RowStore(options.out, RealRow)
    compute_missing = resumable.spread(options, compute)
    counts, finished = resumable.finish(
        options, 'real', store, wanted, compute_missing, 'recordings or models'
    )
    provenance = resumable.provenance(options)
    for path in results.write(options.out, finished, provenance, len(wanted), skipped):
        resumable.report(f'wrote {path}')
    found = map(dataclasses.asdict, finished)
    resumable.show(options, counts, found, results.lines(finished), 'rows')
