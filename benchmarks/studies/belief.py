"""`emppi bench belief`: estimators of parameters against one another, in worlds that change."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from benchmarks import means
from benchmarks.belief import compute as runs
from benchmarks.belief import plots, scores, summary, worlds
from benchmarks.belief.estimators import EMPPI, ESTIMATORS, FROZEN
from benchmarks.belief.runs import BeliefCell, BeliefRow
from benchmarks.belief.scores import ParameterScores
from benchmarks.belief.summary import SOON_S, Group, ScoreSummary, percent
from benchmarks.pages import constants
from benchmarks.paper.cells import changed
from benchmarks.study import (
    Axis,
    Cells,
    Page,
    Results,
    Selection,
    Spread,
    Study,
    described,
    grouped,
)
from emppi_ros.calibration import belief_scores, report
from emppi_ros.calibration.report import table
from emppi_ros.tasks.task import parse_task, task_text

QUICK_S = 1.5
HEADER = (
    'world', 'estimator', 'runs', 'inside 50 %', 'inside 90 %', 'rms z', 'CRPS', 'log score',
    'at the end', 'misfit', 'success', 'time to success', 'ms',
)  # fmt: skip
_CELL = ('task', 'world', 'estimator', 'seed')
_RESULT = (
    'success', 'time_s', 'limit_s', 'updates', 'update_ms', 'degenerate', 'misfit_s',
    'compute_s', 'made_by', 'digest',
)  # fmt: skip
_SCORE = (
    'inside_50', 'inside_90', 'mean_square_z', 'crps', 'log_score', 'found_s', 'recovered_s',
    'true', 'mean', 'sd', 'low', 'high', 'inside_end', 'unit',
)  # fmt: skip


class BeliefStudy(Study):
    """Estimators of a task's parameters, in worlds that the task does not describe."""

    name = 'belief'
    help = 'compare estimators of parameters in worlds that change'
    description = """
Compare estimators of a task's parameters in worlds that the task does not describe.
"""
    row = BeliefRow
    compute = staticmethod(runs.compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'tasks': Axis('task', (), tuple(worlds.CAMPAIGN), 'by name or YAML file'),
        'worlds': Axis('world', worlds.NAMES, None, described(worlds.DESCRIPTIONS)),
        'estimators': Axis('estimator', ESTIMATORS, None, described(ESTIMATORS)),
    }
    seeds = ()  # each run of the campaign has its own number
    seeds_help = f'as published; {worlds.SEEDS} for other runs'
    quick = f'one seed, {QUICK_S} s a run'
    outdated_by = 'task settings or estimators'

    def add_options(self, parser: Any) -> None:
        """Add `--fresh`."""
        parser.add_argument(
            '--fresh', action='store_true', help='compute all runs again, also finished ones'
        )

    def cells(self, selection: Selection) -> Cells:
        """
        Return all cells, ordered by seed; ConfigError if a task is invalid.

        Worlds that a task does not have, or that cannot be simulated here, are left out.
        """
        cells: list[BeliefCell] = []
        skipped = []
        for name in selection.names['tasks']:
            task = parse_task(task_text(name), name).name
            of_task, campaign = worlds.worlds_of(task), worlds.CAMPAIGN.get(task, {})
            for world in selection.names['worlds'] or campaign or of_task:
                reason = 'not defined for this task'
                if world in of_task:
                    reason = worlds.unavailable(world)
                if reason:
                    skipped.append(f'{task}, {world}: {reason}')
                    continue
                text = worlds.in_world(task_text(name), of_task[world])
                if selection.quick:
                    text = changed(text, {'duration_s': QUICK_S})
                parse_task(text, f'{name} in world {world}')
                counts = campaign.get(world, {EMPPI: worlds.SEEDS, FROZEN: worlds.SEEDS})
                for estimator in selection.names['estimators'] or counts:
                    changes = ESTIMATORS[estimator].changes
                    own = changed(text, changes) if changes else text
                    count = 1 if selection.quick else counts.get(estimator, worlds.SEEDS)
                    cells += [
                        BeliefCell(task, world, estimator, seed, own)
                        for seed in selection.seeds or range(count)
                    ]
        return Cells(sorted(cells, key=lambda cell: cell.seed), skipped)  # stable

    def compute_all(self, cells: Sequence[BeliefCell], spread: Spread) -> Iterator[BeliefRow]:
        """Yield the rows of cells; those that share a run are computed together."""
        groups = [tuple(of) for of in grouped(cells, 'shared_run').values()]
        for rows in spread(self.compute, groups):
            yield from rows

    def page(self, results: Results) -> Page:
        """Return scores, recovery and figures of each task."""
        rows: Sequence[BeliefRow] = results.rows
        groups = summary.summarize(rows)
        figures = plots.write_all(rows, groups, results.folder)
        used = {group.world for group in groups}, {group.estimator for group in groups}
        tables = {
            'table.csv': ((*_CELL, *_RESULT), (_values(row, (*_CELL, *_RESULT)) for row in rows)),
            'scores.csv': (
                (*_CELL, 'parameter', *_SCORE),
                (
                    [*_values(row, _CELL), name, *_values(of_name, _SCORE)]
                    for row in rows
                    for name, of_name in row.scores.items()
                ),
            ),
        }
        values = {
            'inside': _medians(groups, lambda of: 100.0 * of.inside_90.mean, '.0f'),
            'crps': _medians(groups, lambda of: of.crps.mean, '.2g'),
            'first': figures[0].path.name if figures else '',
            'tasks': [
                text
                for task, of_task in grouped(groups, 'task').items()
                for text in (
                    f'## {task.replace("_", " ")}',
                    table(HEADER, map(_line, of_task)),
                    *_recovery(of_task),
                    *_by_parameter(of_task),
                    *(report.picture(f.path, f.caption) for f in figures if f.task == task),
                )
            ],
            'worlds': _described(worlds.DESCRIPTIONS, used[0]),
            'estimators': _described({n: k.description for n, k in ESTIMATORS.items()}, used[1]),
            **constants(runs, belief_scores, scores, summary),
        }
        data = {'groups': list(map(means.plain, groups))}
        paths = [figure.path for figure in figures]
        return Page(values, tables, paths, summary.lines(groups), data)


def _medians(groups: Sequence[Group], get: Callable[[ScoreSummary], float], digits: str) -> str:
    """Return the median of a score over worlds and tasks, for each estimator."""
    return ', '.join(
        f'`{name}` {np.median(values):{digits}}'
        for name, of_name in grouped(groups, 'estimator').items()
        if (values := [get(group.scores) for group in of_name if group.scores is not None])
    )


def _values(item: BeliefRow | ParameterScores, names: Sequence[str]) -> list[object]:
    return [getattr(item, name) for name in names]


def _described(lines: Mapping[str, str], used: set[str]) -> str:
    return report.bullets(f'`{name}`: {text}' for name, text in lines.items() if name in used)


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
        for name, recovery in group.converged.items()
        if name in fixed[group.world]
    ]
    lines += [
        [group.world, 'change', name, group.estimator, recovery.time_s, recovery.soon]
        for group in groups
        if group.world != worlds.RAMP  # no moment at which all of it is new
        for name, recovery in group.recovered.items()
    ]
    if lines:
        yield 'Recovery:'
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


STUDY = BeliefStudy()
