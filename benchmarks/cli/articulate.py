"""`emppi bench articulate`: how often inferred kinematic trees are right."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.articulation import results
from benchmarks.articulation.compute import SEEDS, ArticulationRow, compute, make_cells
from benchmarks.articulation.mechanisms import MECHANISMS
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import resumable
from emppi_ros.parallel import workers

DESCRIPTION = """
Infer kinematic trees from noisy tracks of simulated mechanisms, and from published tracks.

The recordings are not part of this package: --data is a folder that contains sturm_tracks. Each
finished run is stored as a row of DIR/rows.jsonl, and the same command with the same DIR resumes
an interrupted benchmark. After a change of the code, use another DIR.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'articulate',
        help='infer kinematic trees from noisy and from published tracks',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--data', metavar='FOLDER', type=Path, help='folder with sturm_tracks (simulated only)'
    )
    resumable.add_names(parser, '--mechanisms', f'mechanisms (all): {", ".join(MECHANISMS)}')
    resumable.add_seeds(parser, f'{SEEDS.start}-{SEEDS.stop - 1}')
    resumable.add_options(parser, 'out/articulate', 'one seed of each mechanism; no evidence')
    parser.set_defaults(execute=articulate)


def articulate(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    given = resumable.selected(options, 'mechanisms')
    workers.check(options.jobs, options.scheduler)
    seeds = SEEDS if options.seeds is None else options.seeds
    wanted = make_cells(
        given.get('mechanisms', tuple(MECHANISMS)),
        seeds[:1] if options.quick else seeds,
        options.data,
    )
    store = RowStore(options.out, ArticulationRow)
    compute_missing = resumable.spread(options, compute)
    counts, finished = resumable.finish(
        options, 'articulate', store, wanted, compute_missing, 'recordings'
    )
    for path in results.write(options.out, finished, resumable.provenance(options), len(wanted)):
        resumable.report(f'wrote {path}')
    found = map(dataclasses.asdict, finished)
    resumable.show(options, counts, found, results.lines(finished), 'rows')
