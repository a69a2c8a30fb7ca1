"""The method `filter`: particles of the posterior, from the belief's own predictions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError
from emppi_ros.identify.common import checkpoint, prior_output
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording, recording_digests
from emppi_ros.identify.filter import estimate
from emppi_ros.identify.filter.posterior import Settings, State
from emppi_ros.identify.methods import Identification, Method, RunSettings


@dataclass(frozen=True)
class FilterOptions:
    """Options of the method `filter`."""

    particles: int = fields.particles(Settings.particles)


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
        if plant.task is None:
            raise ConfigError(
                '--model: --method filter needs a task, for its likelihood, objects and priors: '
                'use --task, or another method'
            )
        prior_output.check_particles(options.particles, 1, plant, run.out is not None)

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: FilterOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Infer the parameters of one system."""
        task = plant.task
        if task is None:
            raise ConfigError('the method filter needs a task')
        if run.step_s is not None:
            task = estimate.with_step(task, run.step_s)
        plant.model.opt.timestep = task.belief.substep_s
        settings = Settings(options.particles)
        key = {
            'task': task.data,
            'model': checkpoint.model_digest(task.model),
            'data': recording_digests(recordings),
            'lag_s': run.lag_s,
            'seed': run.seed,
            'substep_s': task.belief.substep_s,
            **asdict(settings),
        }
        path: Path | None = checkpoint.path_beside(run.out) if run.out else None
        kept = checkpoint.read(path, key, run.overwrite) if path else None
        state = State.of_arrays(kept) if kept else None
        progress = run.progress('filter', settings.power, 'of the likelihood')
        with checkpoint.removed_on_error(run.out), progress as advance:

            def watch(now: State) -> None:
                if path is not None:
                    checkpoint.write(path, key, now._asdict())
                advance(float(now.powers[-1]), _objective(now.log_likelihood))

            found = estimate.estimate(
                task, recordings, settings, run.seed, watch, state, run.threads, run.scheduler
            )
            advance(settings.power, _objective(found.posterior.log_likelihood))
        summary: dict[str, Any] = estimate.summarize(task, found)
        # parameters that hardly show keep the task's prior, and their correlations
        everything = range(len(plant.unknowns))
        recorded = {
            **asdict(settings),
            'substep_s': task.belief.substep_s,
            'seed': run.seed,
        }
        return Identification(summary, found.posterior.theta, everything, recorded)


def _objective(log_likelihood: npt.NDArray[np.float64]) -> str:
    return f'log likelihood {np.median(log_likelihood):.4g}'
