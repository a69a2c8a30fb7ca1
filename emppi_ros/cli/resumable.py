"""Parts of the benchmarks whose finished runs are stored: options, progress, and origin."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
import sys
from typing import Any

from emppi_ros.calibration import hardware, row_store
from emppi_ros.calibration import report as bench_report
from emppi_ros.calibration.report import Provenance
from emppi_ros.calibration.row_store import C, R, RowStore
from emppi_ros.cli import output
from emppi_ros.core.errors import BenchError, EmppiError
from emppi_ros.parallel import workers


def add_options(parser: Any, folder: str, quick: str, parallel: bool = True) -> None:
    """
    Add the options for workers, folder and output; `quick` says what a quick run is.

    Unless `parallel`, all runs are computed here, one after the other.
    """
    if parallel:
        output.add_workers(parser)
    else:
        parser.set_defaults(jobs=1, scheduler=None)
    parser.add_argument(
        '--out',
        metavar='DIR',
        type=Path,
        default=Path(folder),
        help=f'folder of the rows and the report ({folder})',
    )
    parser.add_argument(
        '--quick', action='store_true', help=f'check that everything works: {quick}'
    )
    parser.add_argument(
        '--so-far', action='store_true', help='report the finished runs, compute nothing'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def add_names(parser: Any, option: str, description: str) -> None:
    """Add an option for several names, which `selected` returns."""
    parser.add_argument(option, nargs='+', action='extend', metavar='NAME', help=description)


def add_seeds(parser: Any, default: str) -> None:
    """Add the option for the seeds of the runs."""
    parser.add_argument(
        '--seeds',
        metavar='N',
        type=output.seeds,
        help=f'seeds: their number, or a range such as 50-59 ({default})',
    )


def selected(options: argparse.Namespace, *names: str) -> dict[str, list[str]]:
    """Return the unique names that were given, by option; without options that were not."""
    given = {name: split(getattr(options, name)) for name in names}
    return {name: words for name, words in given.items() if words}


def split(words: Sequence[str] | None) -> list[str]:
    """Return the unique names in arguments such as `a,b c`."""
    return list(dict.fromkeys(name for word in words or () for name in word.split(',') if name))


def finish(
    options: argparse.Namespace,
    what: str,
    store: RowStore[R],
    wanted: Sequence[C],
    compute: Callable[[Sequence[C]], Iterable[R]],
    outdated_by: str,
) -> tuple[dict[str, int], list[R]]:
    """
    Return counts of runs, and the rows of the wanted cells; compute those that are missing.

    With `--so-far` only finished rows are returned; BenchError if there are none. `outdated_by`
    names what a stored row may have been computed with that has changed since.
    """
    finished, outdated = len(store.finished(wanted)), store.outdated(wanted)
    if finished:
        report(f'{finished} of {len(wanted)} runs are already finished')
    if outdated:
        action = 'left out' if options.so_far else 'recomputed'
        report(f'{outdated} have outdated {outdated_by}: {action}')
    if options.so_far and not finished:
        raise BenchError(f'--so-far: none of these runs is finished in {store.path}')
    rows = store.finished(wanted)
    if not options.so_far:
        rows = _complete(what, store, wanted, compute)
    return {'runs': len(rows), 'reused': finished, 'outdated': outdated}, rows


def spread(
    options: argparse.Namespace, compute: Callable[..., R]
) -> Callable[[Sequence[C]], Iterable[R]]:
    """Return a function for `finish` that computes cells on the workers that were chosen."""
    return lambda cells: workers.spread(compute, cells, options.jobs, options.scheduler)


def _complete(
    what: str,
    store: RowStore[R],
    wanted: Sequence[C],
    compute: Callable[[Sequence[C]], Iterable[R]],
) -> list[R]:
    try:
        with output.progress(what, len(wanted), 'runs') as advance:
            return row_store.complete(store, wanted, compute, advance)
    except (KeyboardInterrupt, EmppiError):
        count = len(store.finished(wanted))
        report(
            f'{count} of {len(wanted)} runs are stored in {store.path}; the same command resumes'
        )
        raise


def provenance(options: argparse.Namespace) -> Provenance:
    """Return command, date and machine of this run."""
    machine = dict(hardware.describe())
    if options.scheduler is not None:
        at = options.scheduler
        machine['cluster'] = f'runs were computed on {at}; the machine is its client'
    return bench_report.provenance(options.words, machine, options.quick)


def show(
    options: argparse.Namespace,
    counts: dict[str, int],
    found: Iterable[dict[str, Any]],
    lines: Iterable[str],
    key: str = 'groups',
) -> None:
    """Print counts and what was found: as one JSON object, there as `key`, or as lines."""
    if options.json:
        whole = {**counts, 'out': str(options.out), key: list(found)}
        print(output.to_json(whole), flush=True)
        return
    output.show(counts, as_json=False)
    for line in lines:
        print(line)


def report(text: str) -> None:
    """Print a line for the operator."""
    print(text, file=sys.stderr)
