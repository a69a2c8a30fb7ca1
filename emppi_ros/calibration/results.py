"""The report `calibration.md` and the numbers of `emppi calibrate --json`."""

from collections.abc import Sequence
import functools
from pathlib import Path
from typing import Any

from emppi_ros.calibration import (
    plots,
    ranks,
    recommendation,
    report,
    scores,
    statistics,
    summary,
    truths,
    verdict,
)
from emppi_ros.calibration.recommendation import Recommendation
from emppi_ros.calibration.report import table
from emppi_ros.calibration.runs import RunResult
from emppi_ros.calibration.settings import OWN, BeliefSetting
from emppi_ros.calibration.summary import ParameterSummary, SettingSummary
from emppi_ros.calibration.verdict import percent
from emppi_ros.tasks.task import Task

NAME = 'calibration.md'
METHOD = (
    'Each run is a simulated closed loop, in which the planner uses the belief. All true values '
    f'are drawn from the prior; in every {truths.BEYOND_EVERY}th run, one lies beyond the central '
    f'{100 * truths.CENTRAL:.0f} % of its prior, on either side, up to the bound of the '
    'parameter. Runs last the whole time, also after success. All settings of the belief are '
    'compared on the same measurements and commands, which were recorded with the settings as '
    'they are. True values stay constant, so the runs say nothing about `changes`.\n\n'
    f'The setting is chosen on every other run with truths from the prior, and checked on the '
    'rest. It is the cheapest (fewest particles) whose 90 % intervals hold the truth '
    f'{100 * recommendation.LOW:.0f} to {100 * recommendation.HIGH:.0f} % of the time, as far as '
    f'the 95 % interval says, with an rms z of at most {recommendation.LARGEST_RMS_Z:g}. '
    'Calibrated settings are left for others as cheap only if these have a better log score '
    'beyond chance (sign test, corrected for the number of settings).\n\n'
    "The simulation has the task's sensors and none of the effects that your robot may have: a "
    'belief that is calibrated here may be too certain there.'
)
COLUMNS = (
    '- inside 50 %, inside 90 %: share of central intervals that hold the truth, over time from '
    f'{scores.SETTLING_S:g} s on and over parameters; 95 % Wilson interval, as if each run were a '
    'single observation, which is safe.\n'
    '- at the end: last 90 % intervals that hold the truth.\n'
    '- rms z: root mean square of (truth - mean) / sd.\n'
    '- log score: log density of the truth [nats] by a normal distribution with the mean and sd '
    'of the belief, in unbounded coordinates and standard deviations of the prior; median over '
    'runs. Higher is better.\n'
    '- ESS: mean effective sample size, of the particles.\n'
    '- reinjected, misfit: runs in which no particle explained some measurement, and with errors '
    'at the end that no parameter explains.\n'
    '- ms: processor time of an update.\n'
    '- ranks: probability of ranks of the truth this uneven if the belief is calibrated, and '
    f'counts of ranks among {ranks.DRAWS} draws (Talts et al. 2018).\n'
    '- contraction: 1 - variance / variance of the prior, median; a parameter shows if its '
    f'interval is above {summary.SHOWS:g}.\n'
    '- beyond: last 90 % intervals that hold a truth beyond the prior.'
)
_HEADER = (
    'setting', 'inside 50 %', 'inside 90 %', 'at the end', 'rms z', 'log score', 'ESS',
    'reinjected', 'misfit', 'ms',
)  # fmt: skip
_OF_PARAMETER = (
    'parameter', 'at the end', 'rms z', 'ranks', 'contraction', '', 'unidentifiable', 'beyond',
)  # fmt: skip


def summarize(
    results: Sequence[RunResult], compared: Sequence[BeliefSetting]
) -> dict[str, SettingSummary]:
    """Return the summary of each setting over all runs with truths from the prior."""
    of_prior = summary.from_prior(results)
    return {one.name: summary.summarize(of_prior, one.name) for one in compared}


def write(
    folder: Path,
    task: Task,
    results: Sequence[RunResult],
    compared: Sequence[BeliefSetting],
    chosen: Recommendation,
    provenance: report.Provenance,
) -> list[Path]:
    """Write plots and report into an existing folder, and return the paths."""
    summaries, name = summarize(results, compared), chosen.setting.name
    pictures = plots.write_all(task, results, summaries, name, folder)
    parts = [
        f'# Calibration of {task.name.replace("_", " ")}',
        report.bullets(verdict.sentences(results, chosen)),
        *report.origin(results, len(results), provenance),
        METHOD,
        COLUMNS,
        '## Settings',
        table(_HEADER, [_setting(key, one) for key, one in summaries.items()]),
    ]
    for shown in dict.fromkeys((OWN, name)):
        of = summary.parameters(results, shown).items()
        parts += [
            f'## Parameters, setting `{shown}`',
            table(_OF_PARAMETER, [_parameter(key, one) for key, one in of]),
        ]
    parts += [report.picture(one.path, one.caption) for one in pictures]
    return [*(one.path for one in pictures), report.write(folder / NAME, parts)]


def _setting(name: str, one: SettingSummary) -> list[object]:
    return [
        name,
        percent(one.inside_50),
        percent(one.inside_90),
        percent(one.inside_end),
        f'{one.rms_z:.2f}',
        one.log_score,
        f'{100 * one.ess:.0f} %',
        one.reinjected,
        one.misfit,
        f'{one.update_ms:.1f}',
    ]


def _parameter(name: str, one: ParameterSummary) -> list[object]:
    counts = ' '.join(map(str, one.ranks.counts))
    return [
        name,
        one.inside_end,
        f'{one.rms_z:.2f}',
        f'p = {one.ranks.probability:.2g}: {counts}',
        one.contraction,
        one.shows,
        one.unidentifiable,
        '-' if one.beyond is None else one.beyond,
    ]


def as_json(
    results: Sequence[RunResult], compared: Sequence[BeliefSetting], chosen: Recommendation
) -> dict[str, Any]:
    """Return all numbers as plain mappings, for JSON."""
    plain = functools.partial(statistics.plain, derived=())
    return {
        'runs': len(results),
        'settings': {name: plain(one) for name, one in summarize(results, compared).items()},
        'parameters': {
            name: plain(one) | {'shows': one.shows}
            for name, one in summary.parameters(results, OWN).items()
        },
        'recommended': {
            'setting': chosen.setting.name,
            'belief': dict(chosen.setting.changes),
            'calibrated': chosen.calibrated,
            'compatible': list(chosen.compatible),
            'holds': recommendation.is_calibrated(chosen.checked),
            'checked': plain(chosen.checked),
            'as_it_is': plain(chosen.own),
            'gain': plain(chosen.gain),
        },
        'verdict': verdict.sentences(results, chosen),
    }
