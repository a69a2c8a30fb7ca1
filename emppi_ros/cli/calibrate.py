"""`emppi calibrate`: whether the belief of a task is calibrated, and settings that make it so."""

import argparse
from pathlib import Path
import sys
from typing import Any

from emppi_ros.calibration import (
    hardware,
    recommendation,
    report,
    results,
    settings,
    truths,
    verdict,
)
from emppi_ros.calibration.belief_scores import SETTLING_S
from emppi_ros.calibration.recommendation import Recommendation
from emppi_ros.calibration.runs import CalibrationRun, RunResult, compute
from emppi_ros.calibration.settings import BeliefSetting
from emppi_ros.cli import output
from emppi_ros.core import paths, yaml_edit
from emppi_ros.core.errors import ConfigError
from emppi_ros.parallel import workers
from emppi_ros.tasks.task import Task, load_task

RUNS = 40
DESCRIPTION = """
Check by simulation whether the belief of a task is as certain as it is right.

The closed loop runs with true parameters from the prior and from beyond it. On the same
measurements, settings of the belief are compared: particles, likelihood and noise. The report
says how often intervals hold the truth, which parameters the measurements show at all, and which
setting to use; --write sets it in the task file, where comments stay.
"""


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'calibrate',
        help='check whether the belief of a task is calibrated, and recommend settings',
        description=DESCRIPTION.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('task', metavar='TASK', help='name of a task, or a YAML file')
    parser.add_argument(
        '--runs', metavar='N', type=output.count, default=RUNS, help=f'number of runs ({RUNS})'
    )
    parser.add_argument(
        '--duration',
        metavar='S',
        type=output.duration,
        help="simulated time of a run in seconds (the task's own)",
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='first random seed (0)')
    output.add_prior(parser)
    parser.add_argument(
        '--jobs',
        metavar='J',
        type=output.count,
        help='number of processes (one per core); several use one thread each',
    )
    parser.add_argument(
        '--out',
        metavar='DIR',
        type=Path,
        help='folder of the report and its plots (out/calibrate/TASK)',
    )
    parser.add_argument(
        '--write',
        action='store_true',
        help='set the recommended settings in the task file; of a task of this package, write a '
        'copy to the folder of the report',
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=calibrate)


def calibrate(options: argparse.Namespace) -> None:
    """Simulate, compare, report, and write the settings if asked to."""
    task = load_task(options.task).with_prior(options.prior)
    duration = options.duration or task.file.duration_s
    if duration < 2.0 * SETTLING_S:
        raise ConfigError(
            f'--duration: found {duration:g} s, expected {2.0 * SETTLING_S:g} s or more: '
            f'beliefs are scored from {SETTLING_S:g} s on'
        )
    if options.runs < recommendation.LEAST_RUNS:
        raise ConfigError(
            f'--runs: found {options.runs}, expected {recommendation.LEAST_RUNS} or more: '
            'settings are chosen on one half and checked on the other'
        )
    workers.check(options.jobs, None)
    compared = settings.alternatives(task.belief)
    if options.write:  # not only after minutes of computing
        for setting in compared:
            edit(options.task, setting)
    runs = [
        CalibrationRun(options.task, options.prior, options.seed + i, truth, duration, compared)
        for i, truth in enumerate(truths.draw(task, options.runs, options.seed))
    ]
    finished = _compute(runs, options.jobs)
    chosen = recommendation.recommend(finished, compared)
    folder = options.out or Path('out/calibrate') / task.name
    folder.mkdir(parents=True, exist_ok=True)
    for path in results.write(
        folder,
        task,
        finished,
        compared,
        chosen,
        report.provenance(options.words, hardware.describe()),
    ):
        print(f'wrote {path}', file=sys.stderr)
    written = write_settings(options.task, chosen.setting, folder) if options.write else None
    _show(task, finished, compared, chosen, written, options)


def _compute(runs: list[CalibrationRun], jobs: int | None) -> list[RunResult]:
    """Return the results of runs in their order, which does not depend on the processes."""
    finished: list[RunResult] = []
    with output.progress('calibrate', len(runs), 'runs') as advance:
        for one in workers.spread(compute, runs, jobs):
            finished.append(one)
            advance(len(finished))
    return sorted(finished, key=lambda one: one.seed)


def edit(name: str, setting: BeliefSetting) -> str:
    """Return the YAML of a task with the keys of a setting; ConfigError if it is not editable."""
    source = paths.find_config('tasks', name)
    text = source.read_text(encoding='utf-8')
    return yaml_edit.set_values(text, {'belief': dict(setting.changes)}, str(source))


def write_settings(name: str, setting: BeliefSetting, folder: Path) -> Path | None:
    """
    Set the keys of a setting in a task file; return its path, None if there is nothing to change.

    Comments stay. A task of this package is copied into the folder. ConfigError if the file
    cannot be edited or written; then it is left as it is.
    """
    source = paths.find_config('tasks', name)
    if not setting.changes:
        return None
    shipped = source.resolve().is_relative_to((paths.share() / 'config').resolve())
    target = folder / source.name if shipped else source
    paths.replace_text(target, edit(name, setting))
    return target


def _show(
    task: Task,
    finished: list[RunResult],
    compared: list[BeliefSetting],
    chosen: Recommendation,
    written: Path | None,
    options: argparse.Namespace,
) -> None:
    if options.json:
        numbers = results.as_json(finished, compared, chosen)
        place = None if written is None else str(written)
        print(output.to_json({'task': task.name, **numbers, 'written': place}), flush=True)
        return
    for line in verdict.sentences(finished, chosen):
        print(line)
    keys = settings.as_keys(chosen.setting)
    if written is not None:
        print(f'wrote {written}' + (f' (belief: {keys})' if keys else ''))
    elif options.write:
        print(f'{options.task}: nothing to write')
    elif keys:
        print('--write sets these keys in the task file')
