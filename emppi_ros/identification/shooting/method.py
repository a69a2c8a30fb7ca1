"""The method `shooting`: least squares over short windows, for real recordings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key, positive
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.figures import Convergence
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.multiple_shooting import forecast, windows
from emppi_ros.identification.shooting import estimation
from emppi_ros.identification.shooting.estimation import ITERATIONS, ShootingEstimate
from emppi_ros.model import scene
from emppi_ros.recordings import matching
from emppi_ros.recordings.motion import Motion, default_step, join, resample_and_split
from emppi_ros.recordings.recordings import Recording

_WORSE = 2.0  # times the errors in the shortest windows: errors of the model exceed the noise


@dataclass(frozen=True)
class ShootingOptions:
    """Options of the method `shooting`."""

    longest_window: float = positive(
        0.5,
        'length in s up to which windows grow, as long as the model explains them as well as the '
        'shortest ones',
    )
    widen: float = key(
        1.5,
        check=lambda value: value >= 1.0,
        allowed='a number of at least 1',
        doc='factor on the standard deviations in the prior, but for errors of inferred joints: '
        'estimates from real recordings of one mechanism were 1.5 times as far apart as they say',
    )


class ShootingMethod(Method):
    """Least squares over windows, with a covariance that allows for errors of the model."""

    description = 'least squares over short windows, for real recordings'
    options = ShootingOptions
    held_out = 0.2
    with_joint_errors = True

    def default_step(self, plant: Plant, recordings: Sequence[Recording]) -> float:
        """Return the scene's step, or 1 ms if joints were sampled at a shorter period."""
        return default_step(recordings, plant.model)

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: ShootingOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit all recordings together, with windows that grow, and forecast the held-out parts."""
        matching.require_scalar_joints(plant.model)
        parts = resample_and_split(recordings, plant.model, plant.bodies, run.held_out)
        motion, step_s = join([earlier for earlier, _ in parts]), float(plant.model.opt.timestep)
        lengths = [windows.shortest_length(motion)]
        while 2 * lengths[-1] * step_s <= options.longest_window * (1.0 + 1e-9):
            lengths.append(2 * lengths[-1])
        costs: list[float] = []
        with run.progress('shooting', len(lengths) * ITERATIONS, 'iterations') as advance:

            def progress(cost: float) -> None:
                costs.append(cost)
                advance(len(costs), f'mean cost {cost:.4g}')

            fits = fit_growing(plant, motion, lengths, run.threads, progress)
            advance(len(lengths) * ITERATIONS)
        result = fits.chosen
        by_joints = estimation.joint_covariance(plant, motion, result, run.threads)
        by_errors = estimation.covariance(result)
        covariance = by_errors + by_joints
        knowledge = posterior_samples.knowledge_levels(np.sqrt(np.diag(covariance)))
        kept = posterior_samples.excited(knowledge)
        wide = (options.widen**2 * by_errors + by_joints) * np.outer(plant.scales, plant.scales)
        samples = posterior_samples.draw_linearised(plant, result.theta, wide, kept, run.seed)
        length = result.windows.length
        impulses = forecast.impulse_covariance(
            plant, result.theta, result.scale, motion, length, run.threads
        )
        noise = [(result.scale, impulses)] * len(parts)
        forecasts = forecast.forecast_parts(
            plant, samples, parts, noise, length, run.seed, run.threads
        )
        summary = summarize(plant, result, covariance, by_joints, knowledge)
        if forecasts:
            summary |= forecast.summarize(forecasts)
        missing = forecast.note_missing(parts, forecasts, float(plant.model.opt.timestep))
        if notes := [*fits.notes(plant), *filter(None, [missing])]:
            summary['notes'] = '; '.join(notes)
        return Identification(
            summary,
            samples,
            kept,
            {
                'longest_window': options.longest_window,
                'step_s': step_s,
                'widen': options.widen,
                'seed': run.seed,
                'held_out': run.held_out,
            },
            convergence=Convergence('mean cost', np.array(result.costs)),
            forecasts=lambda: forecasts,
        )


def summarize(
    plant: Plant, result: ShootingEstimate, covariance: Array, by_joints: Array,
    knowledge: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """Return each parameter, with covariances (P, P) in the scales, and results of the search."""
    sd, joint_sd = (plant.scales * np.sqrt(np.diag(part)) for part in (covariance, by_joints))
    more = {'sd_by_joints': joint_sd.tolist()} if joint_sd.any() else {}
    joints, step_s = scene.names(plant.model, 'joint'), float(plant.model.opt.timestep)
    return {
        **posterior_samples.summarize(
            plant.unknowns, result.theta, sd, knowledge,
            posterior_samples.unobservable_directions(covariance),
            at_bound=plant.at_bound(result.theta), **more,
        ),
        'iterations': len(result.costs),
        'converged': result.converged,
        'step_s': step_s,
        'window_s': step_s * result.windows.length,
        'windows': result.windows.count,
        'error_scale': dict(zip(joints, result.scale.tolist(), strict=True)),
    }  # fmt: skip


class GrowingFits(NamedTuple):
    """Estimates from windows of growing length."""

    chosen: ShootingEstimate
    shortest: ShootingEstimate
    rejected: ShootingEstimate | None  # longer windows, which the model does not explain

    def notes(self, plant: Plant) -> list[str]:
        """Return notes for the user."""
        notes = []
        step_s = plant.model.opt.timestep
        if self.rejected is not None:
            ratio = self.rejected.scale / self.shortest.scale
            worst = int(np.argmax(ratio))
            name = scene.names(plant.model, 'joint')[worst]
            notes.append(
                f'the model explains windows of {step_s * self.chosen.windows.length:.3g} s; over '
                f'{step_s * self.rejected.windows.length:.3g} s it leaves {ratio[worst]:.2g} '
                f'times as much of joint {name!r}: it lacks something that acts slowly'
            )
        if not self.chosen.converged:
            notes.append('the search did not converge')
        return notes


def fit_growing(
    plant: Plant,
    motion: Motion,
    lengths: Sequence[int],
    threads: int,
    progress: Callable[[float], None],
) -> GrowingFits:
    """Return estimates from windows that grow while errors stay those of the shortest ones."""
    theta, fits = plant.initial, list[ShootingEstimate]()
    for length in lengths:
        cut = windows.cut(motion, length)
        starts = windows.guess_starts(cut, plant.model.opt.timestep)
        if fits:  # a window of the fit before that begins at the same step is a better guess
            _, here, before = np.intersect1d(
                cut.steps[:, 0], fits[-1].windows.steps[:, 0], return_indices=True
            )
            starts[here] = fits[-1].starts[before]
        result = estimation.estimate(plant, motion, cut, theta, starts, threads, progress=progress)
        if fits and np.any(result.scale > _WORSE * fits[0].scale):
            return GrowingFits(fits[-1], fits[0], result)
        fits.append(result)
        theta = result.theta
    return GrowingFits(fits[-1], fits[0], None)
