"""The report `calibration.md` and the numbers of `emppi calibrate --json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emppi_ros.calibration import plots, recommendation, report, runs, statistics, summary
from emppi_ros.calibration.belief_scores import DRAWS, SETTLING_S
from emppi_ros.calibration.recommendation import Recommendation
from emppi_ros.calibration.runs import OWN, BeliefSetting, RunResult
from emppi_ros.calibration.summary import ParameterSummary, SettingSummary
from emppi_ros.tasks.task import Task

NAME = 'calibration.md'
METHOD = (
    'Each run is a simulated closed loop with true values from the prior, also after success; in '
    f'every {runs.BEYOND_EVERY}th run, one lies beyond the central {100 * runs.CENTRAL:.0f} % '
    'of its prior, up to the bound of the parameter. All settings of the belief are compared on '
    'the same measurements and commands, which were recorded with the settings as they are. True '
    'values stay constant, so the runs say nothing about `changes`.\n\n'
    'The setting is chosen on every other run with truths from the prior, and checked on the '
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
    f'{SETTLING_S:g} s on and over parameters; 95 % Wilson interval, as if each run were a '
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
    f'counts of ranks among {DRAWS} draws (Talts et al. 2018).\n'
    '- contraction: 1 - variance / variance of the prior, median; a parameter shows if its '
    f'interval is above {summary.SHOWS:g}.\n'
    '- beyond: last 90 % intervals that hold a truth beyond the prior.'
)


def summarize(
    results: Sequence[RunResult], compared: Sequence[BeliefSetting]
) -> dict[str, SettingSummary]:
    """Return the summary of each setting over all runs with truths from the prior."""
    of_prior = summary.from_prior(results)
    return {s.name: summary.summarize(of_prior, s.name) for s in compared}


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
        report.bullets(recommendation.sentences(results, chosen)),
        *report.origin(results, len(results), provenance),
        METHOD,
        COLUMNS,
        '## Settings',
        _table([_setting(*item) for item in summaries.items()]),
    ]
    for shown in dict.fromkeys((OWN, name)):
        of = summary.parameters(results, shown)
        parts += [
            f'## Parameters, setting `{shown}`',
            _table([_parameter(*item) for item in of.items()]),
        ]
    parts += [report.picture(path, caption) for path, caption in pictures.items()]
    return [*pictures, report.write(folder / NAME, parts)]


def _table(rows: Sequence[dict[str, object]]) -> str:
    """Return rows by column as a table in Markdown."""
    return report.table([*rows[0]], [[*row.values()] for row in rows])


def _setting(name: str, row: SettingSummary) -> dict[str, object]:
    return {
        'setting': name,
        'inside 50 %': row.inside_50,
        'inside 90 %': row.inside_90,
        'at the end': row.inside_end,
        'rms z': f'{row.rms_z:.2f}',
        'log score': row.log_score,
        'ESS': f'{100 * row.ess:.0f} %',
        'reinjected': row.reinjected,
        'misfit': row.misfit,
        'ms': f'{row.update_ms:.1f}',
    }


def _parameter(name: str, row: ParameterSummary) -> dict[str, object]:
    counts = ' '.join(map(str, row.ranks.counts))
    return {
        'parameter': name,
        'at the end': row.inside_end,
        'rms z': f'{row.rms_z:.2f}',
        'ranks': f'p = {row.ranks.probability:.2g}: {counts}',
        'contraction': row.contraction,
        '': row.shows,
        'unidentifiable': row.unidentifiable,
        'beyond': row.beyond or '-',
    }


def as_json(
    results: Sequence[RunResult], compared: Sequence[BeliefSetting], chosen: Recommendation
) -> dict[str, Any]:
    """Return all numbers as plain mappings, for JSON."""
    return {
        'runs': len(results),
        'settings': statistics.plain(summarize(results, compared)),
        'parameters': {
            name: statistics.plain(row) | {'shows': row.shows}
            for name, row in summary.parameters(results, OWN).items()
        },
        'recommended': {
            'setting': chosen.setting.name,
            'belief': dict(chosen.setting.changes),
            'calibrated': chosen.calibrated,
            'compatible': list(chosen.compatible),
            'holds': recommendation.is_calibrated(chosen.checked),
            'checked': statistics.plain(chosen.checked),
            'as_it_is': statistics.plain(chosen.own),
            'gain': statistics.plain(chosen.gain),
        },
        'verdict': recommendation.sentences(results, chosen),
    }
