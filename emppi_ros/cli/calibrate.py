"""`emppi calibrate`: whether the belief of a task is calibrated, and settings that make it so."""

import argparse
import dataclasses
from pathlib import Path
import sys
from typing import Any

from emppi_ros.calibration import recommendation, report, results, summary
from emppi_ros.calibration.belief_scores import SETTLING_S
from emppi_ros.calibration.recommendation import Recommendation
from emppi_ros.calibration.runs import (
    OWN,
    BeliefSetting,
    CalibrationRun,
    RunResult,
    alternatives,
    as_keys,
    compute,
    draw_truths,
)
from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths, yaml_edit
from emppi_ros.core.errors import ConfigError
from emppi_ros.parallel import workers
from emppi_ros.tasks import calibration_record
from emppi_ros.tasks.schema import CalibrationConfig
from emppi_ros.tasks.task import Task, load_task

_UNKNOWN = CalibrationConfig('', 1, (0.0, 0.0, 0.0), 0.0)  # to see whether a file is editable


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    command = Subcommand(commands, 'calibrate', calibrate)
    add = command.option
    add('task', 'name of a task, or a YAML file', str, 'TASK')
    add('--runs', 'number of runs', output.count, 'N', 40)
    add('--duration', "simulated time of a run in seconds (the task's own)", output.duration, 'S')
    add('--seed', 'first random seed', output.whole, default=0)
    command.add_prior()
    add('--as-it-is', "judge the task's own settings only, without others: several times faster")
    text = 'number of processes (one per core); several use one thread each'
    add('--jobs', text, output.count, 'J')
    add('--out', 'folder of the report and its plots (out/calibrate/TASK)', Path, 'DIR')
    text = (
        'set the recommended settings and the measured `calibration` in the task file (of a task '
        'of this package, in a copy)'
    )
    add('--write', text)
    add('--json', 'print one JSON object')


def calibrate(options: argparse.Namespace) -> None:
    """
    Check whether the belief of a task is calibrated, and recommend settings.

    The closed loop runs with true parameters from the prior and from beyond it. On the same
    measurements, settings of the belief are compared: particles, likelihood and noise. The report
    says how often intervals hold the truth, which parameters the measurements show at all, and
    which setting to use; --write sets it in the task file, where comments stay, and `emppi run`
    and `emppi demo` then say how often the intervals held the truth.
    """
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
    compared = alternatives(task.belief)[: 1 if options.as_it_is else None]
    if options.write:  # not only after minutes of computing
        for setting in compared:
            edit(options.task, setting, _UNKNOWN)
    runs = [
        CalibrationRun(options.task, options.prior, options.seed + i, truth, duration, compared)
        for i, truth in enumerate(draw_truths(task, options.runs, options.seed))
    ]
    finished = _compute(runs, options.jobs)
    chosen = recommendation.recommend(finished, compared)
    folder = options.out or Path('out/calibrate') / task.name
    folder.mkdir(parents=True, exist_ok=True)
    origin = report.provenance(options.words, report.describe_machine())
    for path in results.write(folder, task, finished, compared, chosen, origin):
        print(f'wrote {path}', file=sys.stderr)
    written = None
    if options.write:
        calibration = _calibration(task, options.prior, finished, chosen)
        written = write_settings(options.task, chosen.setting, calibration, folder)
    _show(task, finished, compared, chosen, written, options)


def _compute(runs: list[CalibrationRun], jobs: int | None) -> list[RunResult]:
    """Return the results of runs in their order, which does not depend on the processes."""
    finished: list[RunResult] = []
    with output.progress('calibrate', len(runs), 'runs') as advance:
        for result in workers.spread(compute, runs, jobs):
            finished.append(result)
            advance(len(finished))
    return sorted(finished, key=lambda result: result.seed)


def edit(name: str, setting: BeliefSetting, calibration: CalibrationConfig) -> str:
    """Return a task's YAML with a setting and its calibration; ConfigError if not editable."""
    source = paths.find_config('tasks', name)
    text = source.read_text(encoding='utf-8')
    changes = {'belief': dict(setting.changes)} if setting.changes else {}
    values = dataclasses.asdict(calibration)
    changes['calibration'] = {**values, 'inside_90': list(values['inside_90'])}
    return yaml_edit.set_values(text, changes, str(source))


def write_settings(
    name: str, setting: BeliefSetting, calibration: CalibrationConfig, folder: Path
) -> Path:
    """Set a task's keys, of a task of this package in a copy; return the path."""
    source = paths.find_config('tasks', name)
    shipped = source.resolve().is_relative_to((paths.share() / 'config').resolve())
    target = folder / source.name if shipped else source
    paths.replace_text(target, edit(name, setting, calibration))
    return target


def _calibration(
    task: Task, prior: str, finished: list[RunResult], chosen: Recommendation
) -> CalibrationConfig:
    """Return what the runs say of the recommended setting, by those that did not choose it."""
    measured = chosen.checked
    if not chosen.changes:
        measured = summary.summarize(summary.from_prior(finished), OWN)
    inside = measured.inside_90
    return CalibrationConfig(
        calibration_record.digest(
            task, yaml_edit.merged(task.data, {'belief': chosen.setting.changes}), prior
        ),
        measured.runs,
        tuple(round(share, 3) for share in (inside.mean, inside.low, inside.high)),
        round(measured.rms_z, 3),
    )


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
    for line in recommendation.sentences(finished, chosen):
        print(line)
    keys = as_keys(chosen.setting)
    if written is not None:
        print(f'wrote {written}' + (f' (belief: {keys})' if keys else ''))
    elif keys:
        print('--write sets these keys in the task file')
