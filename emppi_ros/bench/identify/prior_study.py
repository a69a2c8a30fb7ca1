"""
What an identified prior is worth: EMPPI that starts from it, against the task's own wide prior.

A seed is a system. Its first run is recorded as its sensors see it, at 1 kHz, as a Panda's do. A
prior is identified from that, and the belief at its end is another one; the truth is a third,
which no method can beat but by chance. Then all priors start anew on the same system, with the
same new noise.
"""

from collections.abc import Iterator, Mapping
import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import prior_file
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.prior_file import ParameterPrior, PriorFile
from emppi_ros.bench.paper.cells import changed
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify import methods
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording
from emppi_ros.identify.common.synthetic_recording import sensor_signals
from emppi_ros.identify.methods import RunSettings
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.session.trace import Trace
from emppi_ros.tasks.task import Task, parse_task, task_text

Array = npt.NDArray[np.float64]
TASKS = ('cartpole_swingup', 'fr3_follow', 'panda_push', 'arm_lift')
PRIORS = WIDE, SAVED, IDENTIFIED, TRUE = 'wide', 'saved', 'identified', 'true'
FILTERED = ('panda_push', 'arm_lift')  # by `filter`: contact, dry friction; others by `states`
STEP_S = 1e-3  # of recordings, and of the model that explains them: longer ones bias it
_ARM = ASSETS / 'arm_lift.yaml'  # a scenario, not a task to start from
_DRAWS = 2000
_AGAIN = 10_000  # added to the seed of the second runs


class System(NamedTuple):
    """A task's seed, and what the planner has on it."""

    task: str
    seed: int
    models: tuple[int, ...]  # one number after the other; 0: the task's own


class Run(NamedTuple):
    """How EMPPI did once."""

    task: str
    seed: int
    prior: str
    models: int
    success: bool
    time_s: float  # until success, or the task's time


class Knowledge(NamedTuple):
    """What a prior says of one parameter."""

    task: str
    seed: int
    prior: str
    parameter: str
    truth: float
    mean: float
    sd: float
    within: bool  # whether the truth is in the middle 90 %


class Worth(NamedTuple):
    """What came of one system."""

    system: System
    runs: tuple[Run, ...]
    known: tuple[Knowledge, ...]
    failed: str  # why nothing was identified, if so


def learn(task: Task, trace: Trace, seed: int, threads: int = 0) -> PriorFile:
    """Return what a recorded run says; IdentificationError if it says nothing."""
    signals = {(one.kind, one.of): one for one in sensor_signals(task, trace)}
    recording = Recording(signals, ())
    plant, name = Plant.from_task(task), 'filter' if task.name in FILTERED else 'states'
    if name == 'states':
        plant.model.opt.timestep = STEP_S
    method, run = methods.load(name), RunSettings(seed=seed, threads=threads)
    result = method.identify(plant, [recording], method.options(), run)
    return result.to_prior(name, plant, [recording])


def measure(system: System, threads: int | None = None) -> Worth:
    """
    Return runs of a system with each prior and number of models, and what each prior knows.

    There are as many rollouts in all: fewer models have more each. Where nothing was
    identified the other priors run alone. `threads` replace the task's own, and change
    nothing but the time.
    """
    name, seed = system.task, system.seed
    text = changed(
        task_text(str(_ARM) if name == _ARM.stem else name),
        {'simulation': {'joint_state_rate_hz': 1.0 / STEP_S}},
    )
    if threads is not None:
        text = changed(text, {'planner': {'threads': threads}})
    task = parse_task(text, name)
    loop = ClosedLoop(task, seed)
    first = loop.run()
    truth = dict(zip([p.name for p in task.parameters], first.truth.tolist(), strict=True))
    files, failed = (
        {SAVED: prior_file.from_belief(task.name, task.parameters, loop.filter.belief)},
        '',
    )
    try:
        files[IDENTIFIED] = learn(task, first, seed, threads or 0)
    except IdentificationError as error:
        failed = f'{name}, seed {seed}: {error}'
    files[TRUE] = _fixed(task, truth)
    priors = {WIDE: ''} | {kind: prior_file.to_yaml(f, kind) for kind, f in files.items()}
    known = [
        one
        for kind, prior in priors.items()
        for one in _known(_with(task, prior, kind), seed, kind, first.truth)
    ]
    runs = []
    for count, (kind, prior) in itertools.product(system.models, priors.items()):
        again = _with(parse_task(_sized(text, task, count), name), prior, kind)
        trace = ClosedLoop(again, seed + _AGAIN, truth=truth).run()
        time_s = task.file.duration_s if trace.success_time is None else trace.success_time
        runs.append(Run(task.name, seed, kind, again.planner.models, trace.success, time_s))
    return Worth(system, tuple(runs), tuple(known), failed)


def _with(task: Task, prior: str, kind: str) -> Task:
    """Return a task that begins with a prior's text, or with its own if there is none."""
    return task.with_prior_text(prior, kind) if prior else task


def _known(task: Task, seed: int, kind: str, truth: Array) -> Iterator[Knowledge]:
    """Yield what a task's prior says of parameters whose truth (P,) is known."""
    draws = task.prior.sample(_DRAWS, np.random.default_rng(seed))
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    within = (low <= truth) & (truth <= high)
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    for i, p in enumerate(task.parameters):
        row = float(truth[i]), float(mean[i]), float(sd[i]), bool(within[i])
        yield Knowledge(task.name, seed, kind, p.name, *row)


def _fixed(task: Task, truth: Mapping[str, float]) -> PriorFile:
    """Return the prior of somebody who knows."""
    fixed = {
        p.name: ParameterPrior(p.unit, prior=Prior('fixed', value=truth[p.name]))
        for p in task.parameters
    }
    return PriorFile(TRUE, (), fixed)


def _sized(text: str, task: Task, models: int) -> str:
    """Return a task's YAML with other models, and as many rollouts."""
    if not models:
        return text
    rollouts = max(task.planner.models * task.planner.rollouts // models, 1)
    return changed(text, {'planner': {'models': models, 'rollouts': rollouts}})
