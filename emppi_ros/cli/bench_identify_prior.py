"""`emppi bench identify --method prior`: what an identified prior is worth to EMPPI."""

import argparse
from collections.abc import Sequence
import sys
from typing import Any

import numpy as np

from emppi_ros.bench.identify import prior_study
from emppi_ros.bench.identify.prior_study import WIDE, Knowledge, Run, System, Worth
from emppi_ros.cli import output
from emppi_ros.parallel import workers


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this method knows."""
    group = parser.add_argument_group('prior')
    group.add_argument(
        '--tasks',
        nargs='+',
        default=list(prior_study.TASKS),
        help='tasks (push, cart-pole, an arm)',
    )
    group.add_argument(
        '--seeds',
        metavar='N',
        type=output.seeds,
        default=range(10),
        help='systems of each task: how many, or which, such as 50-59 (10)',
    )
    group.add_argument(
        '--models',
        type=output.whole,
        nargs='+',
        default=[0, 1],
        help="models of the planner; 0: the task's own number (0 1)",
    )
    output.add_workers(group)


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    workers.check(options.jobs, options.scheduler)
    models = tuple(options.models)
    wanted = [System(task, seed, models) for task in options.tasks for seed in options.seeds]
    done: list[Worth] = []
    with output.progress('prior', len(wanted), 'systems') as advance:
        for one in workers.spread(prior_study.measure, wanted, options.jobs, options.scheduler):
            done.append(one)
            advance(len(done))
    done.sort(key=lambda one: wanted.index(one.system))
    found = [run for one in done for run in one.runs]
    known = [row for one in done for row in one.known]
    failed = [one.failed for one in done if one.failed]
    rows, learned = summarize(found), compare(known)
    if options.json:
        runs = [run._asdict() for run in found]
        priors = [one._asdict() for one in known]
        told = {'rows': rows, 'priors': learned, 'not_identified': failed}
        print(output.to_json({**told, 'runs': runs, 'known': priors}))
        return
    for words in failed:
        print(f'not identified: {words}', file=sys.stderr)
    print(
        f'{"task":18} {"models":>6} {"prior":>10} {"success":>8} {"median":>8} {"mean":>8}'
        '  less than wide, standard error; sooner'
    )
    for row in rows:
        print(
            f'{row["task"]:18} {row["models"]:6} {row["prior"]:>10} '
            f'{row["successes"]:>3} of {row["runs"]:<2} '
            f'{row["median_s"]:6.2f} s {row["mean_s"]:6.2f} s '
            f'{row["less_s"]:15.2f} s {row["less_sd_s"]:11.2f} s; {row["sooner"]:4}'
        )
    print(f'{"task":18} {"parameter":>16} {"prior":>10} {"error":>9} {"sd":>9}  within 90 %')
    for row in learned:
        print(
            f'{row["task"]:18} {row["parameter"]:>16} {row["prior"]:>10} {row["error"]:9.3g} '
            f'{row["sd"]:9.3g} {row["within"]:>3} of {row["systems"]}'
        )


def compare(known: Sequence[Knowledge]) -> list[dict[str, Any]]:
    """Return how far off each prior is (rms), how far it says it is, and how often it is right."""
    rows = []
    for task, name, prior in dict.fromkeys((k.task, k.parameter, k.prior) for k in known):
        cell = [k for k in known if (k.task, k.parameter, k.prior) == (task, name, prior)]
        rows.append(
            {
                'task': task,
                'parameter': name,
                'prior': prior,
                'systems': len(cell),
                'error': float(np.sqrt(np.mean([(k.mean - k.truth) ** 2 for k in cell]))),
                'sd': float(np.sqrt(np.mean([k.sd**2 for k in cell]))),
                'within': sum(k.within for k in cell),
            }
        )
    return rows


def summarize(found: Sequence[Run]) -> list[dict[str, Any]]:
    """
    Return successes and times of each task, number of models, and prior.

    `less_s` is how much sooner that is, on average, than the same systems are from the wide
    prior; `less_sd_s` its standard error, NaN of a single system.
    """
    rows = []
    wide = {(one.task, one.models, one.seed): one.time_s for one in found if one.prior == WIDE}
    for task, models, prior in dict.fromkeys((one.task, one.models, one.prior) for one in found):
        cell = [one for one in found if (one.task, one.models, one.prior) == (task, models, prior)]
        times = [one.time_s for one in cell]
        less = np.array([wide[task, models, one.seed] - one.time_s for one in cell])
        spread = np.std(less, ddof=1) if len(less) > 1 else np.nan
        rows.append(
            {
                'task': task,
                'models': models,
                'prior': prior,
                'runs': len(cell),
                'successes': sum(one.success for one in cell),
                'median_s': float(np.median(times)),
                'mean_s': float(np.mean(times)),
                'less_s': float(less.mean()),
                'less_sd_s': float(spread / np.sqrt(len(less))),
                'sooner': int((less > 0.0).sum()),
            }
        )
    return rows
