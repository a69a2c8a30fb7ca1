"""`emppi bench identify`: methods of identification, held against the truth and one another."""

import argparse
from typing import Any

from emppi_ros.bench.identify import regression_study
from emppi_ros.cli import (
    bench_identify_prior,
    bench_identify_rigid_body,
    bench_identify_states,
    bench_identify_stein,
    output,
)
from emppi_ros.core.errors import ConfigError

_OTHERS = {
    'prior': bench_identify_prior,
    'rigid-body': bench_identify_rigid_body,
    'states': bench_identify_states,
    'stein': bench_identify_stein,
}
_CASES = {'rigid-body': bench_identify_rigid_body.CASES, 'stein': bench_identify_stein.CASES}
_TRIALS = 10


def add_command(kinds: Any) -> None:
    """Add the command to the parser of `emppi bench`."""
    parser = kinds.add_parser(
        'identify',
        help='methods of identification, on data whose truth is known',
        description='Regressions: learn ten coefficients from noisy inputs, of which ninety are '
        'redundant or irrelevant, and test on noiseless ones: error in variances of the output, '
        'the mean of all trials. Needs the extra `identify`.',
    )
    parser.add_argument(
        '--method',
        choices=('regression', *_OTHERS),
        default='regression',
        help='what to measure: regressions, bodies of an arm, states and parameters of pendulums, '
        'posteriors by Stein variational inference, or what an identified prior is worth '
        '(regression)',
    )
    parser.add_argument(
        '--case',
        choices=[case for cases in _CASES.values() for case in cases],
        help='of rigid-body: the bodies of a Panda, or the payload that an FR3 holds (panda); of '
        'stein: two link lengths, the eleven parameters of a pendulum, or two weights (lengths)',
    )
    parser.add_argument(
        '--trials', type=output.count, help='data sets each (10), or motions with a payload (2)'
    )
    parser.add_argument('--rows', type=output.count, default=1000, help='of training data (1000)')
    parser.add_argument(
        '--covariance',
        choices=('wishart', 'mild'),
        default='wishart',
        help="of the relevant inputs: A A', or with eigenvalues from 1 to 2 only (wishart)",
    )
    parser.add_argument(
        '--unlike',
        type=float,
        default=1.0,
        help="factor by which inputs' noise differs at most (1)",
    )
    parser.add_argument(
        '--scaled', action='store_true', help='give regressions inputs of variance 1 each'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='of all randomness (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    bench_identify_prior.add_options(parser)
    bench_identify_rigid_body.add_options(parser)
    bench_identify_stein.add_options(parser)
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print; ConfigError if the case is not one of the method's."""
    options.case = _case(options.method, options.case)
    options.trials = options.trials or bench_identify_rigid_body.TRIALS.get(options.case, _TRIALS)
    if options.method != 'regression':
        _OTHERS[options.method].run(options)
        return
    others = regression_study.baselines()
    methods = {**regression_study.ours(), **others}
    panels = list(
        regression_study.setups(options.rows, options.covariance, options.unlike, options.scaled)
    )
    found = []
    with output.progress('regressions', len(panels), 'panels') as advance:
        for i, setup in enumerate(panels):
            errors = regression_study.measure(setup, methods, options.trials, options.seed)
            found.append(regression_study.summarize(setup, errors, others))
            advance(i + 1)
    if options.json:
        print(output.to_json({'trials': options.trials, 'seed': options.seed, 'panels': found}))
        return
    print(f'{"SNR":>4} {"redundant":>9} {"irrelevant":>10}', *(f'{m:>9}' for m in methods))
    for panel in found:
        print(
            f'{panel["input_snr"]:4.0f} {panel["redundant"]:9} {panel["irrelevant"]:10}',
            *(f'{panel["errors"][m]:9.4f}' for m in methods),
            f' against {panel["best_baseline"]}:',
            *(f'{name} {-below:+.0f} %' for name, below in panel['below_best_percent'].items()),
        )


def _case(method: str, case: str | None) -> str:
    """Return a case of a method, the usual one if none is given."""
    cases = _CASES.get(method, ('',))
    if case is not None and case not in cases:
        expected = ' or '.join(cases) or 'none'
        raise ConfigError(f'--case: found {case}, expected {expected} for --method {method}')
    return case or cases[0]
