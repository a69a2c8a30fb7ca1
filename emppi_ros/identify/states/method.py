"""The method `states`: least squares over states and parameters of all recordings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import positive
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import figures, posterior_samples
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common.figures import Convergence, HeldOutForecast
from emppi_ros.identify.common.motion import Motion, delay_rows, difference, join, resample
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording, named_errors, recording_names
from emppi_ros.identify.common.signals import MIN_SAMPLES
from emppi_ros.identify.methods import Identification, Method, RunSettings
from emppi_ros.identify.states import diagnostics
from emppi_ros.identify.states.estimation import StatesEstimate, estimate
from emppi_ros.identify.states.solver import Iterate, ProgressCallback, SolverConfig
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_FORECAST_SAMPLES = 100


@dataclass(frozen=True)
class StatesOptions:
    """Options of the method `states`."""

    state_weight: float = positive(
        SolverConfig().state_weight,
        'weight of squared impulse errors against squared observation errors; too small fits '
        'noise, too large slows convergence',
    )
    spread: float = fields.spread()


class StatesMethod(Method):
    """Least squares over states and parameters, with a linearised posterior."""

    description = 'least squares over states and parameters'
    options = StatesOptions

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: StatesOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit each recording alone, then all together, and forecast the held-out parts."""
        config = SolverConfig(state_weight=options.state_weight)
        names = recording_names(recordings)
        parts = []
        for name, recording in zip(names, recordings, strict=True):
            with named_errors(name):
                motion = resample(recording, plant.model, plant.bodies)
                parts.append(split(motion, run.held_out))
        searches = 1 if len(parts) == 1 else len(parts) + 1  # each alone, and all together
        total, costs = 2 * config.iterations * searches, list[float]()
        with run.progress('states', total, 'iterations') as advance:

            def progress(iterate: Iterate) -> None:
                costs.append(iterate.mean_cost)
                advance(len(costs), f'mean cost {costs[-1]:.4g}')

            motions = [known for known, _ in parts]
            motion, result, notes = fit_recordings(plant, motions, names, config, progress)
            lag = diagnostics.estimate_lag(plant, motion, config, result)
            advance(total)
        samples = draw_samples(plant, result, options.spread, run.seed)
        summary = summarize(plant, result)
        if lag is not None:
            summary['command_lag_s'] = lag.seconds
            notes = [*notes, *lag.notes]
        notes = [*notes, *diagnostics.note_deviations(plant, names, recordings, motion, result)]
        if notes:
            summary['notes'] = '; '.join(notes)
        forecasts = list[HeldOutForecast]()
        for (known, later), rows in zip(parts, motion.parts, strict=True):
            if not later.steps:
                continue
            reached = replace(known, qpos=result.solution.qpos[rows])
            qpos = forecast(plant, samples[:_FORECAST_SAMPLES], reached, later)
            forecasts.append(HeldOutForecast.of_motion(plant.model, later.qpos, qpos))
        if forecasts:
            summary['held_out_error'] = figures.forecast_error(forecasts)
        return Identification(
            summary,
            samples,
            posterior_samples.excited(result.knowledge),
            {
                'state_weight': config.state_weight,
                'step_s': float(plant.model.opt.timestep),
                'spread': options.spread,
                'seed': run.seed,
                'held_out': run.held_out,
            },
            convergence=Convergence('mean cost', np.array(costs[-result.solution.iterations :])),
            forecasts=lambda: forecasts,
        )


class JointFit(NamedTuple):
    """The estimate from all motions."""

    motion: Motion  # all of them, joined
    result: StatesEstimate
    notes: list[str]  # parameters on which the recordings disagree


def fit_recordings(
    plant: Plant, motions: Sequence[Motion], names: Sequence[str], config: SolverConfig,
    progress: ProgressCallback = lambda _: None,
) -> JointFit:  # fmt: skip
    """
    Return the parameters that explain all motions, one of each recording.

    Each motion is also fitted alone, so that errors name the recording. Raises
    IdentificationError if a motion is not explained, or no parameter is excited.
    """
    alone = []
    for name, motion in zip(names, motions, strict=True):
        with named_errors(name):
            one = estimate(plant, motion, config, progress)
            diagnostics.check_model(plant, motion, one)
            alone.append(one)
    joined, result, notes = motions[0], alone[0], list[str]()
    if len(motions) > 1:
        joined = join(motions)
        result = estimate(plant, joined, config, progress)
        notes = diagnostics.note_disagreement(plant, names, alone, result)
        try:
            diagnostics.check_model(plant, joined, result)
        except IdentificationError as error:
            text = f'each recording alone is explained, but not all together: {error}'
            raise IdentificationError('; '.join([*notes, text])) from None
    posterior_samples.excited(result.knowledge)
    return JointFit(joined, result, notes)


def draw_samples(plant: Plant, result: StatesEstimate, spread: float, seed: int) -> Array:
    """
    Return samples (n, P) of the linearised posterior, with its correlations.

    Parameters that were not excited are equal in all samples. `spread` multiplies the standard
    deviations, which the paper finds too small by several times (section 4.5).
    """
    kept = posterior_samples.excited(result.knowledge)
    samples = np.tile(result.theta, (posterior_samples.PRIOR_SAMPLES, 1))
    samples[:, kept] = posterior_samples.draw_within_bounds(
        result.theta[kept],
        spread**2 * result.uncertainty.covariance[np.ix_(kept, kept)],
        plant.scales[kept],
        (plant.bounds[0][kept], plant.bounds[1][kept]),
        np.random.default_rng(seed),
    )
    return samples


def summarize(plant: Plant, result: StatesEstimate) -> dict[str, Any]:
    """Return each parameter with its uncertainty, and the convergence of the search."""
    solution, uncertainty = result.solution, result.uncertainty
    at_bound = [value in ends for value, *ends in zip(result.theta, *plant.bounds, strict=True)]
    names = [unknown.name for unknown in plant.unknowns]
    dofs = _dof_names(plant.model)
    return {
        'parameters': posterior_samples.parameter_rows(
            plant.unknowns, result.theta, uncertainty.sd, result.knowledge, at_bound=at_bound
        ),
        # in the parameters' scales
        'unexcited_directions': posterior_samples.describe_directions(
            uncertainty.directions, names
        ),
        'iterations': solution.iterations,
        'converged': solution.converged,
        'mean_cost': solution.mean_cost,
        'steps': len(solution.qpos),
        'observation_sd': dict(zip(dofs, _rms(uncertainty.observation_sd), strict=True)),
        'impulse_sd': dict(zip(dofs, _rms(uncertainty.impulse_sd), strict=True)),
    }


def _dof_names(model: mujoco.MjModel) -> list[str]:
    """Return names of degrees of freedom: that of the joint, with an axis if it has several."""
    names = []
    for joint, name in enumerate(scene.names(model, 'joint')):
        if scene.is_scalar(model, joint):
            names.append(name)
            continue
        turns = [f'{name} about {axis}' for axis in 'xyz']
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE.value
        names += [*(f'{name} {axis}' for axis in 'xyz'), *turns] if free else turns
    return names


def _rms(values: Array) -> list[float]:
    """Return root mean squares over recordings."""
    return np.sqrt(np.mean(values**2, axis=0)).tolist()


def split(motion: Motion, share: float) -> tuple[Motion, Motion]:
    """Return the part of a motion to learn from, and the last share, which is held out."""
    count = motion.steps - int(share * motion.steps)
    if count < MIN_SAMPLES:
        raise IdentificationError(
            f'{share:.3%} held out of {motion.steps} steps leaves {count}, expected '
            f'{MIN_SAMPLES}: hold out less, or record for longer'
        )
    parts = (motion.qpos, motion.weights, motion.ctrl, motion.applied)
    return Motion(*(x[:count] for x in parts)), Motion(*(x[count:] for x in parts))


def forecast(plant: Plant, thetas: Array, known: Motion, later: Motion) -> Array:
    """
    Return forecasts (n, T, nq) of a motion from its last two known configurations.

    For each of `thetas` (n, P) MuJoCo simulates the T steps of `later`, with its inputs.
    """
    before = slice(known.steps - 1, known.steps - 1 + later.steps)  # inputs of the steps before
    ctrl = np.concatenate([known.ctrl, later.ctrl])
    applied = np.concatenate([known.applied, later.applied])[before]
    last = difference(plant.model, known.qpos[-2:-1], known.qpos[-1:])[0]
    motions = np.empty((len(thetas), *later.qpos.shape))
    for rows, theta in zip(motions, thetas, strict=True):
        model = plant.at(theta)
        acting = ctrl
        if plant.delay is not None:
            acting = delay_rows(ctrl, [0], plant.delay(theta) / model.opt.timestep)
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = known.qpos[-1], last / model.opt.timestep
        inputs = zip(rows, acting[before], applied, strict=True)
        for row, data.ctrl[:], data.qfrc_applied[:] in inputs:
            mujoco.mj_step(model, data)
            row[:] = data.qpos
    return motions
