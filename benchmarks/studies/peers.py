"""`emppi bench peers`: planners of other people against this one, on their tasks."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
import statistics
from typing import Any, ClassVar

from benchmarks.means import Mean
from benchmarks.peers import judo, runs, summary
from benchmarks.peers.compute import FINAL_PARTS, PARTS, compute
from benchmarks.peers.planners import FIXED, LEARNER, PEERS
from benchmarks.peers.runs import PEER_TASKS, QUICK_S, WORLDS, PeerCell, PeerRow
from benchmarks.peers.summary import PeerSummary
from benchmarks.study import Axis, Cells, Page, Results, Selection, Study, described, grouped
from emppi_ros.calibration import report
from emppi_ros.calibration.report import table
from emppi_ros.cli import output

ROLLOUTS, THREADS = 32, 1  # 32: Judo's own number for these tasks
_COLUMNS = (
    'task', 'world', 'planner', 'seed', 'rollouts', 'threads', 'reward', 'final_reward', 'success',
    'time_s', 'limit_s', 'plan_ms', 'stepping_ms', 'ratio', 'own_ratio', 'observe_ms', 'compute_s',
    'made_by', 'digest',
)  # fmt: skip
_HEADER = (
    'planner', 'reward', 'at the end', f'`{LEARNER}` is better by', 'success', 'time', 'plan',
    '/ stepping', 'learning',
)  # fmt: skip


class PeersStudy(Study):
    """Planners on the tasks of other people, in the same closed loop."""

    name = 'peers'
    help = "other people's planners against this one, on their tasks"
    description = """
Compare planners of other people with this one: reward over time, success, and time of a plan, on
their tasks, with their models and rewards, in the same closed loop. `make peers` installs them in
an environment of its own, and runs this there.
"""
    row = PeerRow
    compute = staticmethod(compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'tasks': Axis('task', PEER_TASKS),
        'worlds': Axis('world', WORLDS, help=described(WORLDS)),
        'planners': Axis('planner', PEERS),
    }
    seeds = range(10, 20)  # settings were chosen on seeds 0 to 3
    quick = f'one seed, {QUICK_S} s a run'
    outdated_by = 'task settings or beliefs'
    parallel = False

    def add_options(self, parser: Any) -> None:
        """Add the size of a plan."""
        for name, default in (('rollouts', ROLLOUTS), ('threads', THREADS)):
            parser.add_argument(
                f'--{name}',
                metavar='N',
                type=output.count,
                default=default,
                help=f'{name} of each planner ({default})',
            )

    def cells(self, selection: Selection) -> Cells:
        """
        Return all cells, ordered by seed.

        ConfigError if a task's models cannot share the rollouts; BenchError without Judo.
        """
        judo.version()  # the models of the tasks are in it
        options, names = selection.options, selection.names
        size = options.rollouts, options.threads
        texts = {name: runs.sized_text(name, *size, selection.quick) for name in names['tasks']}
        return Cells(
            [
                PeerCell(task, world, planner, seed, *size, texts[task])
                for seed in selection.seeds
                for task in names['tasks']
                for world in names['worlds']
                for planner in names['planners']
                if task in (PEERS[planner].tasks or names['tasks'])
            ]
        )

    def page(self, results: Results) -> Page:
        """Return where others are better, and a table for each task and world."""
        rows: Sequence[PeerRow] = results.rows
        groups = summary.summarize(rows)
        seeds = sorted({row.seed for row in rows})
        durations = {row.task: row.limit_s for row in rows}
        figures = summary.write_plots(groups, durations, results.folder)
        better = [*_better(groups), *_lighter(groups)]
        against = [group for group in groups if group.behind is not None]
        values = {
            'count': len(against),
            'ahead': sum(group.behind.mean > 0.0 for group in against if group.behind),
            'better': '\n'.join(better) or 'Nowhere, as far as these runs tell.',
            'tasks': [
                text
                for name, figure in zip(durations, figures, strict=False)
                for text in _task(name, rows, groups, figure)
            ],
            'own_engines': list(_own_engines(groups)),
            'seeds': f'{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})',
            'makers': '; '.join(sorted({row.made_by for row in rows})),
            'rollouts': rows[0].rollouts,
            'threads': rows[0].threads,
            'worlds': report.bullets(f'world `{n}`: {w.description}.' for n, w in WORLDS.items()),
            'final': 100 * FINAL_PARTS // PARTS,
        }
        lines = ([getattr(row, name) for name in _COLUMNS] for row in rows)
        data = {'groups': list(map(summary.as_json, groups))}
        tables = {'table.csv': (_COLUMNS, lines)}
        return Page(values, tables, figures, summary.lines(groups), data)


def _task(
    name: str, rows: Sequence[PeerRow], groups: Sequence[PeerSummary], figure: Path
) -> Iterable[str]:
    """Yield the paragraphs about a task."""
    yield f'## {name.replace("_", " ")}'
    yield report.picture(
        figure, f'Mean reward over time, and the 95 % interval of that of {LEARNER}.'
    )
    of_task = sorted({row.seed for row in rows if row.task == name})
    if of_task != sorted({row.seed for row in rows}):
        yield f'Only seeds {", ".join(map(str, of_task))}.'
    by_world = grouped([group for group in groups if group.task == name], 'world')
    for world, planners in by_world.items():
        yield f'### {world}'
        yield _truths(rows, name, world)
        yield table(_HEADER, map(_line, planners))


def _better(groups: Sequence[PeerSummary]) -> Iterable[str]:
    """Yield a line for each planner that is better, with its whole 95 % interval."""
    for group in groups:
        for what, behind in (('', group.behind), (' at the end', group.final_behind)):
            if behind is not None and behind.high is not None and behind.high < 0.0:
                yield (
                    f'- {group.task}, {group.world}: `{group.planner}` has {-behind:.3g} more '
                    f'reward than `{LEARNER}`{what}.'
                )


def _lighter(groups: Sequence[PeerSummary]) -> Iterable[str]:
    """Yield a line for each task where others' plans take less time, relative to stepping."""
    for task in dict.fromkeys(group.task for group in groups):
        ratios = {name: round(x, 2) for name, x in _ratios(groups, task, 'ratio').items()}
        own = ratios.pop(LEARNER, 0.0)
        less = [f'`{name}` ({x:.2f})' for name, x in ratios.items() if x < own and name != FIXED]
        if less:
            yield (
                f'- {task}: relative to stepping their rollouts, plans of {", ".join(less)} take '
                f'less time than those of `{LEARNER}` ({own:.2f}; medians over worlds).'
            )


def _own_engines(groups: Sequence[PeerSummary]) -> Iterable[str]:
    """Yield a sentence for each planner that has a physics engine of its own."""
    for task in dict.fromkeys(group.task for group in groups):
        for name, ratio in _ratios(groups, task, 'own_ratio').items():
            yield (
                f'{task}: a plan of `{name}` takes {ratio:.2f} times as long as only stepping its '
                'rollouts with its own physics engine (median over worlds).'
            )


def _ratios(groups: Sequence[PeerSummary], task: str, name: str) -> dict[str, float]:
    """Return the median over worlds of a ratio, by planner; without planners that lack it."""
    by_planner: dict[str, list[float]] = {}
    for group in groups:
        ratio = getattr(group, name)
        if group.task == task and ratio is not None:
            by_planner.setdefault(group.planner, []).append(ratio.median)
    return {planner: statistics.median(values) for planner, values in by_planner.items()}


def _truths(rows: Sequence[PeerRow], task: str, world: str) -> str:
    """Return what the belief found at the end of the runs, in one sentence for each parameter."""
    learned = [row for row in rows if (row.task, row.world, row.planner) == (task, world, LEARNER)]
    sentences = []
    for name in learned[0].parameters if learned else ():
        estimates = [row.parameters[name] for row in learned]
        true = sorted({estimate.true for estimate in estimates})
        span = f'{true[0]:.3g}' if len(true) == 1 else f'{true[0]:.3g} to {true[-1]:.3g}'
        errors = sorted(
            abs(estimate.mean - estimate.true) / abs(estimate.true) for estimate in estimates
        )
        sentences.append(
            f'True `{name}`: {span} {estimates[0].unit}. '
            f'The estimates of `{LEARNER}` at the end are off by '
            f'{100 * errors[len(errors) // 2]:.1f} % in the median run, '
            f'{100 * errors[-1]:.1f} % in the worst.'
        )
    return ' '.join(sentences)


def _line(group: PeerSummary) -> list[object]:
    return [
        f'`{group.planner}`',
        *map(_mean, (group.reward, group.final_reward, group.behind)),
        group.success,
        f'{group.time_s.median:.3g}',
        f'{group.plan_ms.median:.2f}',
        f'{group.ratio.median:.2f}',
        f'{group.observe_ms.median:.2f}' if group.planner == LEARNER else '-',
    ]


def _mean(value: Mean | None) -> str:
    """Return a mean with its interval, with three digits: rewards are small."""
    return '-' if value is None else f'{value:.3g}'


STUDY = PeersStudy()
