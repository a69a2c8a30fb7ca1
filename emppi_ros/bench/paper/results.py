"""The report: `results.md`, with every number, and the machine and command they come from."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from emppi_ros.bench.paper import claims, settings
from emppi_ros.bench.paper.cells import (
    CONTROLLERS,
    LEARNER,
    ORACLE,
    RISK_MEASURES,
    RISK_SIZE,
    Cell,
)
from emppi_ros.bench.paper.claims import Verdict
from emppi_ros.bench.paper.measures import Outcome
from emppi_ros.bench.paper.rows import Row
from emppi_ros.bench.paper.summary import Summary
from emppi_ros.bench.statistics import Share
from emppi_ros.model.uncertain_joints import MOVED_M

NAME = 'results.md'
CAPTIONS = {
    'success': 'Success of first runs, by task and controller.',
    'regret': 'Time lost against MPPI that knows the true parameters.',
    'squared_error': "Squared error of the parameters over time (the paper's Fig. 3).",
    'learning': 'Squared error of the parameters in runs that go on after success.',
    'goals': "Goals reached over time (the paper's Fig. 4).",
    'ablation': 'Success on the cart-pole over the number of models and rollouts.',
    'calibration': 'How often the 90 % intervals hold the true value.',
    'estimates': 'Estimates of the parameters over time: {task}.',
    'articulation': 'What EMPPI believes of the joint in its first run, an arrow a particle: '
    "{task} (the paper's Fig. 2 and 6).",
    'plan_time': 'Wall time of a plan, and the period in which real time needs one.',
}


def _percent(share: float) -> str:
    return f'{100.0 * share:.0f}'


BOUNDS = (
    f'Success from the first run: at least {_percent(claims.FIRST_RUN)} % of the runs. Like the '
    f'oracle: at most {_percent(claims.NEAR_ORACLE)} percentage points fewer than with the true '
    f'parameters. A wrong model fails below {_percent(claims.FIRST_RUN)} %. Where targets follow '
    'one another, attempts are compared, not runs. Estimates converge: '
    f'at most {_percent(claims.LEFT_OVER)} % of the squared parameter error is left at the end, '
    'medians over runs. That of a joint whose axis is open is the squared angle to its true axis '
    '[rad^2] and the squared distance of its pivot from the true hinge line [m^2]; that of one '
    'of a few axes is the squared probability of the wrong ones. The type of a joint is slide or '
    'hinge, or which of a few axes it has; looked at is the first belief after the body that '
    f'hangs on it has moved {100.0 * MOVED_M:g} cm.'
)


class Origin(NamedTuple):
    """Where the numbers come from."""

    command: str
    date: str
    machine: Mapping[str, str]
    quick: bool = False


def write(
    folder: Path,
    rows: Sequence[Row],
    summary: Summary,
    origin: Origin,
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
            'motion without control, true values drawn from the prior. It is to be between '
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
            'particles, one variance of the likelihood for all that is compared, resampling '
            'around the mean, predictions from what was measured, controls held over a step.',
            _shares(summary.published, (LEARNER, ORACLE)),
            *_verdicts(claims.judge_published(summary)),
        ]
    if compared := settings.lines(cells):
        parts += ['## Settings', settings.NOTE, _table(settings.HEADER, compared)]
    parts += ['## Plots', *(_picture(path) for path in pictures)]
    path = folder / NAME
    path.write_text('\n\n'.join(parts) + '\n', encoding='utf-8')
    return path


def _origin(rows: Sequence[Row], wanted: int, origin: Origin) -> Iterable[str]:
    if origin.quick:
        yield '**A quick run: it shows that everything works, and is no evidence of anything.**'
    yield f'```\n{origin.command}\n```'
    yield _table(['', ''], [[name, value] for name, value in origin.machine.items()])
    seconds = sum(row.compute_s for row in rows)
    count = f'{len(rows)} of {wanted}' if len(rows) < wanted else str(wanted)
    yield f'{origin.date}. {count} runs, {seconds / 60.0:.1f} minutes of computing.'
    odd = {
        'rollouts that diverged': 'diverged',
        'belief updates that no particle explains': 'degenerate',
    }
    yield (
        '; '.join(f'{words}: {sum(getattr(r, n) for r in rows)}' for words, n in odd.items()) + '.'
    )
    makers = Counter(row.made_by for row in rows)
    if len(makers) > 1:
        yield 'Not all rows were made by the same version on the same machine:'
        yield '\n'.join(f'- {count} by {maker}' for maker, count in makers.items())


def _success(summary: Summary) -> Iterable[str]:
    names = [n for n in CONTROLLERS if any(n in found for found in summary.success.values())]
    yield 'Runs that succeed, with 95 % Wilson intervals.'
    yield _shares(summary.success, names)
    if summary.attempts:
        yield 'Attempts that reached their target, of all runs (those of one run hang together).'
        yield _shares(summary.attempts, names)
    yield (
        'Time to success in seconds, at the median, all the time counted where there is none; and '
        'how much longer than the oracle takes with the same seed (mean, 95 % bootstrap interval).'
    )
    yield _table(
        ['task', *names],
        [[task, *(_time(summary, task, name) for name in names)] for task in summary.success],
    )


def _shares(found: Mapping[str, Mapping[str, Share]], names: Sequence[str]) -> str:
    lines = [[task, *(shares.get(name, '-') for name in names)] for task, shares in found.items()]
    return _table(['task', *names], lines)


def _time(summary: Summary, task: str, name: str) -> str:
    if name not in summary.time_s[task]:
        return '-'
    regret = summary.regret_s.get(task, {}).get(name)
    return f'{summary.time_s[task][name]:.2f}' + ('' if regret is None else f'; {regret}')


def _verdicts(verdicts: Sequence[Verdict]) -> Iterable[str]:
    yield _table(
        ['', 'claim', 'verdict', 'numbers'],
        [[v.task, v.claim, f'**{v.words}**', v.numbers] for v in verdicts],
    )


def _ablation(summary: Summary) -> str:
    models, rollouts = (sorted({size[i] for size in summary.ablation}) for i in (0, 1))
    return _table(
        ['', *(f'K = {k}' for k in rollouts)],
        [[f'M = {m}', *(summary.ablation.get((m, k), '-') for k in rollouts)] for m in models],
    )


def _risk(found: Mapping[str, Mapping[str, Outcome]]) -> Iterable[str]:
    models, rollouts = RISK_SIZE['models'], RISK_SIZE['rollouts']
    yield (
        f'EMPPI whose plans are weighed by a measure of risk over models, {models} models x '
        f'{rollouts} rollouts for all: runs that succeed, with 95 % Wilson intervals, and time to '
        'success in seconds, at the median, all the time counted where there is none. `none` is '
        "the paper's update. With a measure all models share their plans: "
        f'{rollouts} to choose among, in place of {models * rollouts}.'
    )
    names = [name for name in RISK_MEASURES if any(name in one for one in found.values())]
    yield _table(
        ['task', *names],
        [
            [task, *(f'{o.success}; {o.time_s:.2f}' if (o := one.get(n)) else '-' for n in names)]
            for task, one in found.items()
        ],
    )


def _picture(path: Path) -> str:
    kind, _, task = path.stem.partition('_')
    caption = CAPTIONS.get(path.stem) or CAPTIONS[kind].format(task=task.replace('_', ' '))
    return f'![{caption}]({path.name})\n\n{caption}'


def _table(header: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    rows = [header, ['---'] * len(header), *lines]
    return '\n'.join('| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows)
