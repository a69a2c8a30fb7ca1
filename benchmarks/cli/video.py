"""`emppi bench video`: from depth videos of mechanisms to joints, masses and dampings."""

import argparse
import dataclasses
from typing import Any

from benchmarks.video import results
from benchmarks.video.compute import METHODS, SEEDS, WHOLE, VideoRow, compute, make_cells
from benchmarks.video.mechanisms import MECHANISMS
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import resumable
from emppi_ros.parallel import workers

DESCRIPTION = """
Film simulated mechanisms with a depth camera, track their parts, infer their joints, and estimate
masses and dampings by several methods of identification. Then forecast the images of another film
with what was found, and swing up and balance the cart-pole. It needs the extra `identify`.

Each finished run is stored as a row of DIR/rows.jsonl, and the same command with the same DIR
resumes an interrupted benchmark. After a change of the code, use another DIR.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'video',
        help='from a depth video to the parameters of a mechanism',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    resumable.add_names(parser, '--mechanisms', f'mechanisms (all): {", ".join(MECHANISMS)}')
    resumable.add_names(parser, '--methods', f'methods (all): {", ".join(METHODS)}')
    resumable.add_seeds(
        parser, f'{SEEDS[0]}-{SEEDS[-1]}; samplers and Adam: {WHOLE[0]}-{WHOLE[-1]}'
    )
    resumable.add_options(parser, 'out/video', 'one film of each, few iterations; no evidence')
    parser.set_defaults(execute=video)


def video(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    given = resumable.selected(options, 'mechanisms', 'methods')
    workers.check(options.jobs, options.scheduler)
    wanted = make_cells(
        given.get('mechanisms', tuple(MECHANISMS)),
        given.get('methods', tuple(METHODS)),
        options.seeds,
        options.quick,
    )
    store = RowStore(options.out, VideoRow)
    compute_missing = resumable.spread(options, compute)
    counts, finished = resumable.finish(
        options, 'video', store, wanted, compute_missing, 'scenes or settings'
    )
    for path in results.write(options.out, finished, resumable.provenance(options), len(wanted)):
        resumable.report(f'wrote {path}')
    found = map(dataclasses.asdict, finished)
    resumable.show(options, counts, found, results.lines(finished), 'rows')
