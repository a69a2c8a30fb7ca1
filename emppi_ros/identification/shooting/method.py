"""The method `shooting`: least squares over short windows, for real recordings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key, positive
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.figures import Convergence, HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.multiple_shooting import forecast, torque_noise, windows
from emppi_ros.identification.shooting import uncertainty
from emppi_ros.identification.shooting.estimation import ShootingConfig, ShootingEstimate, estimate
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
        motion = join([earlier for earlier, _ in parts])
        config = ShootingConfig()
        lengths = _lengths(motion, options.longest_window / plant.model.opt.timestep)
        costs: list[float] = []
        with run.progress('shooting', len(lengths) * config.iterations, 'iterations') as advance:

            def progress(cost: float) -> None:
                costs.append(cost)
                advance(len(costs), f'mean cost {cost:.4g}')

            fits = fit_growing(plant, motion, lengths, config, run.threads, progress)
            advance(len(lengths) * config.iterations)
        result = fits.chosen
        by_joints = uncertainty.joint_covariance(plant, motion, result, run.threads)
        by_errors = uncertainty.covariance(result)
        covariance = by_errors + by_joints
        knowledge = posterior_samples.knowledge_levels(np.sqrt(np.diag(covariance)))
        kept = posterior_samples.excited(knowledge)
        wide = (options.widen**2 * by_errors + by_joints) * np.outer(plant.scales, plant.scales)
        samples = posterior_samples.draw_linearised(plant, result.theta, wide, kept, run.seed)
        forecasts = _forecast(plant, samples, result, motion, parts, run)
        summary = _summarize(plant, result, covariance, by_joints, knowledge, forecasts)
        if notes := fits.notes(plant):
            summary['notes'] = '; '.join(notes)
        return Identification(
            summary,
            samples,
            kept,
            {
                'longest_window': options.longest_window,
                'step_s': float(plant.model.opt.timestep),
                'widen': options.widen,
                'seed': run.seed,
                'held_out': run.held_out,
            },
            convergence=Convergence('mean cost', np.array(result.costs)),
            forecasts=lambda: forecasts,
        )


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
    config: ShootingConfig,
    threads: int,
    progress: Any,
) -> GrowingFits:
    """
    Return the estimates from windows of growing length, each from the one before.

    They grow as long as the errors stay those of the shortest windows, in which errors of the
    model have no time to accumulate.
    """
    theta, fits = plant.initial, list[ShootingEstimate]()
    for length in lengths:
        cut = windows.cut(motion, length)
        starts = windows.guess_starts(cut, plant.model.opt.timestep)
        if fits:
            starts = _starts_within(fits[-1], cut, starts)
        result = estimate(plant, motion, cut, theta, starts, config, threads, progress)
        if fits and np.any(result.scale > _WORSE * fits[0].scale):
            return GrowingFits(fits[-1], fits[0], result)
        fits.append(result)
        theta = result.theta
    return GrowingFits(fits[-1], fits[0], None)


def _starts_within(before: ShootingEstimate, cut: windows.Windows, guess: Array) -> Array:
    """Return the starts that were estimated for shorter windows with the same first step."""
    fitted = {int(row[0]): start for row, start in zip(before.windows.steps, before.starts,
                                                     strict=True)}  # fmt: skip
    rows = [fitted.get(int(row[0]), other) for row, other in zip(cut.steps, guess, strict=True)]
    return np.array(rows)


def _lengths(motion: Motion, longest: float) -> list[int]:
    """Return window lengths in steps, each twice the one before."""
    length = windows.shortest_length(motion)
    lengths = [length]
    while 2 * lengths[-1] <= longest * (1.0 + 1e-9):
        lengths.append(2 * lengths[-1])
    return lengths


def _forecast(
    plant: Plant,
    samples: Array,
    result: ShootingEstimate,
    motion: Motion,
    parts: Sequence[tuple[Motion, Motion]],
    run: RunSettings,
) -> list[HeldOutForecast]:
    """Return the forecasts of the held-out parts that are long enough."""
    length = result.windows.length
    impulses = torque_noise.impulse_covariance(
        plant, result.theta, result.scale, motion, length, run.threads
    )
    noise = [(result.scale, impulses)] * len(parts)
    return forecast.forecast_parts(plant, samples, parts, noise, length, run.seed, run.threads)


def _summarize(
    plant: Plant,
    result: ShootingEstimate,
    covariance: Array,
    by_joints: Array,
    knowledge: Sequence[str],
    forecasts: Sequence[HeldOutForecast],
) -> dict[str, Any]:
    """Return the estimate of each parameter, and diagnostics."""
    joints = scene.names(plant.model, 'joint')
    sd, joint_sd = (plant.scales * np.sqrt(np.diag(part)) for part in (covariance, by_joints))
    more = {'sd_by_joints': joint_sd.tolist()} if joint_sd.any() else {}
    summary = posterior_samples.summarize(
        plant.unknowns, result.theta, sd, knowledge,
        posterior_samples.unobservable_directions(covariance),
        at_bound=plant.at_bound(result.theta), **more,
    )  # fmt: skip
    summary |= {
        'iterations': result.iterations,
        'converged': result.converged,
        'step_s': float(plant.model.opt.timestep),
        'window_s': float(plant.model.opt.timestep * result.windows.length),
        'windows': result.windows.count,
        'error_scale': dict(zip(joints, result.scale.tolist(), strict=True)),
    }
    if forecasts:
        summary |= forecast.summarize(forecasts)
    return summary
