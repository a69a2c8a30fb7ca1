"""The report `results.md`: all numbers, the machine and the command."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.paper import claims
from benchmarks.paper.cells import (
    CONTROLLERS,
    LEARNER,
    MEASURES,
    ORACLE,
    RISK_SIZE,
    SUCCESS,
    Cell,
)
from benchmarks.paper.claims import Verdict
from benchmarks.paper.published import COMPARED, PAPER, SOURCE
from benchmarks.paper.rows import Row
from benchmarks.paper.summary import SuccessAndTime, Summary
from emppi_ros.calibration import report
from emppi_ros.calibration.report import Provenance, table
from emppi_ros.core import config
from emppi_ros.model.uncertain_joints import MOVED_M
from emppi_ros.tasks.schema import TaskFile

NAME = 'results.md'
CAPTIONS = {
    'success': 'Success of first runs, by task and controller.',
    'regret': 'Time lost compared with MPPI that knows the true parameters.',
    'squared_error': "Squared error of the parameters over time (the paper's Fig. 3).",
    'learning': 'Squared error of the parameters in runs that continue after success.',
    'goals': "Goals reached over time (the paper's Fig. 4).",
    'ablation': 'Success on the cart-pole over the number of models and rollouts.',
    'calibration': 'How often the 90 % intervals hold the true value.',
    'estimates': 'Estimates of the parameters over time: {task}.',
    'articulation': 'Belief of EMPPI about the joint in its first run, one arrow per particle: '
    "{task} (the paper's Fig. 2 and 6).",
    'plan_time': 'Wall time of a plan, and the period that real time allows.',
}


def _percent(share: float) -> str:
    return f'{100.0 * share:.0f}'


BOUNDS = (
    f'Success from the first run: at least {_percent(claims.FIRST_RUN)} % of the runs. Like the '
    f'oracle: at most {_percent(claims.NEAR_ORACLE)} percentage points fewer than with the true '
    f'parameters. A wrong model fails below {_percent(claims.FIRST_RUN)} %. With consecutive '
    'targets attempts are compared, not runs. Estimates converge: at most '
    f'{_percent(claims.LEFT_OVER)} % of the squared parameter error is left at the end, medians '
    'over runs. The error of a joint with an uncertain axis is the squared angle to its true '
    'axis [rad^2] and the squared distance of its pivot from the true hinge line [m^2]; with a '
    'choice of axes it is the squared probability of the wrong ones. The type of a joint is '
    'slide or hinge, or one of a few axes, judged by the first belief after its body has moved '
    f'{100.0 * MOVED_M:g} cm.'
)


SETTINGS_NOTE = (
    f"The paper's settings are those of {SOURCE}. T counts control steps. The paper plans with "
    'all particles: N is the number of both. Its likelihood has one variance for all compared '
    'quantities. Lambda scales with the costs: comments in the task files give the factor '
    'between ours and Table I.'
)
SETTINGS_HEADER = 'task', 'source', 'T', 'N', 'K', 'Sigma', 'lambda', 'variance of the likelihood'


def write(
    folder: Path,
    rows: Sequence[Row],
    summary: Summary,
    origin: Provenance,
    pictures: Sequence[Path],
    cells: Sequence[Cell] = (),
) -> Path:
    """Write the report beside its pictures and return its path."""
    parts = ["# The paper's claims, measured", *_origin(rows, len(cells) or len(rows), origin)]
    if summary.success:
        parts += ['## Success', *_success(summary)]
    if summary.success or summary.learning:
        parts += ['## Claims', BOUNDS, *_verdicts(claims.judge(summary))]
    if summary.calibration:
        runs = next(iter(summary.calibration.values())).total
        parts += [
            '## Calibration',
            f'How often the 90 % interval held the true value, in {runs} filtered runs of random '
            'motion without control, with true values drawn from the prior. Required: between '
            f'{" and ".join(_percent(bound) for bound in claims.CALIBRATED)} %.',
            *_verdicts(claims.judge_calibration(summary)),
        ]
    if summary.ablation:
        parts += ['## Ablation', 'Success of EMPPI on the cart-pole.', _ablation(summary)]
    if summary.risk:
        parts += ['## Risk', *_risk(summary.risk)]
    if summary.published:
        parts += [
            "## The paper's own hyper-parameters",
            'The same tasks by Table I and Algorithm 1: N, K, T, Sigma and lambda of the table, N '
            'particles, one likelihood variance for all compared quantities, resampling around '
            'the mean, predictions from measurements, controls held over a step.',
            _by_task(summary.published, (LEARNER, ORACLE)),
            *_verdicts(claims.judge_published(summary)),
        ]
    if summary.bounds:
        parts += ['## Bounds', *_bounds(summary)]
    if compared := settings_lines(cells):
        parts += ['## Settings', SETTINGS_NOTE, table(SETTINGS_HEADER, compared)]
    parts += ['## Plots', *(_picture(path) for path in pictures)]
    return report.write(folder / NAME, parts)


def _origin(rows: Sequence[Row], wanted: int, provenance: Provenance) -> Iterable[str]:
    yield from report.origin(rows, wanted, provenance)
    diverged, odd = (
        sum(getattr(row, name) for row in rows) for name in ('diverged', 'degenerate')
    )
    yield f'rollouts that diverged: {diverged}; belief updates that no particle explains: {odd}.'
    yield from report.makers(rows)


def _success(summary: Summary) -> Iterable[str]:
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
    return table(['task', *names], lines)


def _time(summary: Summary, task: str, name: str) -> str:
    regret = summary.regret_s.get(task, {}).get(name)
    return f'{summary.time_s[task][name]:.2f}' + ('' if regret is None else f'; {regret}')


def _verdicts(verdicts: Sequence[Verdict]) -> Iterable[str]:
    lines = ([v.task, v.claim, f'**{v.words}**', v.numbers] for v in verdicts)
    yield table(['', 'claim', 'verdict', 'numbers'], lines)


def _ablation(summary: Summary) -> str:
    models, rollouts = (sorted({size[i] for size in summary.ablation}) for i in (0, 1))
    lines = ([f'M = {m}', *(summary.ablation.get((m, k), '-') for k in rollouts)] for m in models)
    return table(['', *(f'K = {k}' for k in rollouts)], lines)


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


def _risk(by_task: Mapping[str, Mapping[str, SuccessAndTime]]) -> Iterable[str]:
    models, rollouts = RISK_SIZE['models'], RISK_SIZE['rollouts']
    yield (
        f'EMPPI with a risk measure over models, {models} models x {rollouts} rollouts: '
        'successful runs with 95 % Wilson intervals, and median time to success in seconds (the '
        "time limit without success). `none` is the paper's update. With a risk measure all "
        f'models share their candidates: {rollouts} instead of {models * rollouts}.'
    )
    names = [n for n in MEASURES if any(n in outcomes for outcomes in by_task.values())]
    cells = {
        task: {name: f'{one.success}; {one.time_s:.2f}' for name, one in outcomes.items()}
        for task, outcomes in by_task.items()
    }
    yield _by_task(cells, names)


def _bounds(summary: Summary) -> Iterable[str]:
    yield (
        'Successful runs of MPPI with the true parameters, which are spread from bound to bound '
        f'with equal ratios. Required: at least {_percent(claims.FIRST_RUN)} % at every point.'
    )
    for task, points in summary.bounds.items():
        lines = ([name, f'{one.count}/{one.total}'] for name, one in points.items())
        yield table([task, 'mppi-true'], lines)
    yield from _verdicts(claims.judge_bounds(summary))


def _picture(path: Path) -> str:
    kind, _, task = path.stem.partition('_')
    caption = CAPTIONS.get(path.stem) or CAPTIONS[kind].format(task=task.replace('_', ' '))
    return report.picture(path, caption)
