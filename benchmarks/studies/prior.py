"""
`emppi bench prior`: EMPPI with an identified prior, compared with the wide prior of the task.

Each seed is a system. Its first run is recorded by simulated sensors at 1 kHz, as on a Panda. A
prior is identified from that recording; the belief at its end is a second prior, and the truth is
a third, a bound for all methods. Then EMPPI runs with each prior on the same system, with the same
new noise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
import functools
import itertools
import time
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks import runner
from benchmarks.paper.cells import changed, task_digest
from benchmarks.study import Axis, Cells, Page, Results, Run, Selection, Study, grouped
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.app.synthetic_recording import sensor_signals
from emppi_ros.app.trace import Trace
from emppi_ros.calibration import hardware, report
from emppi_ros.cli import output
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identification import methods
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import RunSettings
from emppi_ros.priors import prior_file
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.recordings.recordings import Recording
from emppi_ros.tasks.task import Task, parse_task, task_text

Array = npt.NDArray[np.float64]
TASKS = ('cartpole_swingup', 'fr3_follow', 'panda_push', 'arm_lift')
PRIORS = WIDE, SAVED, IDENTIFIED, TRUE = 'wide', 'saved', 'identified', 'true'
# identified by `filter` (contact, dry friction); others by `states`
FILTERED = ('panda_push', 'arm_lift')
STEP_S = 1e-3  # of recordings and of the model; larger steps bias the estimate
_ARM = ASSETS / 'arm_lift.yaml'  # a scenario, not a packaged task
_DRAWS = 2000
QUICK_S = 0.5
_SECOND_SEED = 10_000  # added to the seed for the second runs


@dataclass(frozen=True)
class PriorRun(Run):
    """A system (task and seed), and the numbers of models to plan with."""

    task: str
    seed: int
    models: tuple[int, ...]  # 0: that of the task


@dataclass(frozen=True)
class PriorCell(PriorRun):
    """A system to run."""

    text: str = field(repr=False)  # the task's YAML

    @property
    def digest(self) -> str:
        """The digest of the task's settings."""
        return task_digest(self.text)


@dataclass(frozen=True)
class EpisodeResult:
    """Outcome of one run of EMPPI."""

    task: str
    seed: int
    prior: str
    models: int
    success: bool
    time_s: float  # until success, or the time limit


@dataclass(frozen=True)
class PriorAccuracy:
    """Accuracy of a prior for one parameter."""

    task: str
    seed: int
    prior: str
    parameter: str
    truth: float
    mean: float
    sd: float
    within: bool  # whether the truth is within the central 90 %


@dataclass(frozen=True)
class PriorRow(PriorRun):
    """All results of one system."""

    digest: str
    episodes: tuple[EpisodeResult, ...]
    accuracies: tuple[PriorAccuracy, ...]
    failed: str  # error message if identification failed
    compute_s: float
    made_by: str


def learn(task: Task, trace: Trace, seed: int) -> PriorFile:
    """Return the prior identified from a recorded run; IdentificationError if none is."""
    signals = {(one.kind, one.of): one for one in sensor_signals(task, trace)}
    recording = Recording(signals, ())
    plant, name = Plant.from_task(task), 'filter' if task.name in FILTERED else 'states'
    if name == 'states':
        plant.model.opt.timestep = STEP_S
    method, run = methods.load(name), RunSettings(seed=seed)
    result = method.identify(plant, [recording], method.options(), run)
    return result.to_prior(name, plant, [recording])


def compute(cell: PriorCell) -> PriorRow:
    """
    Return runs of a system with each prior and number of models, and the accuracy of each prior.

    The total number of rollouts is fixed: fewer models have more rollouts each. Without an
    identified prior only the others run.
    """
    began, name, seed = time.perf_counter(), cell.task, cell.seed
    task = parse_task(cell.text, name)
    loop = ClosedLoop(task, seed)
    first = loop.run()
    truth = dict(zip([p.name for p in task.parameters], first.truth.tolist(), strict=True))
    failed = ''
    files = {SAVED: prior_file.from_belief(task.name, task.parameters, loop.filter.belief)}
    try:
        files[IDENTIFIED] = learn(task, first, seed)
    except IdentificationError as error:
        failed = f'{name}, seed {seed}: {error}'
    files[TRUE] = _true_prior(task, truth)
    priors = {WIDE: ''} | {kind: prior_file.to_yaml(f, kind) for kind, f in files.items()}
    known = [
        one
        for kind, prior in priors.items()
        for one in _accuracy(task.with_prior_text(prior, kind), seed, kind, first.truth)
    ]
    runs = []
    for count, (kind, prior) in itertools.product(cell.models, priors.items()):
        again = parse_task(_with_models(cell.text, task, count), name).with_prior_text(prior, kind)
        trace = ClosedLoop(again, seed + _SECOND_SEED, truth=truth).run()
        time_s = task.file.duration_s if trace.success_time is None else trace.success_time
        runs.append(
            EpisodeResult(task.name, seed, kind, again.planner.models, trace.success, time_s)
        )
    return PriorRow(
        **cell.identity,
        digest=cell.digest,
        episodes=tuple(runs),
        accuracies=tuple(known),
        failed=failed,
        compute_s=time.perf_counter() - began,
        made_by=hardware.label(),
    )


def _accuracy(task: Task, seed: int, kind: str, truth: Array) -> Iterator[PriorAccuracy]:
    """Yield the accuracy of a task's prior, given the true parameters (P,)."""
    draws = task.prior.sample(_DRAWS, np.random.default_rng(seed))
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    within = (low <= truth) & (truth <= high)
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    for i, p in enumerate(task.parameters):
        row = float(truth[i]), float(mean[i]), float(sd[i]), bool(within[i])
        yield PriorAccuracy(task.name, seed, kind, p.name, *row)


def _true_prior(task: Task, truth: Mapping[str, float]) -> PriorFile:
    """Return a prior fixed at the true parameters."""
    fixed = {
        p.name: ParameterPrior(p.unit, prior=Prior('fixed', value=truth[p.name]))
        for p in task.parameters
    }
    return PriorFile(TRUE, (), fixed)


def _with_models(text: str, task: Task, models: int) -> str:
    """Return a task's YAML with another number of models and the same total of rollouts."""
    if not models:
        return text
    rollouts = max(task.planner.models * task.planner.rollouts // models, 1)
    return changed(text, {'planner': {'models': models, 'rollouts': rollouts}})


class PriorStudy(Study[PriorCell, PriorRow]):
    """EMPPI with an identified prior against EMPPI with the task's own."""

    name = 'prior'
    help = 'value of an identified prior for EMPPI'
    description = """
Run EMPPI on the same systems with the task's own prior, with one that is identified from a first
run, with the belief at the end of that run, and with the truth.
"""
    row = PriorRow
    axes: ClassVar[Mapping[str, Axis]] = {'tasks': Axis('task', (), TASKS, 'by name or YAML file')}
    seeds = range(10)
    quick = f'one system of each task, {QUICK_S} s a run'
    outdated_by = 'task settings'

    def add_options(self, parser: Any) -> None:
        """Add the numbers of models."""
        parser.add_argument(
            '--models',
            metavar='M',
            nargs='+',
            type=output.whole,
            default=[0, 1],
            help="models of the planner; 0: the task's own number (0 1)",
        )

    def cells(self, selection: Selection) -> Cells:
        """Return a cell for each task and seed."""
        cells = []
        for name in selection.names['tasks']:
            text = task_text(str(_ARM) if name == _ARM.stem else name)
            text = changed(text, {'simulation': {'joint_state_rate_hz': 1.0 / STEP_S}})
            if selection.quick:
                text = changed(text, {'duration_s': QUICK_S})
            task, models = parse_task(text, name).name, tuple(selection.options.models)
            cells += [PriorCell(task, seed, models, text) for seed in selection.seeds]
        return Cells(cells)

    def compute(self, cell: PriorCell) -> PriorRow:
        """Return the results of a system."""
        return compute(cell)

    def page(self, results: Results) -> Page:
        """Return success and time with each prior, and the accuracy of the priors."""
        rows: Sequence[PriorRow] = results.rows
        episodes = [episode for row in rows for episode in row.episodes]
        accuracies = [one for row in rows for one in row.accuracies]
        summaries, priors = summarize_episodes(episodes), compare_priors(accuracies)
        failed = [row.failed for row in rows if row.failed]
        values = {
            'episodes': _table(summaries),
            'priors': _table(priors),
            'failed': report.bullets(failed),
            'systems': len(rows),
        }
        lines = (
            f'{row["task"]:18} {row["models"]:6} {row["prior"]:>10} {row["successes"]:>3} of '
            f'{row["runs"]:<2} median {row["median_s"]:6.2f} s, {row["less_s"]:6.2f} s sooner'
            for row in summaries
        )
        data = {
            'rows': summaries,
            'priors': priors,
            'not_identified': failed,
            'runs': [asdict(episode) for episode in episodes],
            'known': [asdict(accuracy) for accuracy in accuracies],
        }
        return Page(values, {}, (), lines, data)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of the same keys as a table."""
    if not rows:
        return ''
    lines = [[f'{x:.3g}' if isinstance(x, float) else x for x in row.values()] for row in rows]
    return report.table([name.replace('_', ' ') for name in rows[0]], lines)


def compare_priors(known: Sequence[PriorAccuracy]) -> list[dict[str, Any]]:
    """Return rms error, sd and coverage of each prior, by parameter."""
    cells = grouped(known, 'task', 'parameter', 'prior')
    return [
        {
            'task': task,
            'parameter': name,
            'prior': prior,
            'systems': len(cell),
            'error': float(np.sqrt(np.mean([(k.mean - k.truth) ** 2 for k in cell]))),
            'sd': float(np.sqrt(np.mean([k.sd**2 for k in cell]))),
            'within': sum(k.within for k in cell),
        }
        for (task, name, prior), cell in cells.items()
    ]


def summarize_episodes(episodes: Sequence[EpisodeResult]) -> list[dict[str, Any]]:
    """
    Return success and time by task, number of models, and prior.

    `less_s` is the mean time saved on the same systems compared with the wide prior; `less_sd_s`
    is its standard error, NaN for a single system.
    """
    rows = []
    wide = {(one.task, one.models, one.seed): one.time_s for one in episodes if one.prior == WIDE}
    cells = grouped(episodes, 'task', 'models', 'prior')
    for (task, models, prior), cell in cells.items():
        times = [one.time_s for one in cell]
        less = np.array([wide[task, models, one.seed] - one.time_s for one in cell])
        spread = np.std(less, ddof=1) if len(less) > 1 else np.nan
        rows.append(
            {
                'task': task,
                'models': models,
                'prior': prior,
                'runs': len(cell),
                'successes': sum(one.success for one in cell),
                'median_s': float(np.median(times)),
                'mean_s': float(np.mean(times)),
                'less_s': float(less.mean()),
                'less_sd_s': float(spread / np.sqrt(len(less))),
                'sooner': int((less > 0.0).sum()),
            }
        )
    return rows


STUDY = PriorStudy()
add_command = functools.partial(runner.add_command, STUDY)
