"""The method `csvgd`: particles of the posterior by Stein variational gradient descent."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
import functools
from typing import Literal

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key
from emppi_ros.identification import methods
from emppi_ros.identification.common import checkpoint, posterior_samples
from emppi_ros.identification.common.checkpoint import Checkpoint
from emppi_ros.identification.common.figures import Convergence
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.csvgd import csvgd, model_errors
from emppi_ros.identification.csvgd.csvgd import CsvgdConfig, CsvgdState
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.multiple_shooting import training_data, window_search
from emppi_ros.identification.multiple_shooting.particle_summary import (
    SystemResult,
    explain,
    summarize_all,
)
from emppi_ros.identification.multiple_shooting.particles import ParticleSimulation
from emppi_ros.identification.multiple_shooting.training_data import TrainingData
from emppi_ros.parallel import workers
from emppi_ros.recordings.recordings import Recording, named_errors, recording_names

# of the continuity of windows, first and last; recordings are more exact than benchmark data
STIFFNESS = 1e3, 1e10
_MEDIANS = 'medians'  # of the log likelihood, one per iteration


@dataclass(frozen=True)
class CsvgdOptions:
    """Options of the method `csvgd`."""

    particles: int = methods.particles(CsvgdConfig.particles)
    iterations: int = methods.count(100, 'number of iterations')
    window: float = methods.window()
    likelihood: Literal['product', 'sum'] = key(
        'product',
        doc='how several recordings combine: product: all are of the same system; sum: each is '
        'of another system',
    )
    noise: Mapping[str, float] = methods.noise()


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
        datasets = [_start(plant, data, run) for data in _prepare(options, plant, recordings, run)]
        config = CsvgdConfig(
            options.particles,
            options.iterations,
            sum(data.windows for data in datasets),
            stiffness=STIFFNESS,
            seed=run.seed,
        )
        settings = {
            **asdict(config),
            'likelihood': options.likelihood,
            'step_s': float(plant.model.opt.timestep),
            'window_s': options.window,
            'held_out': run.held_out,
        }
        shares = np.array_split(np.arange(config.particles), len(datasets))
        inferred = []
        with checkpoint.removed_on_error(run.out, len(datasets)):
            for index, (data, share) in enumerate(zip(datasets, shares, strict=True)):
                saved = Checkpoint(
                    run,
                    plant.model,
                    recordings,
                    index,
                    **settings,
                    parameters=[asdict(p) for p in data.problem.parameters],
                    noise=data.problem.noise.tolist(),
                )
                part = replace(config, particles=len(share), windows=data.windows)
                inferred.append(_infer(plant, data, part, saved, run))
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
    options: CsvgdOptions, plant: Plant, recordings: Sequence[Recording], run: RunSettings
) -> list[TrainingData]:
    """Return the training data of each system, which is inferred with its own particles."""
    cut = options.window, run.held_out, options.noise
    if options.likelihood == 'product':
        return [training_data.prepare(plant, recordings, *cut)]
    return [
        replace(training_data.prepare(plant, [recording], *cut), names=(name,))
        for recording, name in zip(recordings, recording_names(recordings), strict=True)
    ]


def _start(plant: Plant, data: TrainingData, run: RunSettings) -> TrainingData:
    """Return the data; with independent windows if the model does not explain continuous ones."""
    name = f'csvgd {", ".join(data.names)}: windows'
    with run.progress(name, window_search.MAX_ITERATIONS, 'iterations') as advance:
        estimate = window_search.estimate(
            data,
            plant.initial,
            lambda done, cost: advance(done, f'log likelihood {-cost:.4g}'),
            run.threads,
        )
        advance(window_search.MAX_ITERATIONS)
    if estimate.worse is None:
        return data
    return model_errors.separate(data, estimate, run.threads)


def _infer(
    plant: Plant, data: TrainingData, config: CsvgdConfig, saved: Checkpoint, run: RunSettings
) -> tuple[SystemResult, Array]:
    """Return the particles of a system, and the median log likelihood of each iteration."""
    state, medians = None, list[float]()
    if (arrays := saved.read()) is not None:
        medians += arrays.pop(_MEDIANS).tolist()
        state = CsvgdState(*(arrays[name] for name in CsvgdState._fields))
    with (
        named_errors(data.names[0] if len(data.names) == 1 else ''),
        run.progress(f'csvgd {", ".join(data.names)}', config.iterations, 'iterations') as advance,
    ):

        def watch(now: CsvgdState, log_p: Array) -> None:
            saved.write({_MEDIANS: medians, **now._asdict()})
            medians.append(float(np.median(log_p)))
            advance(int(now.iteration), f'log likelihood {medians[-1]:.4g}')

        recipe = functools.partial(ParticleSimulation, data.problem, config.windows)
        with workers.shared(recipe, run.scheduler) as share:
            posterior = csvgd.infer(
                data.problem, config, run.threads, watch, state, share, data.begin
            )
        medians.append(float(np.median(posterior.log_p)))
        advance(config.iterations, f'log likelihood {medians[-1]:.4g}')
        system = explain(plant, data, posterior.z, posterior.log_p, posterior.defect, run)
    return system, np.array(medians)
