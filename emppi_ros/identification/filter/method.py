"""The method `filter`: particles of the posterior, weighed by the belief's own predictions."""

from collections.abc import Callable, Mapping, Sequence
import copy
from dataclasses import asdict, dataclass, replace
import functools
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identification.common import checkpoint, posterior_samples
from emppi_ros.identification.common import options as fields
from emppi_ros.identification.common.checkpoint import Checkpoint
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.common.posterior_samples import knowledge_levels
from emppi_ros.identification.filter import recordings as belief_recordings
from emppi_ros.identification.filter import smc
from emppi_ros.identification.filter.likelihood import RecordingLikelihood
from emppi_ros.identification.filter.smc import SmcConfig, SmcPosterior, SmcState
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.model import scene
from emppi_ros.parallel import workers
from emppi_ros.recordings.recordings import Recording, recording_digests
from emppi_ros.tasks.task import Task

_MAX_INNOVATION = 2.0  # mean square, as in the diagnostics of the belief
_PRIOR_DRAWS = 10_000


@dataclass(frozen=True)
class FilterOptions:
    """Options of the method `filter`."""

    particles: int = fields.particles(SmcConfig.particles)


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
        task = _task_of(plant)
        if run.step_s is not None:
            task = with_substep(task, run.step_s)
        plant.model.opt.timestep = task.belief.substep_s
        config = SmcConfig(options.particles)
        key = {
            'task': task.data,
            'model': scene.digest(task.model),
            'data': recording_digests(recordings),
            'lag_s': run.lag_s,
            'seed': run.seed,
            'substep_s': task.belief.substep_s,
            **asdict(config),
        }
        saved = Checkpoint(run.out, key, run.overwrite)
        arrays = saved.read()
        state = SmcState.from_arrays(arrays) if arrays else None
        progress = run.progress('filter', config.power, 'of the likelihood')
        with checkpoint.removed_on_error(run.out), progress as advance:

            def watch(now: SmcState) -> None:
                saved.write(now._asdict())
                advance(float(now.powers[-1]), _median_text(now.log_likelihood))

            result = infer_task(
                task, recordings, config, run.seed, watch, state, run.threads, run.scheduler
            )
            advance(config.power, _median_text(result.posterior.log_likelihood))
        return Identification(
            summarize(task, result),
            result.posterior.theta,
            # particles of unexcited parameters keep the prior, and correlations with others
            range(len(plant.unknowns)),
            {**asdict(config), 'substep_s': task.belief.substep_s, 'seed': run.seed},
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


class FilterResult(NamedTuple):
    """The posterior, and how well it explains the recordings."""

    posterior: SmcPosterior
    knowledge: tuple[str, ...]  # (P,) found, vague, or unexcited
    innovations: Mapping[str, float]  # mean square by quantity, 1 expected
    observations: int


def with_substep(task: Task, step_s: float) -> Task:
    """Return a task whose belief predicts with physics steps of at most this length."""
    changed = copy.copy(task)
    changed.belief = replace(task.belief, substep_s=step_s)
    return changed


def infer_task(
    task: Task,
    recordings: Sequence[Recording],
    config: SmcConfig,
    seed: int,
    watch: Callable[[SmcState], None] = lambda _: None,
    state: SmcState | None = None,
    threads: int = 0,
    scheduler: str | None = None,
) -> FilterResult:
    """
    Return the posterior of the recordings of one system; `watch` and `state` are as for `infer`.

    With the address of a Dask cluster in `scheduler`, its workers predict, and the result is the
    same to the bit. Raises IdentificationError if the recordings are not of this task, if no
    parameter is excited, or if no particle predicts the measurements.
    """
    data = [belief_recordings.build(task, recording) for recording in recordings]
    likelihood = RecordingLikelihood(task, data, config.particles, threads)
    rng = np.random.default_rng(seed)
    with workers.shared(functools.partial(RecordingLikelihood, task, data), scheduler) as share:

        def log_likelihood(theta: Array) -> Array:
            if share is None:
                return likelihood.log_likelihood(theta)
            return np.concatenate(share('log_likelihood', theta))

        posterior = smc.infer(
            task.parameters, task.priors, log_likelihood, config, rng, watch, state
        )
    innovations = likelihood.innovations(posterior.theta)
    for quantity, size in innovations.items():
        if size > _MAX_INNOVATION:
            raise IdentificationError(
                f'{quantity}: the model does not match: predictions are {np.sqrt(size):.3g} '
                "standard deviations of the task's likelihood from the measurements (rms), "
                'expected about 1: check units, signs and commands of the recording, and missing '
                'parts of the model'
            )
    before = task.prior.sample(_PRIOR_DRAWS, rng).std(axis=0)
    shares = posterior.theta.std(axis=0) / np.where(before > 0.0, before, 1.0)
    knowledge = knowledge_levels(shares)
    posterior_samples.excited(knowledge)
    count = sum(len(part.observations) for part in data)
    return FilterResult(posterior, knowledge, innovations, count)


def summarize(task: Task, result: FilterResult) -> dict[str, Any]:
    """Return each parameter with its uncertainty, and the convergence of the inference."""
    theta = result.posterior.theta
    return {
        **posterior_samples.summarize_samples(task.parameters, theta, result.knowledge),
        'particles': len(theta),
        'moments': result.observations,
        'powers': len(result.posterior.powers) - 1,
        'acceptance': result.posterior.acceptance,
        'innovations': dict(result.innovations),
    }
