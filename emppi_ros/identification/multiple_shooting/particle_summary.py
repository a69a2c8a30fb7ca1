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
from emppi_ros.identification.methods import RunSettings
from emppi_ros.identification.multiple_shooting import forecast as window_forecast
from emppi_ros.identification.multiple_shooting.particles import MultipleShooting, log_density
from emppi_ros.identification.multiple_shooting.training_data import (
    LIMIT,
    TrainingData,
    measurement_names,
)
from emppi_ros.identification.multiple_shooting.window_search import parameter_covariance
from emppi_ros.identification.multiple_shooting.windows import Inputs, roll_out
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
    best: Array  # (D,) the particle with the highest density

    @property
    def knowledge(self) -> tuple[str, ...]:
        """Knowledge of each parameter: found, vague or unexcited."""
        return posterior_samples.knowledge_levels(self.coordinates.std(axis=0))

    @property
    def at_bound(self) -> list[bool]:
        """Whether the median of each parameter (P,) is at a limit."""
        return (np.abs(np.median(self.coordinates, axis=0)) > _AT_LIMIT).tolist()


class SystemResult(NamedTuple):
    """Recordings of one system, and the particles that explain them."""

    learned: TrainingData
    converged: ConvergedParticles
    log_p: Array  # (N,) log density of the windows of all particles
    defect: float  # rms gap between windows, in units of the states' spread
    forecasts: Sequence[Array]  # (N, T, S) of the held-out part of each recording
    pieces: Sequence[HeldOutForecast]  # instead, where windows are independent

    @property
    def held_out(self) -> list[HeldOutForecast]:
        """The held-out parts of recordings and their forecasts for plotting."""
        model, later = self.learned.problem.model, self.learned.later
        return list(self.pieces) or [
            HeldOutForecast.of_motion(model, measured[:, : model.nq], future[..., : model.nq])
            for future, measured in zip(self.forecasts, later, strict=bool(self.forecasts))
        ]


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
    forecasts, pieces = list[Array](), list[HeldOutForecast]()
    if learned.problem.continuous:
        forecasts = forecast(learned, converged, converged.theta, run.threads)
    else:
        theta = converged.theta if theta is None else theta
        errors = converged.residual_rms
        pieces = forecast_pieces(plant, learned, theta, errors, run.seed, run.threads)
    return SystemResult(learned, converged, log_p, defect, forecasts, pieces)


def select_converged(learned: TrainingData, z: Array, threads: int = 0) -> ConvergedParticles:
    """
    Return the converged ones of the particles z (N, D) of one system.

    A particle has not converged if its log density is lower than that of the best particle by more
    than a posterior draw ever is (chi-squared, with as many degrees of freedom as coordinates).
    """
    problem = learned.problem
    shooter = MultipleShooting(problem, len(z), learned.windows, threads, slopes=False)
    windows = shooter.simulate(z)
    log_p = log_density(shooter, z, windows)
    there = log_p - log_p.max() > -0.5 * chi2.isf(_OUTLIER_PROBABILITY, shooter.size)
    errors = (windows.states[np.argmax(log_p)] - shooter.measurements) * problem.scale
    counted = shooter.by_window(np.broadcast_to(problem.observed, problem.references.shape))
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
        z[np.argmax(log_p)],
    )


def check(plant: Plant, learned: TrainingData, converged: ConvergedParticles) -> None:
    """Raise IdentificationError if the particles do not explain the recordings."""
    parts = np.split(learned.problem.references, learned.problem.first_steps[1:])
    for index, name in enumerate(scene.names(plant.model, 'joint')):
        least = _EXCESS_NOISE * learned.problem.noise[index]
        for of, part, errors in zip(learned.names, parts, converged.residual_rms, strict=True):
            span, error = np.ptp(part[:, index]), errors[index]
            if error > max(_MAX_RESIDUAL_SHARE * span, least):
                raise IdentificationError(
                    f'{of}: joint {name!r}: the model does not match: no particle comes closer '
                    f'than {error:.3g} rad (or m) to a motion over {span:.3g} (rms): check units, '
                    'signs and commands of the recording, and limits; or give more iterations'
                )
    total = len(converged.theta) + converged.stranded
    fewest = max(_MIN_CONVERGED_SHARE * total, min(posterior_samples.MIN_PARTICLES, total))
    if len(converged.theta) < fewest:
        advice = [_noise_advice(learned, converged), 'give more iterations']
        raise IdentificationError(
            f'only {len(converged.theta)} of {total} particles explain the recording as well as '
            f'the best: {"; ".join(filter(None, advice))}'
        )
    posterior_samples.excited(converged.knowledge)


def _noise_advice(learned: TrainingData, converged: ConvergedParticles) -> str:
    """Return advice on `--noise` where residuals exceed the noise, or ''."""
    rms, noise = np.sqrt(np.mean(converged.residual_rms**2, axis=0)), learned.problem.noise
    names = measurement_names(learned.problem.model)
    told = [f'{names[i]}={rms[i]:.3g}' for i in np.flatnonzero(rms > _EXCESS_NOISE * noise)]
    if not told:
        return ''
    return (
        'the model leaves more than the noise, so that the posterior is too narrow: '
        f'give --noise {" ".join(told)}'
    )


def forecast(
    learned: TrainingData, converged: ConvergedParticles, theta: Array, threads: int = 0
) -> list[Array]:
    """Return forecasts (N, T, S) of held-out parts by parameters (N, P), from the final states."""
    problem, results = learned.problem, []
    for ends, (earlier, later) in zip(converged.ends, learned.parts, strict=True):
        if not later.steps:
            results.append(np.empty((len(theta), 0, ends.shape[1])))
            continue
        ensemble = Ensemble(problem.model, problem.parameters, len(theta), 1, threads)
        ensemble.write(theta)
        inputs = Inputs(np.concatenate([earlier.ctrl, later.ctrl]))
        steps = earlier.steps - 1 + np.arange(later.steps)[None]
        # each from its own, or all from the only one
        starts = np.broadcast_to(ends, (len(theta), ends.shape[1]))
        results.append(roll_out(ensemble, inputs, steps, starts[:, None])[0][:, 0])
    return results


def forecast_pieces(
    plant: Plant, learned: TrainingData, theta: Array, errors: Array, seed: int, threads: int = 0
) -> list[HeldOutForecast]:
    """Return forecasts that begin anew; `errors` (G, nq + nv) are rms residuals of windows."""
    length = len(learned.problem.controls) // learned.windows
    noise, mean = [], theta.mean(axis=0)
    for (earlier, _), scale in zip(learned.parts, errors[:, : plant.model.nq], strict=True):
        impulses = window_forecast.impulse_covariance(plant, mean, scale, earlier, length, threads)
        noise.append((scale, impulses))
    return window_forecast.forecast_parts(
        plant, theta, learned.parts, noise, length, seed, threads
    )


def diagnose(system: SystemResult) -> dict[str, Any]:
    """Return how well a system is explained and forecast, and notes, for the summary."""
    learned, noise = system.learned, system.learned.problem.noise
    names = measurement_names(learned.problem.model)
    errors = _forecast_error(system)
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
    missing = ''
    if not learned.problem.continuous:
        step_s = float(learned.problem.model.opt.timestep)
        missing = window_forecast.note_missing(learned.parts, system.pieces, step_s)
    advice = learned.note, _noise_advice(learned, system.converged), missing
    if notes := [*filter(None, advice)]:
        diagnostics['notes'] = '; '.join(notes)
    return diagnostics


def _forecast_error(system: SystemResult) -> Array:
    """Return the RMS error (S,) of median forecasts; NaN if there are none."""
    later = system.learned.later
    errors = [np.median(f, axis=0) - m for f, m in zip(system.forecasts, later, strict=False)]
    if not any(map(len, errors)):
        return np.full(len(system.learned.problem.noise), np.nan)
    return np.asarray(np.sqrt(np.mean(np.concatenate(errors) ** 2, axis=0)))


def summarize_all(plant: Plant, systems: Sequence[SystemResult]) -> dict[str, Any]:
    """Return the combined summary of several systems, and that of each."""
    each = {', '.join(s.learned.names): _summarize(plant, s) for s in systems}
    if len(systems) == 1:
        return next(iter(each.values()))
    theta = np.concatenate([system.converged.theta for system in systems])
    rows = [[summary['parameters'][u.name] for summary in each.values()] for u in plant.unknowns]
    knowledge = [max((x['knowledge'] for x in of), key=_KNOWLEDGE_ORDER.index) for of in rows]
    at_bound = [any(x['at_bound'] for x in of) for of in rows]
    moments = posterior_samples.moments(theta)
    whole = posterior_samples.summarize(plant.unknowns, *moments, knowledge, at_bound=at_bound)
    for name in ('particles', 'stranded', 'windows', 'steps'):
        whole[name] = sum(summary[name] for summary in each.values())
    notes = [f'{of}: {summary.pop("notes")}' for of, summary in each.items() if 'notes' in summary]
    if notes:
        whole['notes'] = '; '.join(notes)
    return whole | {'systems': each}


def _summarize(plant: Plant, system: SystemResult) -> dict[str, Any]:
    """Return the estimate of each parameter by particles, and diagnostics."""
    particles = system.converged
    # bounds narrow particles also along directions of which the data say nothing
    covariance = parameter_covariance(system.learned, particles.best)
    return {
        **posterior_samples.summarize(
            plant.unknowns, *posterior_samples.moments(particles.theta), particles.knowledge,
            posterior_samples.unobservable_directions(covariance), at_bound=particles.at_bound,
        ),
        'particles': len(particles.theta),
        'stranded': particles.stranded,
        **diagnose(system),
    }  # fmt: skip
