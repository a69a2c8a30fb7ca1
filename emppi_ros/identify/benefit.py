"""
What an identified prior is worth: EMPPI that starts from it, against the task's own wide prior.

A seed is a system. Its first run is recorded as its sensors see it, at 1 kHz, as a Panda's do. A
prior is identified from that, and the belief at its end is another one. Then all priors start anew
on the same system, with the same new noise.
"""

from collections.abc import Callable, Iterator, Sequence
import itertools
from typing import NamedTuple

from emppi_ros.belief import file as prior_file
from emppi_ros.belief import saving
from emppi_ros.belief.file import PriorFile
from emppi_ros.bench.cells import changed
from emppi_ros.errors import IdentificationError
from emppi_ros.identify import generator
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.states import binding, recorded, report
from emppi_ros.identify.states.estimate import estimate
from emppi_ros.identify.states.solver import Settings
from emppi_ros.loop.closed_loop import ClosedLoop
from emppi_ros.loop.trace import Trace
from emppi_ros.tasks.task import Task, parse_task, task_text

TASKS = ('cartpole_swingup', 'fr3_follow', 'panda_push')
PRIORS = WIDE, SAVED, IDENTIFIED = 'wide', 'saved', 'identified'
STEP_S = 1e-3  # of recordings, and of the model that explains them: longer ones bias it
_AGAIN = 10_000  # added to the seed of the second runs


class Run(NamedTuple):
    """How EMPPI did once."""

    task: str
    seed: int
    prior: str
    models: int
    success: bool
    time_s: float  # until success, or the task's time


def learn(task: Task, trace: Trace, seed: int) -> PriorFile:
    """Return what a recorded run says; IdentificationError if it says nothing."""
    signals = {(one.kind, one.of): one for one in generator.signals(task, trace)}
    plant, settings = binding.of_task(task), Settings()
    plant.model.opt.timestep = STEP_S
    motion = recorded.resample(Recording(signals, ()), plant.model, plant.bodies)
    result = estimate(plant, motion, settings)
    report.check(plant, motion, result)
    draws = report.draw(plant, result, report.SPREAD, seed)
    return report.to_prior(plant, result, draws, (), {}, {})


def measure(
    name: str, seeds: Sequence[int], models: Sequence[int], advance: Callable[[int], None]
) -> Iterator[Run | IdentificationError]:
    """
    Yield runs of a task with each prior and so many models, 0 for the task's own number.

    There are as many rollouts in all: fewer models have more each.

    Where nothing was identified the error is yielded, and the other priors run alone.
    """
    text = changed(task_text(name), {'simulation': {'joint_state_rate_hz': 1.0 / STEP_S}})
    for done, seed in enumerate(seeds):
        task = parse_task(text, name)
        loop = ClosedLoop(task, seed)
        first = loop.run()
        truth = dict(zip([p.name for p in task.parameters], first.truth.tolist(), strict=True))
        saved = saving.to_file(task.name, task.parameters, loop.filter.belief)
        priors = {WIDE: '', SAVED: prior_file.to_text(saved, SAVED)}
        try:
            priors[IDENTIFIED] = prior_file.to_text(learn(task, first, seed), IDENTIFIED)
        except IdentificationError as error:
            yield IdentificationError(f'{name}, seed {seed}: {error}')
        for count, (kind, prior) in itertools.product(models, priors.items()):
            again = parse_task(_sized(text, task, count), name)
            if prior:
                again = again.with_prior_text(prior, kind)
            trace = ClosedLoop(again, seed + _AGAIN, truth=truth).run()
            time_s = task.file.duration_s if trace.success_time is None else trace.success_time
            yield Run(task.name, seed, kind, again.planner.models, trace.success, time_s)
        advance(done + 1)


def _sized(text: str, task: Task, models: int) -> str:
    """Return a task's YAML with other models, and as many rollouts."""
    if not models:
        return text
    rollouts = max(task.planner.models * task.planner.rollouts // models, 1)
    return changed(text, {'planner': {'models': models, 'rollouts': rollouts}})
