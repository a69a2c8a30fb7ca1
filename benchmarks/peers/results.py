"""The report `results.md`: all numbers, the machine and the command."""

from collections.abc import Iterable, Sequence
from pathlib import Path
import statistics

from benchmarks.peers import plots
from benchmarks.peers.compute import FINAL_PARTS, PARTS
from benchmarks.peers.planners import FIXED, LEARNER
from benchmarks.peers.rows import TABLE, PeerRow
from benchmarks.peers.summary import PeerSummary
from benchmarks.peers.tasks import WORLDS
from emppi_ros.calibration import report
from emppi_ros.calibration.report import Provenance, table
from emppi_ros.calibration.statistics import Mean

NAME = 'results.md'
METHOD = (
    "The tasks are Judo's and dm_control's: their model files, their reward functions (means "
    'over physics steps), and start states drawn by seed. All planners have the same rollouts, '
    'physics steps in a rollout, threads, planning rate and exact measurements of the state; '
    'plans take no simulated time. All but Hydrax plan with the same physics and time step.',
    '- `emppi` starts from the prior in its task file, learns online, and shares its rollouts '
    'among its models. `mppi` is the same planner with the model file only.\n'
    "- Judo's optimizers (`judo-rai`) have Judo's own settings of these tasks, on dm_control's "
    'cart-pole those of its own (zero-order splines with 4 knots). `judo-mppi-wide` has a noise '
    'of 1.0 in place of 0.1.\n'
    '- `pytorch-mppi` steps the same physics batch, one planning period at a time, with white '
    'noise over these steps.\n'
    '- `hydrax` is the MPPI of Hydrax. It plans with MJX, in single precision on the processor. '
    '`hydrax-random` has 8 models drawn from the prior, as `emppi`, weighs 4 candidates by their '
    'mean cost, and does not learn. MJX has no collision of cylinder and box, so that both plan '
    "Judo's cart-pole only.",
    'Noise and temperature of `emppi`, `mppi`, `judo-mppi-wide`, `pytorch-mppi` and `hydrax` were '
    "chosen on seeds 0 to 3 of Judo's tasks (8 settings of `pytorch-mppi` on the cart-pole, 5 on "
    "the cylinder push; 3 of `hydrax`). On Judo's cart-pole no other noise of `judo-mppi` than "
    "its own was better. On dm_control's cart-pole `pytorch-mppi` has the better of 2 settings on "
    'seeds 0 and 1; `emppi` and `mppi` have the first that were tried. The reward there is a '
    "product. Judo's planners and "
    '`pytorch-mppi` plan with it; `emppi` and `mppi` with the sum of costs in the task file. The '
    'noise of `emppi` and `mppi` adapts; docs/results_noise_adaptation.md lists what else was '
    'tried.',
)
NOT_TAKEN = (
    '## Tasks left out',
    "- Judo's `fr3_pick` and `leap_cube`: Judo downloads their meshes at first use, and the "
    'reward of `fr3_pick` depends on phases, which it derives from contact sensors.\n'
    "- dm_control's cheetah: its reward has a target of a velocity, which no residual has. Ball "
    'in cup: its reward is 0 except in the cup, so that most sampled plans are equally good.',
)
COLUMNS = (
    '- reward: mean of a run; 95 % interval (BCa bootstrap over seeds).\n'
    f'- at the end: the same, of the last {100 * FINAL_PARTS // PARTS} % of the run.\n'
    f'- `{LEARNER}` is better by: its reward minus that of the planner, paired by seed.\n'
    "- success: runs that reach the goal of the task file (cylinder push: Judo's own condition); "
    '95 % Wilson interval.\n'
    '- time: median time to success [s]; inf: less than half of the runs succeed.\n'
    '- plan: median processor time of a plan [ms], of all threads.\n'
    '- / stepping: median ratio of a plan to stepping the very same rollouts with nothing '
    'recorded, in interleaved pairs.\n'
    '- learning: median processor time of a belief update [ms], which is not part of a plan.'
)
_HEADER = (
    'planner', 'reward', 'at the end', f'`{LEARNER}` is better by', 'success', 'time', 'plan',
    '/ stepping', 'learning',
)  # fmt: skip


def write(
    folder: Path,
    rows: Sequence[PeerRow],
    groups: Sequence[PeerSummary],
    wanted: int,
    provenance: Provenance,
) -> list[Path]:
    """Write the plots and the report of some of the wanted runs, and return the paths."""
    durations = {row.task: row.limit_s for row in rows}
    *rewards, ratio = plots.write_all(groups, durations, folder)
    seeds, makers = sorted({row.seed for row in rows}), {row.made_by for row in rows}
    parts = [
        '# Other planners, on their own tasks',
        *report.origin(rows, wanted, provenance),
        f'{len(seeds)} seeds ({seeds[0]} to {seeds[-1]}), {rows[0].rollouts} rollouts, '
        f'{rows[0].threads} thread(s). Computed by {"; ".join(sorted(makers))}.',
        *METHOD,
        report.bullets(f'world `{name}`: {world.description}.' for name, world in WORLDS.items()),
        COLUMNS,
        f'The numbers of each run are in `{TABLE}`.',
        '## Where another planner is better',
        '\n'.join([*_better(groups), *_lighter(groups)]) or 'Nowhere, as far as these runs tell.',
    ]
    for name, picture in zip(durations, rewards, strict=True):
        caption = f'Mean reward over time, and the 95 % interval of that of {LEARNER}.'
        parts += [f'## {name.replace("_", " ")}', report.picture(picture, caption)]
        of_task = sorted({row.seed for row in rows if row.task == name})
        if of_task != seeds:
            parts.append(f'Only seeds {", ".join(map(str, of_task))}.')
        for world in WORLDS:
            of_world = [one for one in groups if (one.task, one.world) == (name, world)]
            if of_world:
                parts += [f'### {world}', _truths(rows, name, world)]
                parts.append(table(_HEADER, map(_line, of_world)))
    caption = 'Time of a plan relative to stepping its rollouts, one point for each world.'
    parts += ['## Time of a plan', report.picture(ratio, caption)]
    parts += [*_own_engines(groups), *NOT_TAKEN]
    return [*rewards, ratio, report.write(folder / NAME, parts)]


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
    found: dict[str, list[float]] = {}
    for group in groups:
        ratio = getattr(group, name)
        if group.task == task and ratio is not None:
            found.setdefault(group.planner, []).append(ratio.median)
    return {planner: statistics.median(values) for planner, values in found.items()}


def _truths(rows: Sequence[PeerRow], task: str, world: str) -> str:
    """Return what the belief found at the end of the runs, in one sentence for each parameter."""
    learned = [row for row in rows if (row.task, row.world, row.planner) == (task, world, LEARNER)]
    sentences = []
    for name in learned[0].parameters if learned else ():
        found = [row.parameters[name] for row in learned]
        true = sorted({one.true for one in found})
        span = f'{true[0]:.3g}' if len(true) == 1 else f'{true[0]:.3g} to {true[-1]:.3g}'
        errors = sorted(abs(one.mean - one.true) / abs(one.true) for one in found)
        sentences.append(
            f'True `{name}`: {span} {found[0].unit}. The estimates of `{LEARNER}` at the end are '
            f'off by {100 * errors[len(errors) // 2]:.1f} % in the median run, '
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
