"""The method `states`: least squares over states and parameters of all recordings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import positive
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification import methods
from emppi_ros.identification.common import figures, posterior_samples
from emppi_ros.identification.common.figures import Convergence, HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.states import diagnostics, forecast
from emppi_ros.identification.states.estimation import StatesEstimate, estimate
from emppi_ros.identification.states.solver import Iterate, ProgressCallback, SolverConfig
from emppi_ros.model import scene
from emppi_ros.recordings.motion import Motion, default_step, join, resample_and_split
from emppi_ros.recordings.recordings import Recording, named_errors, recording_names

_FORECAST_SAMPLES = 100
_WIDER = 2.0  # factor between the spreads that are tried


@dataclass(frozen=True)
class StatesOptions:
    """Options of the method `states`."""

    state_weight: float = positive(
        SolverConfig().state_weight,
        'weight of squared impulse errors against squared observation errors; too small fits '
        'noise, too large slows convergence',
    )
    spread: float = methods.spread()


class StatesMethod(Method):
    """Least squares over states and parameters, with a linearised posterior."""

    description = 'least squares over states and parameters'
    options = StatesOptions
    held_out = 0.2

    def default_step(self, plant: Plant, recordings: Sequence[Recording]) -> float:
        """Return the scene's step, or 1 ms if joints were sampled at a shorter period."""
        return default_step(recordings, plant.model)

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: StatesOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit each recording alone, then all together, and forecast the held-out parts."""
        plant.require_inverse()
        config = SolverConfig(state_weight=options.state_weight)
        names = recording_names(recordings)
        parts = resample_and_split(recordings, plant.model, plant.bodies, run.held_out)
        searches = 1 if len(parts) == 1 else len(parts) + 1  # each alone, and all together
        total, costs = 2 * config.iterations * searches, list[float]()
        with run.progress('states', total, 'iterations') as advance:

            def progress(iterate: Iterate) -> None:
                costs.append(iterate.mean_cost)
                advance(len(costs), f'mean cost {costs[-1]:.4g}')

            motions = [earlier for earlier, _ in parts]
            result, notes = fit_recordings(plant, motions, names, config, progress)
            lag_s, advice = diagnostics.note_timing(result, recordings, run.held_out)
            advance(total)
        summary = summarize(result)
        if lag_s is not None:
            summary['command_lag_s'] = lag_s
        notes += advice
        notes += diagnostics.note_deviations(result, names, recordings)
        prior = draw_prior(result, parts, options.spread, run.seed)
        if prior.missed and run.out is not None:
            raise IdentificationError('; '.join([*prior.notes(options.spread), *notes]))
        notes += prior.notes(options.spread)
        if notes:
            summary['notes'] = '; '.join(notes)
        if prior.forecasts:
            summary['held_out_error'] = figures.forecast_error(prior.forecasts)
        return Identification(
            summary,
            prior.samples,
            posterior_samples.excited(result.knowledge),
            {
                'state_weight': config.state_weight,
                'step_s': float(plant.model.opt.timestep),
                'spread': prior.spread,
                'seed': run.seed,
                'held_out': run.held_out,
            },
            convergence=Convergence('mean cost', np.array(costs[-result.solution.iterations :])),
            forecasts=lambda: prior.forecasts,
        )


def fit_recordings(
    plant: Plant, motions: Sequence[Motion], names: Sequence[str], config: SolverConfig,
    progress: ProgressCallback,
) -> tuple[StatesEstimate, list[str]]:  # fmt: skip
    """
    Return the estimate from the motions of all recordings, and notes where they disagree.

    Each motion is also fitted alone, so that errors name the recording. Raises
    IdentificationError if a motion is not explained, or no parameter is excited.
    """
    alone = []
    for name, motion in zip(names, motions, strict=True):
        with named_errors(name):
            fit = estimate(plant, motion, config, progress)
            diagnostics.check_model(fit)
            alone.append(fit)
    result, notes = alone[0], list[str]()
    if len(motions) > 1:
        result = estimate(plant, join(motions), config, progress)
        notes = diagnostics.note_disagreement(names, alone, result)
        try:
            diagnostics.check_model(result)
        except IdentificationError as error:
            text = f'each recording alone is explained, but not all together: {error}'
            raise IdentificationError('; '.join([*notes, text])) from None
    posterior_samples.excited(result.knowledge)
    return result, notes


def draw_samples(result: StatesEstimate, spread: float, seed: int) -> Array:
    """Return samples (n, P) of the linearised posterior, `spread` times as wide (section 4.5)."""
    kept = posterior_samples.excited(result.knowledge)
    covariance = spread**2 * result.uncertainty.covariance
    return posterior_samples.draw_linearised(result.plant, result.theta, covariance, kept, seed)


class CheckedPrior(NamedTuple):
    """Samples of a prior, and the held-out parts as it forecasts them."""

    samples: Array  # (n, P)
    spread: float  # factor on the standard deviations of the posterior
    forecasts: list[HeldOutForecast]
    missed_before: dict[str, float]  # standard deviations, with the spread that was asked for
    missed: dict[str, float]  # with this spread

    def notes(self, asked: float) -> list[str]:
        """Return notes for the user who asked for a spread."""
        if not self.missed_before:
            return []
        each = ', '.join(f'{name} by {x:.2g}' for name, x in self.missed_before.items())
        begin = f'forecasts of the held-out part miss {each} standard deviations'
        if self.missed:
            return [
                f'{begin}, and no spread of the parameters explains them: the model lacks '
                'something, or its step is too long: no prior is written'
            ]
        return [
            f'{begin} with --spread {asked:g}: the prior has {self.spread / asked:g} times its '
            'standard deviations: the model is less exact than its estimates seem'
        ]


def draw_prior(
    result: StatesEstimate, parts: Sequence[tuple[Motion, Motion]], asked: float, seed: int
) -> CheckedPrior:
    """
    Return samples that are as wide as their forecasts of the held-out parts require.

    The spread is doubled until the measurements lie within the forecasts. It is that `asked` for
    if nothing is held out, or if no spread is wide enough.
    """
    ends = forecast.end_states(result) if any(later.steps for _, later in parts) else []

    def draw(spread: float) -> CheckedPrior:
        samples = draw_samples(result, spread, seed)
        if not ends:
            return CheckedPrior(samples, spread, [], {}, {})
        forecasts = forecast.forecast_parts(result, samples[:_FORECAST_SAMPLES], parts, ends, seed)
        missed = forecast.contradictions(result, parts, forecasts)
        return CheckedPrior(samples, spread, forecasts, missed, missed)

    first = last = draw(asked)
    kept = posterior_samples.excited(result.knowledge)
    shares = (result.uncertainty.sd / result.plant.scales)[kept]
    while last.missed:
        spread = _WIDER * last.spread
        if 'unexcited' in posterior_samples.knowledge_levels(spread * shares):
            return first
        try:
            last = draw(spread)
        except IdentificationError:  # wider than the bounds
            return first
    return last._replace(missed_before=first.missed)


def summarize(result: StatesEstimate) -> dict[str, Any]:
    """Return each parameter with its uncertainty, and the convergence of the search."""
    plant, solution, uncertainty = result.plant, result.solution, result.uncertainty

    def by_dof(values: Array) -> dict[str, float]:
        """Return root mean squares over recordings (R, nv) by the name of the dof."""
        rms = np.sqrt(np.mean(values**2, axis=0)).tolist()
        return dict(zip(_dof_names(plant.model), rms, strict=True))

    return {
        **posterior_samples.summarize(
            plant.unknowns,
            result.theta,
            uncertainty.sd,
            result.knowledge,
            uncertainty.directions,
            at_bound=plant.at_bound(result.theta),
        ),
        'iterations': solution.iterations,
        'converged': solution.converged,
        'mean_cost': solution.mean_cost,
        'step_s': float(plant.model.opt.timestep),
        'steps': len(solution.qpos),
        'observation_sd': by_dof(uncertainty.observation_sd),
        'impulse_sd': by_dof(uncertainty.impulse_sd),
    }


def _dof_names(model: mujoco.MjModel) -> list[str]:
    """Return names of degrees of freedom: that of the joint, with an axis if it has several."""
    axes = {
        mujoco.mjtJoint.mjJNT_FREE.value: [' x', ' y', ' z', ' about x', ' about y', ' about z'],
        mujoco.mjtJoint.mjJNT_BALL.value: [' about x', ' about y', ' about z'],
    }
    joints = zip(scene.names(model, 'joint'), model.jnt_type.tolist(), strict=True)
    return [name + axis for name, kind in joints for axis in axes.get(kind, [''])]
