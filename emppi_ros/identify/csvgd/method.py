"""The method `csvgd`: particles of the posterior, with checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import key
from emppi_ros.identify.common import checkpoint, prior_output
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common.figures import Convergence
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import (
    Recording,
    named_errors,
    recording_digests,
    recording_names,
)
from emppi_ros.identify.csvgd import csvgd
from emppi_ros.identify.csvgd import recordings as csvgd_recordings
from emppi_ros.identify.csvgd import report as csvgd_report
from emppi_ros.identify.csvgd.csvgd import CsvgdConfig, CsvgdPosterior, CsvgdProgress, CsvgdState
from emppi_ros.identify.csvgd.recordings import TrainingData, WindowConfig
from emppi_ros.identify.csvgd.report import SystemResult, summarize_all
from emppi_ros.identify.csvgd.target_density import SimulationRecipe
from emppi_ros.identify.methods import Identification, Method, RunSettings
from emppi_ros.parallel import workers

Array = npt.NDArray[np.float64]
HELD_OUT = 0.2
# of the continuity of windows: recordings are ten times as exact as the benchmark's data
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
    held_out = HELD_OUT
    long_running = True

    def systems(self, options: CsvgdOptions, recordings: int) -> int:
        """Return the number of recordings if each is of another system, or 1."""
        return recordings if options.likelihood == 'sum' else 1

    def check(
        self, options: CsvgdOptions, plant: Plant, recordings: int, run: RunSettings
    ) -> None:
        """Check the number of particles."""
        prior_output.check_particles(
            options.particles, self.systems(options, recordings), plant, run.out is not None
        )

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: CsvgdOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Infer each system from its recordings."""
        cut = WindowConfig(options.window, run.held_out)
        built = _build(options, plant, recordings, cut)
        settings = CsvgdConfig(
            options.particles,
            options.iterations,
            sum(learned.windows for learned in built),
            options.likelihood,
            stiffness=STIFFNESS,
            seed=run.seed,
        )
        said = {**asdict(settings), 'step_s': float(plant.model.opt.timestep), **asdict(cut)}
        data = recording_digests(recordings)
        checkpoint_key = {
            'model': checkpoint.model_digest(plant.model),
            'data': data,
            'lag_s': run.lag_s,
            **said,
        }
        shares = np.array_split(np.arange(settings.particles), len(built))
        own = [
            replace(settings, particles=len(share), windows=learned.windows, likelihood='product')
            for learned, share in zip(built, shares, strict=True)
        ]
        with checkpoint.removed_on_error(run.out, len(built)):
            done = [
                _System(plant, learned, how, checkpoint_key, index).infer(run)
                for index, (learned, how) in enumerate(zip(built, own, strict=True))
            ]
        systems = [system for system, _ in done]
        summary = summarize_all(plant, systems)
        return Identification(
            summary,
            np.concatenate([system.converged.theta for system in systems]),
            prior_output.excited([row['knowledge'] for row in summary['parameters'].values()]),
            said,
            convergence=Convergence(
                'median log likelihood', np.sum([way for _, way in done], axis=0)
            ),
            forecasts=lambda: [
                one for s in systems for one in csvgd_report.futures(s.learned, s.forecasts)
            ],
        )


def _build(
    options: CsvgdOptions, plant: Plant, recordings: Sequence[Recording], cut: WindowConfig
) -> list[TrainingData]:
    """
    Return the inference problem of each system.

    The densities of recordings differ by their noise, which does not tell how likely a system
    is. So each of several systems is inferred separately, with particles of its own.
    """
    if options.likelihood == 'product':
        return [csvgd_recordings.prepare(plant, recordings, cut, options.noise)]
    names = recording_names(recordings)
    return [
        replace(csvgd_recordings.prepare(plant, [recording], cut, options.noise), names=(name,))
        for name, recording in zip(names, recordings, strict=True)
    ]


@dataclass(frozen=True)
class _System:
    """One system to infer."""

    plant: Plant
    learned: TrainingData
    settings: CsvgdConfig
    key: Mapping[str, Any]  # of its checkpoint
    index: int
    medians: list[float] = field(default_factory=list)

    def infer(self, run: RunSettings) -> tuple[SystemResult, Array]:
        """Return the system's particles, and the median log likelihood of each iteration."""
        learned = self.learned
        path = checkpoint.path_beside(run.out, self.index) if run.out else None
        with named_errors(learned.names[0] if len(learned.names) == 1 else ''):
            posterior = self._posterior(run, path)
            found = csvgd_report.select_converged(learned, posterior, run.threads)
            csvgd_report.check(self.plant, learned, found)
        forecasts = csvgd_report.forecast(learned, found, run.threads)
        return SystemResult(learned, posterior, found, forecasts), np.array(self.medians)

    def _posterior(self, run: RunSettings, path: Path | None) -> CsvgdPosterior:
        learned, settings, medians = self.learned, self.settings, self.medians
        checkpoint_key = {
            **self.key,
            'parameters': [asdict(p) for p in learned.problem.parameters],
            'noise': learned.problem.noise.tolist(),
        }
        kept = checkpoint.read(path, checkpoint_key, run.overwrite) if path else None
        state = None
        if kept is not None:
            medians += kept.pop(_MEDIANS).tolist()
            state = CsvgdState.of_arrays(kept)
        name = f'csvgd {", ".join(learned.names)}'
        with run.progress(name, settings.iterations, 'iterations') as advance:

            def watch(now: CsvgdProgress) -> None:
                if path is not None:
                    checkpoint.write(
                        path, checkpoint_key, {_MEDIANS: medians, **now.state.to_arrays()}
                    )
                medians.append(float(np.median(now.evaluation.log_p)))
                advance(now.iteration, f'log likelihood {medians[-1]:.4g}')

            recipe = SimulationRecipe(learned.problem, settings.windows, settings.likelihood)
            with workers.shared(recipe, run.scheduler) as share:
                posterior = csvgd.infer(
                    learned.problem, settings, run.threads, watch, state, share
                )
            medians.append(float(np.median(posterior.log_p)))
            advance(settings.iterations, f'log likelihood {medians[-1]:.4g}')
        return posterior
