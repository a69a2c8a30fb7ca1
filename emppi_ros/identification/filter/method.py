"""The method `filter`: particles of the posterior, weighed by the belief's own predictions."""

from collections.abc import Callable, Sequence
import copy
from dataclasses import asdict, dataclass, replace
import functools
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identification import methods
from emppi_ros.identification.common import checkpoint, posterior_samples
from emppi_ros.identification.common.checkpoint import Checkpoint
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.common.posterior_samples import knowledge_levels
from emppi_ros.identification.filter import likelihood, smc
from emppi_ros.identification.filter.likelihood import RecordingLikelihood
from emppi_ros.identification.filter.smc import SmcConfig, SmcState
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.parallel import workers
from emppi_ros.recordings.recordings import Recording
from emppi_ros.tasks.task import Task

_MAX_INNOVATION = 2.0  # mean square, as in the diagnostics of the belief
_PRIOR_DRAWS = 10_000


@dataclass(frozen=True)
class FilterOptions:
    """Options of the method `filter`."""

    particles: int = methods.particles(SmcConfig.particles)


class FilterMethod(Method):
    """Tempered sequential Monte Carlo with the likelihood of the task's belief."""

    description = "posterior particles by the belief's predictions, also through contact"
    options = FilterOptions
    held_out = None
    long_running = True

    def check(
        self, options: FilterOptions, plant: Plant, recordings: int, run: RunSettings
    ) -> None:
        """Check that there is a task, and the number of particles."""
        _task_of(plant)
        posterior_samples.check_particles(options.particles, 1, plant, run.out is not None)

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: FilterOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Infer the parameters of one system, from its checkpoint if there is one."""
        task = copy.copy(_task_of(plant))
        if run.step_s is not None:
            task.belief = replace(task.belief, substep_s=run.step_s)
        plant.model.opt.timestep = task.belief.substep_s
        config = SmcConfig(options.particles)
        settings = {**asdict(config), 'substep_s': task.belief.substep_s, 'seed': run.seed}
        saved = Checkpoint(run, task.model, recordings, task=task.data, **settings)
        arrays = saved.read()
        state = SmcState(**arrays) if arrays else None
        progress = run.progress('filter', config.power, 'of the likelihood')
        with checkpoint.removed_on_error(run.out), progress as advance:

            def watch(now: SmcState) -> None:
                saved.write(now._asdict())
                advance(float(now.powers[-1]), _median_text(now.log_likelihood))

            posterior, summary = infer_task(
                task, recordings, config, run.seed, watch, state, run.threads, run.scheduler
            )
            advance(config.power, _median_text(posterior.log_likelihood))
        return Identification(
            summary,
            posterior.theta,
            # particles of unexcited parameters keep the prior, and correlations with others
            range(len(plant.unknowns)),
            settings,
        )


def _task_of(plant: Plant) -> Task:
    if plant.task is None:
        raise ConfigError(
            '--model: --method filter needs a task, for its likelihood, objects and priors: use '
            '--task, or another method'
        )
    return plant.task


def _median_text(log_likelihood: Array) -> str:
    return f'log likelihood {np.median(log_likelihood):.4g}'


def infer_task(
    task: Task,
    recordings: Sequence[Recording],
    config: SmcConfig,
    seed: int,
    watch: Callable[[SmcState], None] = lambda _: None,
    state: SmcState | None = None,
    threads: int = 0,
    scheduler: str | None = None,
) -> tuple[SmcState, dict[str, Any]]:
    """
    Return the posterior of the recordings of one system, and a summary of its parameters.

    `watch` and `state` are as for `infer`. With the address of a Dask cluster in `scheduler`, its
    workers predict, and the result is the same to the bit. IdentificationError if the recordings
    are not of this task, if no parameter is excited, or if no particle predicts the measurements.
    """
    data = [likelihood.build(task, recording) for recording in recordings]
    of_recordings = RecordingLikelihood(task, data, config.particles, threads)
    rng = np.random.default_rng(seed)
    with workers.shared(functools.partial(RecordingLikelihood, task, data), scheduler) as share:

        def log_likelihood(theta: Array) -> Array:
            if share is None:
                return of_recordings.log_likelihood(theta)
            return np.concatenate(share('log_likelihood', theta))

        posterior = smc.infer(
            task.parameters, task.priors, log_likelihood, config, rng, watch, state
        )
    innovations = of_recordings.innovations(posterior.theta)
    for quantity, size in innovations.items():
        if size > _MAX_INNOVATION:
            raise IdentificationError(
                f'{quantity}: the model does not match: predictions are {np.sqrt(size):.3g} '
                "standard deviations of the task's likelihood from the measurements (rms), "
                'expected about 1: check units, signs and commands of the recording, and missing '
                'parts of the model'
            )
    before = task.prior.sample(_PRIOR_DRAWS, rng).std(axis=0)
    theta = posterior.theta
    knowledge = knowledge_levels(theta.std(axis=0) / np.where(before > 0.0, before, 1.0))
    posterior_samples.excited(knowledge)
    return posterior, {
        **posterior_samples.summarize_samples(task.parameters, theta, knowledge),
        'particles': len(theta),
        'moments': sum(len(part.observations) for part in data),
        'powers': len(posterior.powers) - 1,
        'acceptance': float(np.mean(posterior.moved)),
        'innovations': innovations,  # mean square by quantity, 1 expected
    }
