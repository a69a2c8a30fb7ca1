"""Summarize identified bodies, draw posterior samples, and forecast held-out torques."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.figures import HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.rigid_body import (
    arm,
    body_posterior,
    composite_bodies,
    motion_samples,
    torque_fit,
)
from emppi_ros.identification.rigid_body.arm import ARMATURE, BODY_PARAMETERS, FRICTION, regressor
from emppi_ros.identification.rigid_body.inference import RigidBodyEstimate
from emppi_ros.identification.rigid_body.motion_samples import DifferentiatedMotion
from emppi_ros.identification.rigid_body.recordings import RecordedArm
from emppi_ros.identification.rigid_body.torque_fit import DRY, OFFSETS, STRIBECK
from emppi_ros.model import scene
from emppi_ros.recordings.signals import joint_units

_RANK = 1e-8  # relative to the largest: smaller ones are unexcited
_ADVICE = (
    'record a motion that moves every joint at once, over much of its range, with accelerations '
    'of both signs (`emppi excite` makes such motions)'
)


class PosteriorDraws(NamedTuple):
    """Posterior samples."""

    bodies: Array  # (N, 12 B)
    coefficients: Array  # (N, nv, e) of non-inertial torques, as in `torque_fit.shapes`

    def values(self, estimate: RigidBodyEstimate) -> Array:
        """Return the parameters (N, P)."""
        return composite_bodies.parameter_values(
            estimate.parameter_map, estimate.constraints, self.bodies, self.coefficients[:, :, DRY]
        )


def draw(estimate: RigidBodyEstimate, spread: float, count: int, seed: int) -> PosteriorDraws:
    """Return posterior samples of bodies and other torques, with `spread` times the sd."""
    information = estimate.fit.normal.information / spread**2
    score = estimate.fit.normal.score / spread**2
    rng = np.random.default_rng(seed)
    drawn = body_posterior.sample_bodies(
        information, score, body_posterior.PRIOR, estimate.constraints, count, rng
    )
    return PosteriorDraws(drawn, estimate.fit.normal.draw(drawn, spread, rng))


def summarize(plant: Plant, estimate: RigidBodyEstimate, draws: PosteriorDraws) -> dict[str, Any]:
    """Return the estimate of each parameter, with sd from draws, and diagnostics."""
    recorded, fit = estimate.arm, estimate.fit
    mode = PosteriorDraws(fit.parameters[None], fit.coefficients[None])
    sd = draws.values(estimate).std(axis=0)
    shares = sd / np.hypot(sd, plant.scales)  # as if the scale were the sd of a prior
    names = scene.names(recorded.model, 'joint')
    counts = [len(recording.training.samples.torque) for recording in recorded.recordings]
    ratios = np.array([misfit.factors for misfit in estimate.misfits])
    coefficients = fit.coefficients

    def named(values: Array) -> dict[str, float]:
        return dict(zip(names, values.tolist(), strict=True))

    summary = posterior_samples.summarize(
        plant.unknowns, mode.values(estimate)[0], sd, posterior_samples.knowledge_levels(shares)
    )
    summary |= {
        'bodies': {
            name: body._asdict()
            for name, body in composite_bodies.body_inertials(
                estimate.parameter_map, estimate.constraints, fit.parameters
            )
        },
        'friction': named(fit.parameters[FRICTION::BODY_PARAMETERS]),
        'dry_friction': named(coefficients[:, DRY]),
        'stribeck_friction': named(coefficients[:, STRIBECK]),
        'stribeck_velocity': named(estimate.stribeck),
        'armature': named(fit.parameters[ARMATURE::BODY_PARAMETERS]),
        'armature_sd': named(draws.bodies[:, ARMATURE::BODY_PARAMETERS].std(axis=0)),
        'recordings': {
            recording.name: {
                'samples': count,
                'held_out': len(recording.held_out.samples.torque) if recording.held_out else 0,
                'window_s': recording.training.window_s,
                'torque_lag_s': lag,
                'left_in_noise': float(np.sqrt(np.mean(misfit.factors**2))),
                'widened_by': named(misfit.widening),
                'offset': named(offset),
            }
            for recording, count, lag, misfit, offset in zip(
                recorded.recordings,
                counts,
                estimate.lags_s,
                estimate.misfits,
                coefficients[:, OFFSETS:].T,
                strict=True,
            )
        },
        'turns': fit.iterations,
        'torque_left': named(np.sqrt(np.mean(fit.residuals**2, axis=0))),
        'left_in_noise': named(np.sqrt(np.average(ratios**2, axis=0, weights=counts))),
    }
    notes = [*estimate.notes, *note_contradictions(estimate, draws)]
    return summary | {'notes': '; '.join(notes)} if notes else summary


def note_contradictions(estimate: RigidBodyEstimate, draws: PosteriorDraws) -> list[str]:
    """Return notes on bodies that the scene and the named parameters do not describe."""
    rows = composite_bodies.contradictions(
        estimate.parameter_map, estimate.constraints, draws.bodies
    )
    return [
        f'{name}: its mass, centre and inertia were all estimated, but the prior has the named '
        f'parameters only: with the centre of the scene they mean a first moment of '
        f'{np.median(stored):.3g} kg m, and the estimate is {np.median(moments):.3g} (sd '
        f'{moments.std():.2g}): add {field} to the parameters, or take the scene of --mjcf'
        for name, field, moments, stored in rows
    ]


def check(plant: Plant, summary: dict[str, Any], theta: Array) -> None:
    """Raise IdentificationError if no parameter is excited, or one is out of bounds."""
    rows = summary['parameters']
    unexcited = [name for name, row in rows.items() if row['knowledge'] == 'unexcited']
    if len(unexcited) == len(rows):
        raise IdentificationError(
            f'unexciting: this motion does not excite {", ".join(unexcited)}: {_ADVICE}'
        )
    for unknown, column in zip(plant.unknowns, theta.T, strict=True):
        value, sd = rows[unknown.name]['value'], rows[unknown.name]['sd']
        if unknown.name not in unexcited and not np.any(
            (column > unknown.lower) & (column < unknown.upper)
        ):
            raise IdentificationError(
                f'{unknown.name}: estimate {value:.4g} (sd {sd:.2g}) {unknown.unit} is not within '
                f'{unknown.lower:g} and {unknown.upper:g}: check its bounds, and bodies of the '
                'scene that are welded to it'
            )


def within_bounds(plant: Plant, columns: list[int], theta: Array) -> Array:
    """Return the draws (m, K) of the kept parameters that lie within bounds."""
    low, high = (bound[columns] for bound in plant.bounds)
    kept = theta[:, columns]
    return posterior_samples.first_samples(kept[np.all((kept > low) & (kept < high), axis=1)])


class TorqueForecast(NamedTuple):
    """Torques forecast for T held-out samples."""

    held_out: DifferentiatedMotion
    best: Array  # (T, nv) torques of the estimated bodies
    noise: Array  # (T, nv, nv) covariance from noise of motion and torques, and misfit
    draws: Array  # (N, T, nv) torques of posterior draws
    least_squares: Array  # (T, nv) torques of ordinary least squares with the same unknowns


def forecast(estimate: RigidBodyEstimate, draws: PosteriorDraws) -> list[TorqueForecast]:
    """Return the torque forecast of each recording along its measured motion."""
    model, free = estimate.arm.model, estimate.constraints.free
    parameters, coefficients = estimate.fit.parameters, estimate.fit.coefficients
    held_out = [recording.held_out for recording in estimate.arm.recordings]
    least = least_squares(estimate) if any(held_out) else np.empty(0)
    forecasts = []
    for index, part in enumerate(held_out):
        if part is None:
            continue
        states, torque = part.samples
        shapes = torque_fit.shapes_of(
            part, estimate.options, estimate.stribeck, index, len(held_out)
        )
        rows = regressor(model, *states)
        bodies = (np.vstack([parameters, draws.bodies]) @ rows.T).reshape(-1, *torque.shape)
        numbers = np.concatenate([coefficients[None], draws.coefficients])[:, None]
        torques = bodies + np.sum(shapes * numbers, axis=-1)
        slopes = arm.torque_jacobian(arm.with_parameters(model, parameters), states)
        misfit = estimate.misfits[index]
        wider = misfit.widen(part.noise, misfit.factors)
        noise = slopes * wider.states.ravel() ** 2 @ np.swapaxes(slopes, 1, 2)
        fixed = (rows[:, ~free] @ parameters[~free]).reshape(torque.shape)
        theirs = torque_fit.linear_columns(model, states, shapes, free) @ least
        forecasts.append(
            TorqueForecast(
                part,
                torques[0],
                noise + np.diag(wider.torque**2),
                torques[1:],
                fixed + theirs.reshape(torque.shape),
            )
        )
    return forecasts


def least_squares(estimate: RigidBodyEstimate) -> Array:
    """Return the unknowns (p,) by ordinary least squares: equal weights, any bodies."""
    model, free = estimate.arm.model, estimate.constraints.free
    parts = [recording.training for recording in estimate.arm.recordings]
    samples, _ = motion_samples.concatenate(parts)
    shapes = torque_fit.shapes(parts, estimate.options, estimate.stribeck)
    rows = torque_fit.linear_columns(model, samples.states, shapes, free)
    fixed = regressor(model, *samples.states)[:, ~free] @ estimate.fit.parameters[~free]
    units = np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    solution: Array = np.linalg.lstsq(rows / units, samples.torque.ravel() - fixed, rcond=_RANK)[0]
    return solution / units


def summarize_forecasts(
    recorded: RecordedArm, forecasts: Sequence[TorqueForecast]
) -> dict[str, dict[str, float]]:
    """Return rms errors of joints: in N m (or N), in sd, and in percent of the sd of torques."""
    if not forecasts:
        return {}
    measured = np.concatenate([part.held_out.samples.torque for part in forecasts])
    square = (measured - np.concatenate([part.best for part in forecasts])) ** 2
    variance = np.concatenate(
        [np.diagonal(f.noise, axis1=1, axis2=2) + f.draws.var(axis=0) for f in forecasts]
    )
    theirs = (measured - np.concatenate([part.least_squares for part in forecasts])) ** 2
    errors = square, square / variance, theirs
    error, share, least = (np.sqrt(np.mean(x, axis=0)) for x in errors)
    percent = 100.0 / measured.std(axis=0)
    rows = {
        'held_out_error': error,
        'held_out_in_noise': share,
        'held_out_percent': percent * error,
        'least_squares_percent': percent * least,
    }
    names = scene.names(recorded.model, 'joint')
    return {key: dict(zip(names, row.tolist(), strict=True)) for key, row in rows.items()}


def futures(
    recorded: RecordedArm, forecasts: Sequence[TorqueForecast], seed: int
) -> list[HeldOutForecast]:
    """Return forecasts for plotting; noise is added, as measurements have it."""
    model, rng, plotted = recorded.model, np.random.default_rng(seed), []
    labels = [
        (name, joint_units(model, joint)['force'])
        for joint, name in enumerate(scene.names(model, 'joint'))
    ]
    for part in forecasts:
        normal = rng.standard_normal((*part.draws.shape, 1))
        noisy = part.draws + (np.linalg.cholesky(part.noise) @ normal)[..., 0]
        steps = np.arange(len(part.best), dtype=np.float64)
        time = 0.5 * part.held_out.window_s + part.held_out.step_s * steps
        plotted.append(HeldOutForecast(time, labels, part.held_out.samples.torque, noisy))
    return plotted
