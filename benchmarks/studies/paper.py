"""`emppi bench paper`: check the paper's claims on its tasks."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from benchmarks import runner
from benchmarks.paper import cells, claims, plots
from benchmarks.paper.cells import (
    CONTROLLERS,
    MEASURES,
    RISK_SIZE,
    SUCCESS,
    Cell,
    ParameterEstimate,
    Request,
    Row,
)
from benchmarks.paper.claims import Verdict
from benchmarks.paper.compute import compute
from benchmarks.paper.summary import SuccessAndTime, Summary, as_json, summarize
from benchmarks.row_store import Table
from benchmarks.study import Axis, Cells, Page, Results, Selection, Study
from emppi_ros.calibration import report
from emppi_ros.calibration.report import table
from emppi_ros.core import config
from emppi_ros.model.uncertain_joints import MOVED_M
from emppi_ros.tasks.schema import TaskFile


class PaperSettings(NamedTuple):
    """Hyper-parameters of a task in the paper."""

    models: int  # N
    rollouts: int  # K
    horizon: int  # T
    noise_variance: float  # Sigma
    temperature: float  # lambda
    likelihood_variance: float


SOURCE = 'Abraham et al. 2020, Table I'
PAPER: Mapping[str, PaperSettings] = {
    'halfcheetah_backflip': PaperSettings(20, 4, 40, 0.5, 0.1, 0.01),
    'shadow_dice': PaperSettings(20, 2, 20, 0.8, 0.001, 1.0),
    'adroit_door': PaperSettings(40, 1, 30, 0.2, 0.8, 0.01),
    'panda_drawer': PaperSettings(10, 2, 20, 1.0, 0.8, 0.01),
    'panda_cabinet': PaperSettings(10, 2, 20, 1.0, 0.8, 0.01),
    'panda_push': PaperSettings(10, 1, 8, 0.08, 0.02, 0.2),
    'panda_reconfigure': PaperSettings(10, 1, 8, 0.08, 0.02, 0.2),
}
COMPARED = {  # key of a likelihood: the quantity whose standard deviation it is
    'joint_position_sd': 'joint positions',
    'joint_velocity_sd': 'joint velocities',
    'object_position_sd_m': 'object positions',
    'object_rotation_sd_rad': 'object rotations',
}
CAPTIONS = {
    'success': 'Success of first runs, by task and controller.',
    'regret': 'Time lost compared with MPPI that knows the true parameters.',
    'squared_error': "Squared error of the parameters over time (the paper's Fig. 3).",
    'learning': 'Squared error of the parameters in runs that continue after success.',
    'goals': "Goals reached over time (the paper's Fig. 4).",
    'estimates': 'Estimates of the parameters over time: {task}.',
    'articulation': 'Belief of EMPPI about the joint in its first run, one axis per particle: '
    "{task} (the paper's Fig. 2 and 6).",
    'plan_time': 'Wall time of a plan, and the period that real time allows.',
}
SETTINGS_HEADER = 'task', 'source', 'T', 'N', 'K', 'Sigma', 'lambda', 'variance of the likelihood'
_CELL = ('study', 'task', 'controller', 'seed', 'models', 'rollouts')
_RESULT = (
    'success', 'time_s', 'limit_s', 'steps', 'squared_error', 'diverged', 'degenerate',
    'plan_ms', 'plan_p99_ms', 'period_ms', 'right_kind', 'compute_s', 'made_by', 'digest',
)  # fmt: skip
_ESTIMATE = ('true', 'mean', 'sd', 'low', 'high', 'inside', 'unit')


class PaperStudy(Study):
    """The paper's tasks with several controllers, and its claims."""

    name = 'paper'
    help = "check the paper's claims on its tasks"
    description = f"""
Run tasks with several controllers and many seeds, and check the paper's claims.
{cells.STUDIED} adds an ablation over models and rollouts and the calibration of the filter;
{' and '.join(cells.LEARNING_S)} add longer runs of EMPPI, in which estimates converge;
{' and '.join(cells.RISK_TASKS)} add risk measures.
"""
    row = Row
    compute = staticmethod(compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'tasks': Axis('task', (), cells.TASKS, 'by name or YAML file'),
        'controllers': Axis('controller', CONTROLLERS),
        'studies': Axis('study', cells.STUDIES),
    }
    seeds = ()  # each task has its own number
    seeds_help = f'{cells.SEEDS}, {cells.PANDA_SEEDS} for the Panda'
    quick = f'one seed, {cells.QUICK_S} s a run'
    outdated_by = 'task settings'

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed; ConfigError if a task is invalid."""
        seeds = selection.seeds or None
        return Cells(
            cells.make_cells(Request(**selection.names, seeds=seeds, quick=selection.quick))
        )

    def page(self, results: Results) -> Page:
        """Return verdicts on the claims, and the numbers behind them."""
        rows: Sequence[Row] = results.rows
        summary = summarize(rows)
        figures = plots.write_all(rows, summary, results.folder)
        figures += plots.write_joint_pictures(results.cells, results.folder, runner.say)
        verdicts = claims.judge(summary)
        settings = settings_lines(results.cells)
        calibration = list(summary.calibration.values())
        values = {
            'holds': sum(verdict.holds for verdict in verdicts),
            'judged': len(verdicts),
            'runs': len(rows),
            'success': list(_success(summary)),
            'claims': _verdicts(verdicts),
            'first_run': _percent(claims.FIRST_RUN),
            'near_oracle': _percent(claims.NEAR_ORACLE),
            'left_over': _percent(claims.LEFT_OVER),
            'moved': f'{100.0 * MOVED_M:g}',
            'calibration': _verdicts(claims.judge_calibration(summary)),
            'filtered': calibration[0].total if calibration else 0,
            'calibrated': ' and '.join(map(_percent, claims.CALIBRATED)),
            'ablation': _ablation(summary),
            'risk': _risk(summary.risk),
            **RISK_SIZE,
            'all_rollouts': RISK_SIZE['models'] * RISK_SIZE['rollouts'],
            'settings': table(SETTINGS_HEADER, settings) if settings else '',
            'source': SOURCE,
            'plots': [_picture(path) for path in figures],
            'diverged': sum(row.diverged for row in rows),
            'degenerate': sum(row.degenerate for row in rows),
        }
        verdicts += claims.judge_calibration(summary)
        data = {**as_json(summary), 'claims': [verdict._asdict() for verdict in verdicts]}
        return Page(values, _tables(rows), figures, _lines(summary, verdicts), data)


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Return one table of runs, and one of runs and parameters."""
    header = (*_CELL, *_RESULT)
    by_parameter = (
        [*_values(row, _CELL), name, *_values(estimate, _ESTIMATE)]
        for row in rows
        for name, estimate in row.parameters.items()
    )
    return {
        'table.csv': (header, (_values(row, header) for row in rows)),
        'estimates.csv': ((*_CELL, 'parameter', *_ESTIMATE), by_parameter),
    }


def _values(item: Row | ParameterEstimate, names: Sequence[str]) -> list[object]:
    values = {name: getattr(item, name) for name in names}
    sizes = {'models', 'rollouts'} & values.keys()  # 0: the task's own
    return [value or '' if name in sizes else value for name, value in values.items()]


def _lines(summary: Summary, verdicts: Sequence[Verdict]) -> Iterable[str]:
    """Yield the successes of each task, and the verdicts."""
    for task, shares in summary.success.items():
        yield f'\n{task}'
        yield from (f'{name}: {share}' for name, share in shares.items())
    yield ''
    for verdict in verdicts:
        yield f'{verdict.task}: {verdict.claim}: {verdict.words}: {verdict.numbers}'


def _percent(share: float) -> str:
    return f'{100.0 * share:.0f}'


def _success(summary: Summary) -> Iterable[str]:
    if not summary.success:
        return
    names = [n for n in CONTROLLERS if any(n in shares for shares in summary.success.values())]
    yield 'Successful runs, with 95 % Wilson intervals.'
    yield _by_task(summary.success, names)
    if summary.attempts:
        yield 'Attempts that reached their target (attempts of one run are correlated).'
        yield _by_task(summary.attempts, names)
    yield (
        'Median time to success in seconds (the time limit without success), and the mean '
        'difference to the oracle with the same seed, with a 95 % bootstrap interval.'
    )
    times = {
        task: {name: _time(summary, task, name) for name in of}
        for task, of in summary.time_s.items()
    }
    yield _by_task(times, names)


def _by_task(cells: Mapping[str, Mapping[str, object]], names: Sequence[str]) -> str:
    """Return a table with a line for each task and a column for each name."""
    lines = [[task, *(of.get(name, '-') for name in names)] for task, of in cells.items()]
    return table(['task', *names], lines) if lines else ''


def _time(summary: Summary, task: str, name: str) -> str:
    regret = summary.regret_s.get(task, {}).get(name)
    return f'{summary.time_s[task][name]:.2f}' + ('' if regret is None else f'; {regret}')


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    lines = [[v.task, v.claim, f'**{v.words}**', v.numbers] for v in verdicts]
    return table(['', 'claim', 'verdict', 'numbers'], lines) if lines else ''


def _ablation(summary: Summary) -> str:
    models, rollouts = (sorted({size[i] for size in summary.ablation}) for i in (0, 1))
    lines = [[f'M = {m}', *(summary.ablation.get((m, k), '-') for k in rollouts)] for m in models]
    return table(['', *(f'K = {k}' for k in rollouts)], lines) if lines else ''


def settings_lines(cells: Iterable[Cell]) -> list[list[object]]:
    """Return table lines with the paper's settings and ours, for each task of the first study."""
    texts = {cell.task: cell.text for cell in cells if cell.study == SUCCESS}
    lines: list[list[object]] = []
    for task, text in texts.items():
        if task in PAPER:
            paper = PAPER[task]
            numbers = (paper.noise_variance, paper.temperature, paper.likelihood_variance)
            shown = (f'{number:g}' for number in numbers)
            lines.append([task, 'paper', paper.horizon, paper.models, paper.rollouts, *shown])
        ours = _ours(config.build(TaskFile, config.parse(text, task), task))
        lines.append([task, 'here', *ours])
    return lines


def _ours(file: TaskFile) -> list[object]:
    """Return the settings of a task's file."""
    planner, likelihood = file.planner, file.belief.likelihood
    sds = {words: getattr(likelihood, name) for name, words in COMPARED.items()}
    variances = [f'{sd**2:.2g} ({words})' for words, sd in sds.items() if sd is not None]
    if likelihood.dof is not None:
        variances.append(f"Student's t of {likelihood.dof:g} degrees of freedom")
    return [
        f'{planner.horizon} of {planner.step_s:g} s',
        f'{planner.models}, {file.belief.particles} particles',
        planner.rollouts,
        ', '.join(f'{variance:g}' for variance in planner.noise_variance),
        f'{planner.temperature:g}',
        ', '.join(variances),
    ]


def _risk(by_task: Mapping[str, Mapping[str, SuccessAndTime]]) -> str:
    names = [n for n in MEASURES if any(n in outcomes for outcomes in by_task.values())]
    cells = {
        task: {
            name: f'{outcome.success}; {outcome.time_s:.2f}' for name, outcome in outcomes.items()
        }
        for task, outcomes in by_task.items()
    }
    return _by_task(cells, names)


def _picture(path: Path) -> str:
    kind, _, task = path.stem.partition('_')
    caption = CAPTIONS.get(path.stem) or CAPTIONS[kind].format(task=task.replace('_', ' '))
    return report.picture(path, caption)


STUDY = PaperStudy()
