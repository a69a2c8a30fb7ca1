"""`emppi bench robustness`: when a task works, and when it does not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from benchmarks.belief.compute import LEAST_S
from benchmarks.paper.cells import LEARNER, ORACLE, ParameterEstimate, changed
from benchmarks.robustness import load, plots, runs
from benchmarks.robustness.runs import PointSummary, RobustnessCell, RobustnessRow
from benchmarks.robustness.sweeps import SWEEPS
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
from emppi_ros.app.closed_loop import CONTROLLERS
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import table
from emppi_ros.cli import extras
from emppi_ros.core.errors import ConfigError
from emppi_ros.tasks.task import Task, load_task, parse_task, task_text

QUICK_S = 0.5
_HEADER = (
    'controller', 'success', 'time', 'inside 90 %', 'misfit', 'inside or misfit', 'faults',
)  # fmt: skip
_LOAD_HEADER = ('success', 'time', 'late plans', 'held', 'faults')
_COLUMNS = (
    'controller', 'seed', 'success', 'time_s', 'limit_s', 'fault', 'misfit_s', 'missed', 'holds',
    'compute_s', 'made_by', 'digest',
)  # fmt: skip
_ESTIMATE = ('true', 'mean', 'sd', 'low', 'high', 'inside')


def is_real_time(run: RobustnessCell | PointSummary) -> bool:
    """Whether a run is one of the ROS 2 graph in real time."""
    return SWEEPS[run.sweep].real_time


class RobustnessStudy(Study):
    """A task in worlds that are harder than its file describes."""

    name = 'robustness'
    help = 'success and honesty in worlds that are harder than the task describes'
    description = """
Vary what a task does not describe, and show how often it succeeds and how honest its belief is.
"""
    row = RobustnessRow
    compute = staticmethod(runs.compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'tasks': Axis('task', (), ('panda_push',), 'by name or YAML file'),
        'sweeps': Axis('sweep', SWEEPS, help=described(SWEEPS)),
        'controllers': Axis('controller', CONTROLLERS, (LEARNER, ORACLE)),
    }
    seeds = range(10)
    quick = f'one seed, {QUICK_S} s a run, the first load'
    outdated_by = 'task settings or beliefs'

    def cells(self, selection: Selection) -> Cells:
        """
        Return all cells, ordered by seed; ConfigError if a task is invalid.

        A sweep is left out of a task to which it does not apply.
        """
        cells: list[RobustnessCell] = []
        skipped, graph = [], _why_no_graph()
        for source in selection.names['tasks']:
            text = task_text(source)
            task = parse_task(text, source).name
            if selection.quick:
                text = changed(text, {'duration_s': QUICK_S})
            for name in selection.names['sweeps']:
                sweep = SWEEPS[name]
                try:
                    points = list(runs.task_texts(source, text, name))
                except ConfigError as error:
                    skipped.append(f'{task}, {name}: {error}')
                    continue
                if sweep.real_time and graph:
                    skipped.append(f'{task}, {name}: {graph}')
                    continue
                cells += [
                    RobustnessCell(task, name, values, controller, seed, own)
                    for seed in selection.seeds
                    for values, own in points[: 1 if selection.quick and sweep.real_time else None]
                    for controller in selection.names['controllers']
                    if controller == LEARNER or not sweep.real_time
                ]
        return Cells(sorted(cells, key=lambda cell: cell.seed), skipped)  # stable

    def compute_all(
        self, cells: Sequence[RobustnessCell], spread: Spread
    ) -> Iterator[RobustnessRow]:
        """Yield the rows of cells; those in real time are computed last, one after the other."""
        yield from spread(self.compute, [cell for cell in cells if not is_real_time(cell)])
        for cell in filter(is_real_time, cells):
            yield load.compute(cell, extras.load_node_module('tools.demo').run_demo)

    def page(self, results: Results) -> Page:
        """Return a figure and a table for each sweep of each task."""
        groups = runs.summarize(results.rows)
        tasks = {task.name: task for task in map(load_task, {group.task: 0 for group in groups})}
        figures = plots.write_all(groups, tasks, results.folder)
        learned = [group for group in groups if group.controller == LEARNER]
        values = {
            'success': sum(group.success.count for group in learned),
            'total': sum(group.success.total for group in learned),
            'warned': sum(group.warned.count for group in learned if group.warned),
            'judged': sum(group.warned.total for group in learned if group.warned),
            'failures': _failures(learned),
            'worlds': len({(group.task, group.sweep, group.values) for group in learned}),
            'first': figures[0].path.name,
            'tasks': [
                text
                for task in tasks.values()
                for text in (
                    f'## {task.name.replace("_", " ")}',
                    *(
                        text
                        for figure in figures
                        if figure.task == task.name
                        for text in _section(figure, groups, task)
                    ),
                )
            ],
            'LEAST_S': LEAST_S,
        }
        header = ('task', 'sweep', 'values', *_COLUMNS, 'parameter', *_ESTIMATE)
        return Page(
            values,
            {'table.csv': (header, _lines(results.rows))},
            [figure.path for figure in figures],
            runs.lines(groups),
            {'groups': [statistics.plain(group) for group in groups]},
            'load' if all(map(is_real_time, groups)) else '',
        )


def _failures(groups: Sequence[PointSummary]) -> str:
    """Return how many runs of each sweep fail."""
    failed = {
        name: sum(point.success.total - point.success.count for point in points)
        for name, points in grouped(groups, 'sweep').items()
    }
    counts = (f'{name.replace("_", " ")} {n}' for name, n in failed.items() if n)
    return ', '.join(counts) or 'none'


def _why_no_graph() -> str:
    """Return why no graph can run here; '' if one can."""
    try:
        extras.load_node_module('tools.demo')
    except ConfigError as error:
        return str(error)
    return ''


def _lines(rows: Sequence[RobustnessRow]) -> Iterable[list[object]]:
    """Yield a line for each parameter of each run; one for a run without estimates."""
    for row in rows:
        estimates: Mapping[str, ParameterEstimate | None] = row.parameters or {'': None}
        for name, estimate in estimates.items():
            yield [
                *(row.task, row.sweep, ' '.join(f'{x:g}' for x in row.values)),
                *(getattr(row, column) for column in _COLUMNS),
                *(name, *(getattr(estimate, key) if estimate else '' for key in _ESTIMATE)),
            ]


def _section(picture: plots.SweepPlot, groups: Sequence[PointSummary], task: Task) -> list[str]:
    """Return the paragraphs about one sweep of a task."""
    sweep = SWEEPS[picture.sweep]
    parts = [
        f'### {picture.sweep.replace("_", " ")}',
        f'{sweep.description[0].upper()}{sweep.description[1:]}.',
        report.picture(picture.path, picture.caption),
    ]
    axes = sweep.axes(task)
    of_sweep = [g for g in groups if (g.task, g.sweep) == (picture.task, picture.sweep)]
    if sweep.real_time:
        parts.append(table((axes[0].label, *_LOAD_HEADER), map(_load_line, of_sweep)))
    elif len(axes) == 1:  # else the map holds the numbers
        parts.append(table((axes[0].label, *_HEADER), map(_line, of_sweep)))
    return parts


def _line(group: PointSummary) -> list[object]:
    outcomes = (group.success, group.time_s.median, group.inside, group.misfit, group.warned)
    return [
        *(f'{value:g}' for value in group.values),
        group.controller,
        *('-' if value is None else f'{value:.3g}' if isinstance(value, float) else value
          for value in outcomes),
        _faults(group),
    ]  # fmt: skip


def _load_line(group: PointSummary) -> list[object]:
    return [
        f'{group.values[0]:g}',
        group.success,
        f'{group.time_s.median:.3g}',
        '-' if group.late is None else f'{group.late} %',
        '-' if group.held is None else group.held,
        _faults(group),
    ]


def _faults(group: PointSummary) -> str:
    return '; '.join(f'{count}: {name}' for name, count in group.faults.items()) or '-'


STUDY = RobustnessStudy()
