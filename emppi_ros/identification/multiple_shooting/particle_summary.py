"""Check, summarize and forecast with the particles of a finished inference."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.figures import HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.common.posterior_samples import knowledge_levels
from emppi_ros.identification.methods import RunSettings
from emppi_ros.identification.multiple_shooting import forecast as window_forecast
from emppi_ros.identification.multiple_shooting import target_density, torque_noise
from emppi_ros.identification.multiple_shooting.particles import MultipleShooting
from emppi_ros.identification.multiple_shooting.problem import LIMIT
from emppi_ros.identification.multiple_shooting.simulation import Inputs, roll_out
from emppi_ros.identification.multiple_shooting.training_data import (
    TrainingData,
    measurement_names,
)
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble

_OUTLIER_PROBABILITY = 1e-6  # less probable particles have not converged
_MAX_RESIDUAL_SHARE = 0.05  # of a joint's range of motion, as in the method `states`
_MIN_CONVERGED_SHARE = 0.1  # fewer particles do not represent a posterior
_EXCESS_NOISE = 1.5  # times the noise: report larger residuals
_AT_LIMIT = 0.999 * LIMIT
_KNOWLEDGE_ORDER = 'found', 'vague', 'unexcited'  # from well known to unknown


class ConvergedParticles(NamedTuple):
    """Converged particles of one system, and their residuals."""

    theta: Array  # (N, P)
    coordinates: Array  # (N, P)
    ends: Array  # (G, N, S): final state of the training part of each recording
    residual_rms: Array  # (G, S): rms residuals of the best particle in each recording
    stranded: int  # number of particles that did not converge

    @property
    def sd(self) -> Array:
        """Standard deviations (P,) in those of the uniform prior."""
        return self.coordinates.std(axis=0)

    @property
    def knowledge(self) -> tuple[str, ...]:
        """Knowledge of each parameter: found, vague or unexcited."""
        return knowledge_levels(self.sd)

    @property
    def at_bound(self) -> list[bool]:
        """Whether the median of each parameter (P,) is at a limit."""
        middle = np.median(self.coordinates, axis=0)
        return [abs(value) > _AT_LIMIT for value in middle.tolist()]


def select_converged(learned: TrainingData, z: Array, threads: int = 0) -> ConvergedParticles:
    """
    Return the converged ones of the particles z (N, D) of one system.

    A particle has not converged if its log density is lower than that of the best particle by more
    than a posterior draw ever is (chi-squared, with as many degrees of freedom as coordinates).
    """
    problem = learned.problem
    shooter = MultipleShooting(problem, len(z), learned.windows, threads, slopes=False)
    windows = shooter.simulate(z)
    each = target_density.recording_log_densities(
        shooter, target_density.residuals(shooter, windows)
    )
    each = each + target_density.start_deviations(shooter, z).log_p
    whole = np.where(windows.diverged, -np.inf, each.sum(axis=0))
    there = whole - whole.max() > -0.5 * chi2.isf(_OUTLIER_PROBABILITY, shooter.size)
    best = int(np.argmax(whole))
    errors = (windows.states[best] - shooter.measurements) * problem.scale  # (W, h, S)
    counted = np.broadcast_to(True, errors.shape)
    if problem.observed is not None:
        counted = shooter.by_window(problem.observed)
    recordings = [slice(*ends) for ends in zip(shooter.firsts, shooter.lasts + 1, strict=True)]
    rms = [
        np.sqrt(np.mean(errors[rows] ** 2, axis=(0, 1), where=counted[rows]))
        for rows in recordings
    ]
    parameters = z[there, : shooter.unknown]
    return ConvergedParticles(
        problem.theta(parameters),
        np.clip(parameters, -LIMIT, LIMIT),
        np.moveaxis(windows.states[there][:, shooter.lasts, -1], 1, 0) * problem.scale,
        np.array(rms),
        int(np.sum(~there)),
    )


def check(plant: Plant, learned: TrainingData, converged: ConvergedParticles) -> None:
    """Raise IdentificationError if the particles do not explain the recordings."""
    measured = learned.problem.references
    bounds = [*learned.problem.first_steps, len(measured)]
    for index, name in enumerate(scene.names(plant.model, 'joint')):
        for row, of in enumerate(learned.names):
            begin, end = bounds[row : row + 2]
            span, error = np.ptp(measured[begin:end, index]), converged.residual_rms[row, index]
            noise = learned.problem.noise[index]
            if error > max(_MAX_RESIDUAL_SHARE * span, _EXCESS_NOISE * noise):
                raise IdentificationError(
                    f'{of}: joint {name!r}: the model does not match: no particle comes closer '
                    f'than {error:.3g} rad (or m) to a motion over {span:.3g} (rms): check units, '
                    'signs and commands of the recording, and limits; or give more iterations'
                )
    total = len(converged.theta) + converged.stranded
    fewest = max(_MIN_CONVERGED_SHARE * total, min(posterior_samples.MIN_PARTICLES, total))
    if len(converged.theta) < fewest:
        advice = '; '.join([*noise_advice(plant, learned, converged), 'give more iterations'])
        raise IdentificationError(
            f'only {len(converged.theta)} of {total} particles explain the recording as well as '
            f'the best: {advice}'
        )
    posterior_samples.excited(converged.knowledge)


def noise_advice(plant: Plant, learned: TrainingData, converged: ConvergedParticles) -> list[str]:
    """Return advice on `--noise` where residuals exceed the noise, as a list of messages."""
    rms, noise = np.sqrt(np.mean(converged.residual_rms**2, axis=0)), learned.problem.noise
    names = measurement_names(plant.model)
    told = [
        f'{n}={x:.3g}'
        for n, x, sd in zip(names, rms, noise, strict=True)
        if x > _EXCESS_NOISE * sd
    ]
    if not told:
        return []
    return [
        'the model leaves more than the noise, so that the posterior is too narrow: '
        f'give --noise {" ".join(told)}'
    ]


def forecast(
    learned: TrainingData, converged: ConvergedParticles, theta: Array, threads: int = 0
) -> list[Array]:
    """
    Return forecasts (N, T, S) of the held-out parts by parameters (N, P).

    They begin where the particles end: each its own, or all of the parameters at the only one.
    """
    problem, results = learned.problem, []
    parts = np.split(problem.controls, problem.first_steps[1:])  # of each recording, until then
    for ends, earlier, (_, controls) in zip(converged.ends, parts, learned.later, strict=True):
        starts = np.broadcast_to(ends, (len(theta), ends.shape[1]))
        if not len(controls):  # no held-out part
            results.append(np.empty((len(theta), 0, ends.shape[1])))
            continue
        ensemble = Ensemble(problem.model, problem.parameters, len(theta), 1, threads)
        ensemble.write(theta)
        inputs = Inputs(np.concatenate([earlier, controls]))
        steps = np.arange(len(earlier), len(inputs.ctrl))[None]
        results.append(roll_out(ensemble, inputs, steps, starts[:, None])[0][:, 0])
    return results


def futures(learned: TrainingData, forecasts: Sequence[Array]) -> list[HeldOutForecast]:
    """Return the held-out parts of recordings and their forecasts for plotting."""
    if not forecasts:
        return []
    model = learned.problem.model
    return [
        HeldOutForecast.of_motion(model, measured[:, : model.nq], future[..., : model.nq])
        for future, (measured, _) in zip(forecasts, learned.later, strict=True)
    ]


class SystemResult(NamedTuple):
    """Recordings of one system, and the particles that explain them."""

    learned: TrainingData
    converged: ConvergedParticles
    log_p: Array  # (N,) log density of the windows of all particles
    defect: float  # rms gap between windows, in units of the states' spread
    forecasts: Sequence[Array] = ()
    pieces: Sequence[HeldOutForecast] = ()  # instead, where windows are independent

    @property
    def name(self) -> str:
        """Names of its recordings."""
        return ', '.join(self.learned.names)

    @property
    def held_out(self) -> list[HeldOutForecast]:
        """The held-out parts of recordings and their forecasts for plotting."""
        return list(self.pieces) or futures(self.learned, self.forecasts)


def forecast_pieces(
    plant: Plant, learned: TrainingData, theta: Array, errors: Array, seed: int, threads: int = 0
) -> list[HeldOutForecast]:
    """
    Return forecasts by parameters (N, P) of held-out parts that are not explained as a whole.

    They begin anew every half a second. `errors` (G, nq + nv) are root mean squares of what the
    model leaves in the windows of each recording.
    """
    length = len(learned.problem.controls) // learned.windows
    noise, mean = [], theta.mean(axis=0)
    for (earlier, _), rms in zip(learned.parts, errors, strict=True):
        scale = rms[: plant.model.nq]
        impulses = torque_noise.impulse_covariance(plant, mean, scale, earlier, length, threads)
        noise.append((scale, impulses))
    return window_forecast.forecast_parts(
        plant, theta, learned.parts, noise, length, seed, threads
    )


def explain(
    plant: Plant, learned: TrainingData, z: Array, log_p: Array, defect: float, run: RunSettings,
    theta: Array | None = None,
) -> SystemResult:  # fmt: skip
    """
    Return how particles z (N, D) explain a system, and forecast it.

    Forecasts that begin anew are by parameters `theta` (n, P); default: those of the particles.
    IdentificationError if the particles do not explain the recordings.
    """
    converged = select_converged(learned, z, run.threads)
    check(plant, learned, converged)
    system = SystemResult(learned, converged, log_p, defect)
    if learned.problem.continuous:
        forecasts = forecast(learned, converged, converged.theta, run.threads)
        return system._replace(forecasts=forecasts)
    theta = converged.theta if theta is None else theta
    pieces = forecast_pieces(plant, learned, theta, converged.residual_rms, run.seed, run.threads)
    return system._replace(pieces=pieces)


def summarize(plant: Plant, system: SystemResult) -> dict[str, Any]:
    """Return the estimate of each parameter by particles, and diagnostics."""
    particles = system.converged
    covariance = np.atleast_2d(np.cov(particles.coordinates.T, ddof=0))
    return {
        **_parameters(
            plant, particles.theta, particles.knowledge, particles.at_bound,
            posterior_samples.unobservable_directions(covariance),
        ),
        'particles': len(particles.theta),
        'stranded': particles.stranded,
        **diagnose(plant, system),
    }  # fmt: skip


def diagnose(plant: Plant, system: SystemResult) -> dict[str, Any]:
    """Return how well a system is explained and forecast, and notes, for the summary."""
    learned, noise = system.learned, system.learned.problem.noise
    names = measurement_names(plant.model)
    errors = _forecast_error(learned, system.forecasts)
    measured = np.flatnonzero(np.isfinite(noise)).tolist()
    rms = np.sqrt(np.mean(system.converged.residual_rms**2, axis=0))
    diagnostics: dict[str, Any] = {
        'median_log_likelihood': float(np.median(system.log_p)),
        'defect': system.defect,
        'windows': learned.windows,
        'steps': len(learned.problem.controls),
        'noise': {names[i]: float(noise[i]) for i in measured},
        'residual_in_noise': {names[i]: float(rms[i] / noise[i]) for i in measured},
        'held_out_error': {names[i]: float(errors[i]) for i in measured if np.isfinite(errors[i])},
    }
    if not learned.problem.continuous:
        del diagnostics['defect']
    if system.pieces:
        diagnostics |= window_forecast.summarize(system.pieces, 'position/')
    if notes := [*learned.notes, *noise_advice(plant, learned, system.converged)]:
        diagnostics['notes'] = '; '.join(notes)
    return diagnostics


def _forecast_error(learned: TrainingData, forecasts: Sequence[Array]) -> Array:
    """Return the RMS error (S,) of median forecasts; NaN if there are none."""
    errors = [
        np.median(future, axis=0) - measured
        for future, (measured, _) in zip(forecasts, learned.later, strict=bool(forecasts))
    ]
    squares = np.concatenate(errors) ** 2 if errors else np.empty((0, 0))
    if not len(squares):
        return np.full(len(learned.problem.noise), np.nan)
    return np.asarray(np.sqrt(squares.mean(axis=0)))


def _parameters(
    plant: Plant, theta: Array, knowledge: Sequence[str], at_bound: Sequence[bool],
    directions: Array | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the summary of each parameter, with mean and sd of particles (N, P)."""
    return posterior_samples.summarize(
        plant.unknowns, *posterior_samples.moments(theta), knowledge, directions, at_bound=at_bound
    )


def summarize_all(plant: Plant, systems: Sequence[SystemResult]) -> dict[str, Any]:
    """Return the combined summary of several systems, and that of each."""
    each = {system.name: summarize(plant, system) for system in systems}
    if len(systems) == 1:
        return next(iter(each.values()))
    theta = np.concatenate([system.converged.theta for system in systems])
    rows = [[summary['parameters'][u.name] for summary in each.values()] for u in plant.unknowns]
    knowledge = [max((x['knowledge'] for x in of), key=_KNOWLEDGE_ORDER.index) for of in rows]
    at_bound = [any(x['at_bound'] for x in of) for of in rows]
    whole = _parameters(plant, theta, knowledge, at_bound)
    for name in ('particles', 'stranded', 'windows', 'steps'):
        whole[name] = sum(summary[name] for summary in each.values())
    notes = [f'{of}: {summary.pop("notes")}' for of, summary in each.items() if 'notes' in summary]
    if notes:
        whole['notes'] = '; '.join(notes)
    return whole | {'systems': each}
