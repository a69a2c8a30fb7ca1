"""`emppi bench identify --method stein`: posteriors of known systems, by CSVGD and by others."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
import sys

from emppi_ros.bench.identify import csvgd_study, held_out
from emppi_ros.bench.identify.csvgd_experiments import Effort
from emppi_ros.bench.identify.sample_metrics import NEIGHBOURS
from emppi_ros.cli import output
from emppi_ros.core.errors import ConfigError

CASES = tuple(csvgd_study.ALL)  # the first is the usual one


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this method knows."""
    group = parser.add_argument_group('stein')
    group.add_argument('--particles', type=output.count, default=100, help='particles (100)')
    group.add_argument('--iterations', type=output.count, default=500, help='iterations (500)')
    group.add_argument('--threads', type=output.whole, default=1, help='0: every core (1)')
    group.add_argument(
        '--out',
        type=Path,
        default=Path('out/identify'),
        help='folder for pictures, and for what is done, which is not done again (out/identify)',
    )


def run(options: argparse.Namespace) -> None:
    """Measure, draw and print; ConfigError before any work if nothing could come of it."""
    if options.case == 'pendulum' and options.particles <= NEIGHBOURS:
        raise ConfigError(
            f'--particles: found {options.particles}, expected {NEIGHBOURS + 1} or more: the KL '
            f'divergence of fewer is not known'
        )
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f'--out: no folder can be made: {error}') from None
    effort = Effort(options.particles, options.iterations, options.seed, options.threads)

    def advance(name: str) -> Callable[[float], None]:
        def tell(done: float) -> None:
            if done % 25 == 0:
                print(f'{name}: {done:.0f} of {effort.iterations} iterations', file=sys.stderr)

        return tell

    found = csvgd_study.ALL[options.case](effort, options.out, advance)
    rate, ratio = found.pop('pace')
    whole = {
        'case': options.case,
        **found,
        'steps_per_cpu_s': rate,
        'ratio_to_bare_stepping': ratio,
    }
    if options.json:
        print(output.to_json(whole))
        return
    _table(found['methods'])
    if options.case == 'pendulum':
        print(
            f'predictions: mean and standard error of {held_out.DRAWS} draws of held-out motions'
        )
        print(f'\nmore than {csvgd_study.OURS}, draw by draw')
        _table(found['more'])
    print(
        f'{rate:.3g} physics steps per second of a core; '
        f'an iteration takes {ratio:.2f} of bare stepping'
    )


def _table(rows: Mapping[str, Mapping[str, float | Sequence[float]]]) -> None:
    names = list(next(iter(rows.values())))
    print(f'{"":18}', *(f'{name:>15}' for name in names))
    for method, row in rows.items():
        print(f'{method:18}', *(f'{_short(row[name]):>15}' for name in names))


def _short(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return ' '.join(f'{item:.3g}' for item in value)
    return f'{value:.4g}'
