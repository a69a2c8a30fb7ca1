"""`emppi bench peers`: planners of other people against this one, on their tasks."""

import argparse
from typing import Any

from benchmarks.peers import cells, results, rows, summary
from benchmarks.peers.cells import PeersRequest
from benchmarks.peers.compute import compute
from benchmarks.peers.planners import PEERS
from benchmarks.peers.rows import PeerRow
from benchmarks.peers.tasks import PEER_TASKS, WORLDS
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.cli import output, resumable

DESCRIPTION = """
Compare planners of other people with this one: reward over time, success, and time of a plan, on
their tasks, with their models and rewards, in the same closed loop.

`make peers` installs them in an environment of its own, and runs this there. Each finished run is
stored as a row of DIR/rows.jsonl; the same command with the same DIR resumes. Runs are computed
one after the other, since their plans are timed. The report consists of a table (CSV), plots and
DIR/results.md.
"""


def add_command(studies: Any) -> None:
    """Add the study to the parser of `emppi bench`."""
    parser = studies.add_parser(
        'peers',
        help="other people's planners against this one, on their tasks",
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    resumable.add_names(parser, '--tasks', f'tasks ({", ".join(PEER_TASKS)})')
    described = '; '.join(f'{name}: {world.description}' for name, world in WORLDS.items())
    resumable.add_names(parser, '--worlds', f'worlds (all): {described}')
    resumable.add_names(parser, '--planners', f'planners ({", ".join(PEERS)})')
    seeds = cells.SEEDS
    resumable.add_seeds(parser, f'{seeds[0]}-{seeds[-1]}')
    for name, default in (('rollouts', cells.ROLLOUTS), ('threads', cells.THREADS)):
        parser.add_argument(
            f'--{name}',
            metavar='N',
            type=output.count,
            default=default,
            help=f'{name} of each planner ({default})',
        )
    quick = f'one seed, {cells.QUICK_S} s a run; no evidence'
    resumable.add_options(parser, 'out/peers', quick, parallel=False)
    parser.set_defaults(execute=peers)


def peers(options: argparse.Namespace) -> None:
    """Compute missing rows, write the report and print its numbers."""
    request = PeersRequest(
        **resumable.selected(options, 'tasks', 'worlds', 'planners'),
        seeds=options.seeds or (cells.QUICK_SEEDS if options.quick else cells.SEEDS),
        rollouts=options.rollouts,
        threads=options.threads,
        quick=options.quick,
    )
    wanted = cells.make_cells(request)
    store = RowStore(options.out, PeerRow)
    compute_missing = resumable.spread(options, compute)
    counts, finished = resumable.finish(
        options, 'peers', store, wanted, compute_missing, 'task settings or beliefs'
    )
    groups = summary.summarize(finished)
    written = rows.write_table(options.out, finished)
    provenance = resumable.provenance(options)
    written += results.write(options.out, finished, groups, len(wanted), provenance)
    for path in written:
        resumable.report(f'wrote {path}')
    resumable.show(options, counts, map(summary.as_json, groups), summary.lines(groups))
