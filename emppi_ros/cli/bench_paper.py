"""`emppi bench paper`: the paper's claims, held against runs of its tasks."""

import argparse
from collections.abc import Iterable, Sequence
import datetime
from pathlib import Path
import shlex
import sys
from typing import Any

from emppi_ros.bench import hardware
from emppi_ros.bench.paper import cells, claims, plots, results, scenes, store
from emppi_ros.bench.paper.cells import Cell, Request
from emppi_ros.bench.paper.compute import compute
from emppi_ros.bench.paper.numbers import as_json
from emppi_ros.bench.paper.results import Origin
from emppi_ros.bench.paper.rows import Row
from emppi_ros.bench.paper.store import Store
from emppi_ros.bench.paper.summary import Summary, summarize
from emppi_ros.cli import output
from emppi_ros.core.errors import BenchError, EmppiError
from emppi_ros.parallel import workers

DESCRIPTION = f"""
Run tasks under several controllers from many seeds, and report what the paper claims.

Each run is a row in DIR/rows.jsonl as soon as it is finished. The same command with the same
DIR goes on where it was stopped, and computes anew what another version of a task file made
(after a change of the code or of a scene, give another DIR). Then come tables (CSV), plots,
and DIR/results.md. With {cells.STUDIED} come an ablation over models and rollouts, and
the calibration of the filter; with {' and '.join(cells.LEARNING_S)}
longer runs of EMPPI, to see its estimates converge; with {' and '.join(cells.RISK_TASKS)},
measures of risk.
"""


def add_command(kinds: Any) -> None:
    """Add the command to the parser of `emppi bench`."""
    parser = kinds.add_parser(
        'paper',
        help="the paper's claims, held against runs of its tasks",
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = {'nargs': '+', 'action': 'extend', 'metavar': 'NAME'}
    parser.add_argument(
        '--tasks', **names, help=f'some tasks, or YAML files ({", ".join(cells.TASKS)})'
    )
    parser.add_argument(
        '--controllers', **names, help=f'some controllers ({", ".join(Request().controllers)})'
    )
    parser.add_argument(
        '--studies', **names, help=f'some parts of it ({", ".join(cells.STUDIES)})'
    )
    parser.add_argument(
        '--seeds',
        metavar='N',
        type=output.count,
        help=f'runs of each cell ({cells.SEEDS}, and {cells.PANDA_SEEDS} for the Panda)',
    )
    output.add_workers(parser)
    parser.add_argument(
        '--out', metavar='DIR', type=Path, default=Path('out/paper'), help='(out/paper)'
    )
    parser.add_argument(
        '--quick',
        action='store_true',
        help=f'see whether it works: one seed, {cells.QUICK_S} s a run; no evidence of anything',
    )
    parser.add_argument(
        '--so-far', action='store_true', help='compute nothing: report what is finished'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=paper)


def paper(options: argparse.Namespace) -> None:
    """Compute what is missing, write the report, print its numbers."""
    given = {name: _split(getattr(options, name)) for name in ('tasks', 'controllers', 'studies')}
    request = Request(
        **{name: names for name, names in given.items() if names},
        seeds=options.seeds,
        quick=options.quick,
    )
    workers.check(options.jobs, options.scheduler)
    wanted = cells.make_cells(request)
    kept = Store(options.out)
    finished, outdated = len(kept.finished(wanted)), kept.outdated(wanted)
    if finished:
        print(f'{finished} of {len(wanted)} runs are finished already', file=sys.stderr)
    if outdated:
        what = 'left out' if options.so_far else 'computed anew'
        print(f'{outdated} were made by other settings of a task: {what}', file=sys.stderr)
    if options.so_far and not finished:
        raise BenchError(f'--so-far: none of these runs is finished in {kept.path}')
    found = kept.finished(wanted) if options.so_far else _compute(options, kept, wanted)
    summary = summarize(found)
    origin = Origin(
        command=shlex.join(['emppi', *options.words]),
        date=datetime.datetime.now().astimezone().strftime('%Y-%m-%d %H:%M %Z'),
        machine=_machine(options),
        quick=options.quick,
    )
    for path in _write(options.out, wanted, found, summary, origin):
        print(f'wrote {path}', file=sys.stderr)
    _show(summary, {'runs': len(found), 'reused': finished, 'outdated': outdated}, options)


def _split(words: Sequence[str] | None) -> list[str]:
    """Return each name once, from words such as `a,b c`."""
    return list(dict.fromkeys(name for word in words or () for name in word.split(',') if name))


def _compute(options: argparse.Namespace, kept: Store, wanted: Sequence[Cell]) -> list[Row]:
    def compute_missing(missing: Sequence[Cell]) -> Iterable[Row]:
        return workers.spread(compute, missing, options.jobs, options.scheduler)

    try:
        with output.progress('paper', len(wanted), 'runs') as advance:
            return store.complete(kept, wanted, compute_missing, advance)
    except (KeyboardInterrupt, EmppiError):
        count = len(kept.finished(wanted))
        print(
            f'{count} of {len(wanted)} runs are kept in {kept.path}; the same command goes on '
            'from there',
            file=sys.stderr,
        )
        raise


def _machine(options: argparse.Namespace) -> dict[str, str]:
    described = dict(hardware.describe())
    if options.scheduler is not None:
        described['cluster'] = f'runs were computed on {options.scheduler}; this is its client'
    return described


def _write(
    folder: Path, wanted: Sequence[Cell], found: Sequence[Row], summary: Summary, origin: Origin
) -> list[Path]:
    tables = store.write_tables(folder, found)
    pictures = plots.write_all(found, summary, folder)
    pictures += scenes.write_all(wanted, folder, lambda words: print(words, file=sys.stderr))
    return [*tables, *pictures, results.write(folder, found, summary, origin, pictures, wanted)]


def _show(summary: Summary, counts: dict[str, int], options: argparse.Namespace) -> None:
    verdicts = [*claims.judge(summary), *claims.judge_calibration(summary)]
    if options.json:
        judged = [verdict._asdict() for verdict in verdicts]
        found = {**counts, 'out': str(options.out), **as_json(summary), 'claims': judged}
        print(output.to_json(found), flush=True)
        return
    output.show(counts, as_json=False)
    for task, shares in summary.success.items():
        print(f'\n{task}')
        output.show({name: str(share) for name, share in shares.items()}, as_json=False)
    print()
    for verdict in verdicts:
        print(f'{verdict.task}: {verdict.claim}: {verdict.words}: {verdict.numbers}')
