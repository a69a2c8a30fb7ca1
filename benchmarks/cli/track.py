"""`emppi bench track`: poses in depth videos, beside iterative closest points."""

import argparse
import dataclasses
from typing import Any

from benchmarks.track import compute, results
from benchmarks.track.compute import SEEDS, TrackRow
from benchmarks.track.estimators import OWN, TRACKERS
from benchmarks.track.videos import IMAGES, VIDEOS
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import resumable

DESCRIPTION = """
Track moving parts in simulated depth videos, and compare with iterative closest points (ICP).

Open3D and small_gicp are references that are used if they are named and installed. Runs are
computed one after the other, since they are timed. Each finished run is stored as a row of
DIR/rows.jsonl, and the same command with the same DIR resumes an interrupted benchmark.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'track',
        help='poses of parts in depth videos, beside ICP',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    described = '; '.join(f'{name}: {one.description}' for name, one in VIDEOS.items())
    resumable.add_names(parser, '--videos', f'videos (all): {described}')
    resumable.add_names(
        parser, '--trackers', f'trackers ({", ".join(OWN)}), of {", ".join(TRACKERS)}'
    )
    resumable.add_seeds(parser, f'{SEEDS[0]}-{SEEDS[-1]}')
    quick = f'one seed, {compute.QUICK_IMAGES} images a video; no evidence'
    resumable.add_options(parser, 'out/track', quick, parallel=False)
    parser.set_defaults(execute=track)


def track(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    wanted = compute.make_cells(
        **resumable.selected(options, 'videos', 'trackers'),
        seeds=options.seeds or (SEEDS[:1] if options.quick else SEEDS),
        images=compute.QUICK_IMAGES if options.quick else IMAGES,
    )
    store = RowStore(options.out, TrackRow)
    compute_missing = resumable.spread(options, compute.compute)
    counts, finished = resumable.finish(
        options, 'track', store, wanted, compute_missing, 'code or scenes'
    )
    for path in results.write(options.out, finished, len(wanted), resumable.provenance(options)):
        resumable.report(f'wrote {path}')
    found = (dataclasses.asdict(row) for row in finished)
    resumable.show(options, counts, found, results.lines(finished))
