"""The method `csvgd`: particles of the posterior by Stein variational gradient descent."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
import functools
from typing import Literal

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key
from emppi_ros.identification.common import checkpoint, posterior_samples
from emppi_ros.identification.common import options as fields
from emppi_ros.identification.common.checkpoint import Checkpoint
from emppi_ros.identification.common.figures import Convergence
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.csvgd import csvgd, model_errors
from emppi_ros.identification.csvgd.csvgd import (
    CsvgdConfig,
    CsvgdPosterior,
    CsvgdProgress,
    CsvgdState,
)
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.multiple_shooting import training_data, window_search
from emppi_ros.identification.multiple_shooting.particle_summary import (
    SystemResult,
    explain,
    summarize_all,
)
from emppi_ros.identification.multiple_shooting.target_density import ParticleSimulation
from emppi_ros.identification.multiple_shooting.training_data import TrainingData, WindowConfig
from emppi_ros.model import scene
from emppi_ros.parallel import workers
from emppi_ros.recordings.recordings import (
    Recording,
    named_errors,
    recording_digests,
    recording_names,
)

# of the continuity of windows, first and last; recordings are more exact than benchmark data
STIFFNESS = 1e3, 1e10
_MEDIANS = 'medians'  # of the log likelihood, one per iteration


@dataclass(frozen=True)
class CsvgdOptions:
    """Options of the method `csvgd`."""

    particles: int = fields.particles(CsvgdConfig.particles)
    iterations: int = fields.count(100, 'number of iterations')
    window: float = fields.window()
    likelihood: Literal['product', 'sum'] = key(
        'product',
        doc='how several recordings combine: product: all are of the same system; sum: each is '
        'of another system',
    )
    noise: Mapping[str, float] = fields.noise()


class CsvgdMethod(Method):
    """Constrained Stein variational gradient descent."""

    description = 'posterior particles by constrained Stein variational gradient descent'
    options = CsvgdOptions
    held_out = 0.2
    long_running = True

    def systems(self, options: CsvgdOptions, recordings: int) -> int:
        """Return the number of recordings if each is of another system, or 1."""
        return recordings if options.likelihood == 'sum' else 1

    def check(
        self, options: CsvgdOptions, plant: Plant, recordings: int, run: RunSettings
    ) -> None:
        """Check the number of particles."""
        posterior_samples.check_particles(
            options.particles, self.systems(options, recordings), plant, run.out is not None
        )

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: CsvgdOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Infer each system from its recordings."""
        windows = WindowConfig(options.window, run.held_out)
        datasets = [
            _start(plant, data, run) for data in _prepare(options, plant, recordings, windows)
        ]
        config = CsvgdConfig(
            options.particles,
            options.iterations,
            sum(data.windows for data in datasets),
            stiffness=STIFFNESS,
            seed=run.seed,
        )
        step_s = float(plant.model.opt.timestep)
        settings = {**asdict(config), 'likelihood': options.likelihood, 'step_s': step_s}
        settings |= asdict(windows)
        shares = np.array_split(np.arange(config.particles), len(datasets))
        configs = [
            replace(config, particles=len(share), windows=data.windows)
            for data, share in zip(datasets, shares, strict=True)
        ]
        key = {
            'model': scene.digest(plant.model),
            'data': recording_digests(recordings),
            'lag_s': run.lag_s,
            **settings,
        }
        inferred = []
        with checkpoint.removed_on_error(run.out, len(datasets)):
            for system, (data, system_config) in enumerate(zip(datasets, configs, strict=True)):
                system_key = {
                    **key,
                    'parameters': [asdict(p) for p in data.problem.parameters],
                    'noise': data.problem.noise.tolist(),
                }
                saved = Checkpoint(run.out, system_key, run.overwrite, system)
                inferred.append(_infer(plant, data, system_config, saved, run))
        systems = [system for system, _ in inferred]
        summary = summarize_all(plant, systems)
        return Identification(
            summary,
            np.concatenate([system.converged.theta for system in systems]),
            posterior_samples.excited(
                [row['knowledge'] for row in summary['parameters'].values()]
            ),
            settings,
            convergence=Convergence(
                'median log likelihood', np.sum([medians for _, medians in inferred], axis=0)
            ),
            forecasts=lambda: [forecast for system in systems for forecast in system.held_out],
        )


def _prepare(
    options: CsvgdOptions, plant: Plant, recordings: Sequence[Recording], windows: WindowConfig
) -> list[TrainingData]:
    """
    Return the training data of each system.

    The densities of recordings differ by their noise, which does not tell how likely a system
    is. So each system is inferred separately, with its own share of the particles.
    """
    if options.likelihood == 'product':
        return [training_data.prepare(plant, recordings, windows, options.noise)]
    alone = (
        training_data.prepare(plant, [recording], windows, options.noise)
        for recording in recordings
    )
    names = recording_names(recordings)
    return [replace(data, names=(name,)) for data, name in zip(alone, names, strict=True)]


def _start(plant: Plant, data: TrainingData, run: RunSettings) -> TrainingData:
    """Return the data; with independent windows if the model does not explain continuous ones."""
    name = f'csvgd {", ".join(data.names)}: windows'
    with run.progress(name, window_search.MAX_ITERATIONS, 'iterations') as advance:
        data = model_errors.allow(
            data,
            plant.initial,
            lambda done, cost: advance(done, f'log likelihood {-cost:.4g}'),
            run.threads,
        )
        advance(window_search.MAX_ITERATIONS)
    return data


def _infer(
    plant: Plant, data: TrainingData, config: CsvgdConfig, saved: Checkpoint, run: RunSettings
) -> tuple[SystemResult, Array]:
    """Return the particles of a system, and the median log likelihood of each iteration."""
    with named_errors(data.names[0] if len(data.names) == 1 else ''):
        posterior, medians = _sample(data, config, saved, run)
        system = explain(plant, data, posterior.z, posterior.log_p, posterior.defect, run)
    return system, np.array(medians)


def _sample(
    data: TrainingData, config: CsvgdConfig, saved: Checkpoint, run: RunSettings
) -> tuple[CsvgdPosterior, list[float]]:
    state, medians = None, list[float]()
    if (arrays := saved.read()) is not None:
        medians += arrays.pop(_MEDIANS).tolist()
        state = CsvgdState.of_arrays(arrays)
    name = f'csvgd {", ".join(data.names)}'
    with run.progress(name, config.iterations, 'iterations') as advance:

        def watch(now: CsvgdProgress) -> None:
            saved.write({_MEDIANS: medians, **now.state.to_arrays()})
            medians.append(float(np.median(now.evaluation.log_p)))
            advance(now.iteration, f'log likelihood {medians[-1]:.4g}')

        recipe = functools.partial(ParticleSimulation, data.problem, config.windows)
        with workers.shared(recipe, run.scheduler) as share:
            posterior = csvgd.infer(
                data.problem, config, run.threads, watch, state, share, data.begin
            )
        medians.append(float(np.median(posterior.log_p)))
        advance(config.iterations, f'log likelihood {medians[-1]:.4g}')
    return posterior, medians
