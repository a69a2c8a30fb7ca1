"""
Study `prior`: EMPPI with an identified prior, compared with the wide prior of the task.

Each seed is a system. Its first run is recorded by simulated sensors at 1 kHz, as on a Panda. A
prior is identified from that recording; the belief at its end is a second prior, and the truth is
a third, a bound for all methods. Then EMPPI runs with each prior on the same system, with the same
new noise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
import itertools
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.identify.study import Study, StudySettings
from benchmarks.paper.cells import changed
from benchmarks.paper.summary import group
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.app.synthetic_recording import sensor_signals
from emppi_ros.app.trace import Trace
from emppi_ros.core.config import key
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify import methods
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.methods import RunSettings
from emppi_ros.parallel import workers
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
_SECOND_SEED = 10_000  # added to the seed for the second runs


class StudySystem(NamedTuple):
    """A system (task and seed), and the numbers of models to plan with."""

    task: str
    seed: int
    models: tuple[int, ...]  # 0: that of the task


class EpisodeResult(NamedTuple):
    """Outcome of one run of EMPPI."""

    task: str
    seed: int
    prior: str
    models: int
    success: bool
    time_s: float  # until success, or the time limit


class PriorAccuracy(NamedTuple):
    """Accuracy of a prior for one parameter."""

    task: str
    seed: int
    prior: str
    parameter: str
    truth: float
    mean: float
    sd: float
    within: bool  # whether the truth is within the central 90 %


class SystemResults(NamedTuple):
    """All results of one system."""

    system: StudySystem
    episodes: tuple[EpisodeResult, ...]
    accuracies: tuple[PriorAccuracy, ...]
    failed: str  # error message if identification failed


def learn(task: Task, trace: Trace, seed: int, threads: int = 0) -> PriorFile:
    """Return the prior identified from a recorded run; IdentificationError if none is."""
    signals = {(one.kind, one.of): one for one in sensor_signals(task, trace)}
    recording = Recording(signals, ())
    plant, name = Plant.from_task(task), 'filter' if task.name in FILTERED else 'states'
    if name == 'states':
        plant.model.opt.timestep = STEP_S
    method, run = methods.load(name), RunSettings(seed=seed, threads=threads)
    result = method.identify(plant, [recording], method.options(), run)
    return result.to_prior(name, plant, [recording])


def measure(system: StudySystem, threads: int | None = None) -> SystemResults:
    """
    Return runs of a system with each prior and number of models, and the accuracy of each prior.

    The total number of rollouts is fixed: fewer models have more rollouts each. Without an
    identified prior only the others run. `threads` replaces the setting of the task and only
    changes timing.
    """
    name, seed = system.task, system.seed
    text = task_text(str(_ARM) if name == _ARM.stem else name)
    text = changed(text, {'simulation': {'joint_state_rate_hz': 1.0 / STEP_S}})
    if threads is not None:
        text = changed(text, {'planner': {'threads': threads}})
    task = parse_task(text, name)
    loop = ClosedLoop(task, seed)
    first = loop.run()
    truth = dict(zip([p.name for p in task.parameters], first.truth.tolist(), strict=True))
    failed = ''
    files = {SAVED: prior_file.from_belief(task.name, task.parameters, loop.filter.belief)}
    try:
        files[IDENTIFIED] = learn(task, first, seed, threads or 0)
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
    for count, (kind, prior) in itertools.product(system.models, priors.items()):
        again = parse_task(_with_models(text, task, count), name).with_prior_text(prior, kind)
        trace = ClosedLoop(again, seed + _SECOND_SEED, truth=truth).run()
        time_s = task.file.duration_s if trace.success_time is None else trace.success_time
        runs.append(
            EpisodeResult(task.name, seed, kind, again.planner.models, trace.success, time_s)
        )
    return SystemResults(system, tuple(runs), tuple(known), failed)


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


@dataclass(frozen=True)
class PriorStudyOptions:
    """Options of the study `prior`."""

    tasks: list[str] = key(list(TASKS), doc='tasks')
    seeds: range = key(range(10), doc='number of systems per task, or their seeds, such as 50-59')
    models: list[int] = key(
        [0, 1],
        check=lambda models: min(models) >= 0,
        allowed='non-negative integers',
        doc="models of the planner; 0: the task's own number",
    )


class PriorStudy(Study):
    """EMPPI with an identified prior against EMPPI with the task's own."""

    description = 'value of an identified prior for EMPPI'
    options = PriorStudyOptions
    parallel = True

    def run(self, options: PriorStudyOptions, settings: StudySettings) -> dict[str, Any]:
        """Return episodes with each prior, and the accuracy of the priors."""
        workers.check(settings.jobs, settings.scheduler)
        models = tuple(options.models)
        systems = [
            StudySystem(task, seed, models) for task in options.tasks for seed in options.seeds
        ]
        done: list[SystemResults] = []
        with settings.progress('prior', len(systems), 'systems') as advance:
            for one in workers.spread(measure, systems, settings.jobs, settings.scheduler):
                done.append(one)
                advance(len(done))
        done.sort(key=lambda one: systems.index(one.system))
        episodes = [episode for one in done for episode in one.episodes]
        accuracies = [row for one in done for row in one.accuracies]
        return {
            'rows': summarize_episodes(episodes),
            'priors': compare_priors(accuracies),
            'not_identified': [one.failed for one in done if one.failed],
            'runs': [episode._asdict() for episode in episodes],
            'known': [accuracy._asdict() for accuracy in accuracies],
        }

    def show(self, results: Mapping[str, Any]) -> None:
        """Print a table of episodes and one of parameters."""
        for message in results['not_identified']:
            print(f'not identified: {message}', file=sys.stderr)
        print(
            f'{"task":18} {"models":>6} {"prior":>10} {"success":>8} {"median":>8} {"mean":>8}'
            '  less than wide, standard error; sooner'
        )
        for row in results['rows']:
            print(
                f'{row["task"]:18} {row["models"]:6} {row["prior"]:>10} '
                f'{row["successes"]:>3} of {row["runs"]:<2} '
                f'{row["median_s"]:6.2f} s {row["mean_s"]:6.2f} s '
                f'{row["less_s"]:15.2f} s {row["less_sd_s"]:11.2f} s; {row["sooner"]:4}'
            )
        print(f'{"task":18} {"parameter":>16} {"prior":>10} {"error":>9} {"sd":>9}  within 90 %')
        for row in results['priors']:
            print(
                f'{row["task"]:18} {row["parameter"]:>16} {row["prior"]:>10} '
                f'{row["error"]:9.3g} {row["sd"]:9.3g} {row["within"]:>3} of {row["systems"]}'
            )


def compare_priors(known: Sequence[PriorAccuracy]) -> list[dict[str, Any]]:
    """Return rms error, sd and coverage of each prior, by parameter."""
    cells = group(known, lambda one: (one.task, one.parameter, one.prior))
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
    cells = group(episodes, lambda one: (one.task, one.models, one.prior))
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
