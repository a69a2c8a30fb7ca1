"""`emppi bench identify --method prior`: what an identified prior is worth to EMPPI."""

import argparse
from collections.abc import Sequence
import sys
from typing import Any

import numpy as np

from emppi_ros.cli import output
from emppi_ros.identify import benefit
from emppi_ros.identify.benefit import Run


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this method knows."""
    group = parser.add_argument_group('prior')
    group.add_argument(
        '--tasks', nargs='+', default=list(benefit.TASKS), help='tasks (push, cart-pole, an arm)'
    )
    group.add_argument('--seeds', type=output.count, default=10, help='systems of each task (10)')
    group.add_argument(
        '--models',
        type=output.whole,
        nargs='+',
        default=[0, 1],
        help="models of the planner; 0: the task's own number (0 1)",
    )


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    found: list[Run] = []
    failed: list[str] = []
    for name in options.tasks:
        with output.progress(name, options.seeds, 'systems') as advance:
            for one in benefit.measure(name, range(options.seeds), options.models, advance):
                if isinstance(one, Run):
                    found.append(one)
                else:
                    failed.append(str(one))
    rows = summarize(found)
    if options.json:
        runs = [run._asdict() for run in found]
        print(output.to_json({'rows': rows, 'not_identified': failed, 'runs': runs}))
        return
    for words in failed:
        print(f'not identified: {words}', file=sys.stderr)
    print(f'{"task":18} {"models":>6} {"prior":>10} {"success":>8} {"median":>8} {"mean":>8}')
    for row in rows:
        print(
            f'{row["task"]:18} {row["models"]:6} {row["prior"]:>10} '
            f'{row["successes"]:>3} of {row["runs"]:<2} '
            f'{row["median_s"]:6.2f} s {row["mean_s"]:6.2f} s'
        )


def summarize(found: Sequence[Run]) -> list[dict[str, Any]]:
    """Return successes and times of each task, number of models, and prior."""
    rows = []
    for task, models, prior in dict.fromkeys((one.task, one.models, one.prior) for one in found):
        cell = [one for one in found if (one.task, one.models, one.prior) == (task, models, prior)]
        times = [one.time_s for one in cell]
        rows.append(
            {
                'task': task,
                'models': models,
                'prior': prior,
                'runs': len(cell),
                'successes': sum(one.success for one in cell),
                'median_s': float(np.median(times)),
                'mean_s': float(np.mean(times)),
            }
        )
    return rows
