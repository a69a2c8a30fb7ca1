"""`emppi bench identify`: compare identification methods with the truth and with one another."""

import argparse
from collections.abc import Mapping
import dataclasses
from pathlib import Path
from typing import Any

from emppi_ros.bench.identify import study as studies
from emppi_ros.bench.identify.study import Study, StudySettings
from emppi_ros.cli import output
from emppi_ros.core.errors import ConfigError

_PARSERS = {
    'text': str,
    'count': output.count,
    'integer': output.whole,
    'number': float,
    'seeds': output.seeds,
    'path': Path,
}


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
    offered = {name: studies.load(name) for name in studies.STUDIES}
    output.add_method(parser, offered, 'regression')
    cases = {name: [case for case in study.cases if case] for name, study in offered.items()}
    parser.add_argument(
        '--case',
        choices=[case for named in cases.values() for case in named],
        help='experiment of the study; '
        + '; '.join(f'{name}: {", ".join(c)} ({c[0]})' for name, c in cases.items() if c),
    )
    parser.add_argument(
        '--trials', type=output.count, help=f'trials per setting ({_default_trials(offered)})'
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    for name, study in offered.items():
        group = parser.add_argument_group(name)
        for field in dataclasses.fields(study.options):
            _add_option(group, study.options, field)
        if study.parallel:
            output.add_workers(group)
    parser.set_defaults(execute=run)


def _default_trials(offered: Mapping[str, Study]) -> str:
    trials = {case: count for study in offered.values() for case, count in study.cases.items()}
    others = ''.join(f'; {case}: {n}' for case, n in trials.items() if n != trials[''])
    return f'{trials[""]}{others}'


def _add_option(group: Any, options: type, field: Any) -> None:
    """Add a field of a study's options as a flag."""
    flag, doc = output.flag(field.name), field.metadata['doc']
    if field.metadata['kind'] == 'flag':
        group.add_argument(flag, action='store_true', help=doc)
        return
    group.add_argument(
        flag,
        type=_PARSERS[field.metadata['kind']],
        default=getattr(options(), field.name),
        help=doc,
        **field.metadata['keywords'],
    )


def run(options: argparse.Namespace) -> None:
    """Run a study and print its results; ConfigError if the case belongs to another one."""
    study = studies.load(options.method)
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
    names = [field.name for field in dataclasses.fields(study.options)]
    own = study.options(**{name: getattr(options, name) for name in names})
    results = study.run(own, settings)
    if options.json:
        print(output.to_json(results))
    else:
        study.show(results)
