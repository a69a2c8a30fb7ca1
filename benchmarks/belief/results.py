"""The report `results.md`: all numbers, the machine and the command."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.belief import plots, worlds
from benchmarks.belief.compute import LEAST_S
from benchmarks.belief.estimators import ESTIMATORS
from benchmarks.belief.rows import BeliefRow
from benchmarks.belief.summary import SOON_S, Group, ScoreSummary, percent
from emppi_ros.calibration import report, scores
from emppi_ros.calibration.report import Provenance, table

NAME = 'results.md'
METHOD = (
    'Each estimator gets the measurements and commands of the same seeds. An estimator that only '
    "observes gets those of the run of `emppi` with the same seed; the others' beliefs are used "
    f'by the planner. A run lasts until success and at least {LEAST_S:g} s, and if a true value '
    'changes until the end. Scores are means over updates at least '
    f'{scores.SETTLING_S:g} s after the start and after a change, then over parameters, then over '
    'runs, with 95 % bootstrap intervals (BCa) over runs. The particle filter and the tasks were '
    'tuned on seeds from 100 on.'
)
COLUMNS = (
    '- inside 50 %, inside 90 %: share of central intervals that hold the truth, over time.\n'
    '- rms z: root mean square of (truth - mean) / sd.\n'
    '- CRPS: continuous ranked probability score, in standard deviations of the prior.\n'
    '- log score: log density of the truth, in nats, by a normal distribution with the mean and '
    'sd of the belief, in unbounded coordinates and standard deviations of the prior; median '
    'over runs, with an interval between two of them. Higher is better. A belief narrower than '
    f'{scores.NARROWEST:g} sd of the prior counts as this wide.\n'
    '- at the end: last 90 % intervals that hold the truth, of all parameters; 95 % Wilson '
    'interval.\n'
    '- misfit: runs in which the monitor of the particle filter shows that the model does not '
    'explain the measurements.\n'
    '- success: runs that succeed, from the change on if there is one; median time to it [s]; '
    'inf: less than half of them do.\n'
    '- ms: processor time of an update, median over runs.'
)
HEADER = (
    'world', 'estimator', 'runs', 'inside 50 %', 'inside 90 %', 'rms z', 'CRPS', 'log score',
    'at the end', 'misfit', 'success', 'time to success', 'ms',
)  # fmt: skip
RECOVERY = (
    f'Time [s] from which the 90 % interval holds the truth for {scores.HELD_S:g} s: median over '
    f'runs, and runs in which it is at most {SOON_S:g} s; inf: not in half of the runs.'
)


def write(
    folder: Path,
    rows: Sequence[BeliefRow],
    groups: Sequence[Group],
    provenance: Provenance,
    wanted: int,
    skipped: Sequence[str],
) -> list[Path]:
    """Write the plots and the report, and return the paths."""
    pictures = plots.write_all(rows, groups, folder)
    parts = [
        *report.header('Estimators of parameters, compared', rows, wanted, provenance),
        METHOD,
        COLUMNS,
        '## Worlds and estimators',
        _described(worlds.DESCRIPTIONS, {group.world for group in groups}),
        _described(
            {name: kind.description for name, kind in ESTIMATORS.items()},
            {group.estimator for group in groups},
        ),
        *report.left_out(skipped),
    ]
    for task in dict.fromkeys(group.task for group in groups):
        of_task = [group for group in groups if group.task == task]
        parts += [f'## {task.replace("_", " ")}', table(HEADER, map(_line, of_task))]
        parts += _recovery(of_task)
        parts += _by_parameter(of_task)
        parts += [
            report.picture(picture.path, picture.caption)
            for picture in pictures
            if picture.task == task
        ]
    return [*(picture.path for picture in pictures), report.write(folder / NAME, parts)]


def _described(lines: dict[str, str], used: set[str]) -> str:
    return '\n'.join(f'- `{name}`: {text}' for name, text in lines.items() if name in used)


def _line(group: Group) -> list[object]:
    return [
        group.world,
        group.estimator,
        group.runs,
        *_score_cells(group.scores),
        *(
            '-' if value is None else value
            for value in (group.misfit, group.success, group.time_s)
        ),
        '-' if group.update_ms is None else f'{group.update_ms.median:.1f}',
    ]


def _score_cells(of: ScoreSummary | None) -> list[object]:
    if of is None:
        return ['-'] * 6
    return [
        percent(of.inside_50),
        percent(of.inside_90),
        of.rms_z,
        f'{of.crps:.2f}',
        of.log_score,
        of.inside_end,
    ]


def _recovery(groups: Sequence[Group]) -> Iterable[str]:
    """Yield the tables of times from the start, outside of the prior, and from a change."""
    outside = (worlds.OUTSIDE, worlds.DROP)
    fixed = {
        world: set(worlds.worlds_of(groups[0].task).get(world, worlds.World()).truth)
        for world in outside
    }
    lines = [
        [group.world, 'start', name, group.estimator, recovery.time_s, recovery.soon]
        for group in groups
        if group.world in outside
        for name, recovery in group.found.items()
        if name in fixed[group.world]
    ]
    lines += [
        [group.world, 'change', name, group.estimator, recovery.time_s, recovery.soon]
        for group in groups
        if group.world != worlds.RAMP  # no moment at which all of it is new
        for name, recovery in group.recovered.items()
    ]
    if lines:
        yield RECOVERY
        header = ('world', 'from', 'parameter', 'estimator', 'time', f'at most {SOON_S:g} s')
        yield table(header, lines)


def _by_parameter(groups: Sequence[Group]) -> Iterable[str]:
    lines = [
        [group.world, name, group.estimator, *_score_cells(scores_of)]
        for group in groups
        for name, scores_of in group.parameters.items()
    ]
    if lines:
        yield 'By parameter:'
        yield table(('world', 'parameter', 'estimator', *HEADER[3:9]), lines)
