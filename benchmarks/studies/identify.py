"""`emppi bench identify`: compare identification methods with the truth and with one another."""

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.identify import study as studies
from benchmarks.identify.study import Study, StudySettings
from emppi_ros.cli import option_groups, output
from emppi_ros.core.errors import ConfigError
from emppi_ros.identify.methods import create_all


def add_command(kinds: Any) -> None:
    """Add the command to the parser of `emppi bench`."""
    parser = kinds.add_parser(
        'identify',
        help='compare methods of identification on data whose truth is known',
        description='Compare methods of identification on data whose truth is known. The default '
        'learns regressions from a hundred noisy inputs, of which ninety are redundant or '
        'irrelevant, and tests them on noiseless inputs: mean squared error over all trials, '
        'relative to the variance of the output. Needs the extra `identify`.',
    )
    offered = create_all(studies.STUDIES)
    option_groups.add_method(parser, offered, 'regression')
    cases = {name: [case for case in study.cases if case] for name, study in offered.items()}
    parser.add_argument(
        '--case',
        choices=dict.fromkeys(case for named in cases.values() for case in named),
        help='experiment of the study; '
        + '; '.join(f'{name}: {", ".join(c)} ({c[0]})' for name, c in cases.items() if c),
    )
    parser.add_argument(
        '--trials', type=output.count, help=f'trials per setting ({_default_trials(offered)})'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parallel = ', '.join(name for name, study in offered.items() if study.parallel)
    output.add_workers(parser.add_argument_group(f'parallel runs (--method {parallel})'))
    parser.set_defaults(execute=run)


def _default_trials(offered: Mapping[str, Study]) -> str:
    trials = {case: count for study in offered.values() for case, count in study.cases.items()}
    others = ''.join(f'; {case}: {n}' for case, n in trials.items() if n != trials[''])
    return f'{trials[""]}{others}'


def run(options: argparse.Namespace) -> None:
    """Run a study and print its results; ConfigError if the case belongs to another one."""
    offered = create_all(studies.STUDIES)
    study, own = offered[options.method], option_groups.read_options(offered, options)
    cases = tuple(study.cases)
    if options.case is not None and options.case not in cases:
        expected = ' or '.join(cases) or 'none'
        raise ConfigError(
            f'--case: found {options.case}, expected {expected} for --method {options.method}'
        )
    case = options.case or cases[0]
    trials = options.trials or study.cases[case]
    workers = (options.jobs, options.scheduler) if study.parallel else (None, None)
    settings = StudySettings(case, trials, options.seed, output.progress, *workers)
    results = study.run(own, settings)
    if options.json:
        print(output.to_json(results))
    else:
        study.show(results)
