"""The method `sysid`: one estimate by the least squares of `mujoco.sysid`, as a reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification import methods
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.figures import Convergence, HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.multiple_shooting import particle_summary, training_data
from emppi_ros.identification.multiple_shooting.particle_summary import diagnose, explain
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, TrainingData
from emppi_ros.identification.multiple_shooting.window_search import (
    MAX_ITERATIONS,
    WindowEstimate,
    estimate,
)
from emppi_ros.recordings.recordings import Recording

_STEP = 1e-6


@dataclass(frozen=True)
class SysidOptions:
    """Options of the method `sysid`."""

    window: float = methods.window()
    noise: Mapping[str, float] = methods.noise()
    spread: float = methods.spread()


class SysidMethod(Method):
    """MuJoCo's least squares over windows, with a linearised posterior."""

    description = "one estimate by MuJoCo's least squares over windows, as a reference"
    options = SysidOptions
    held_out = 0.2
    with_joint_errors = True

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: SysidOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit all recordings together."""
        data = training_data.prepare(
            plant, recordings, options.window, run.held_out, options.noise
        )
        log_likelihoods: list[float] = []
        with run.progress('sysid', MAX_ITERATIONS, 'iterations') as advance:

            def progress(done: int, cost: float) -> None:
                log_likelihoods.append(-cost)
                advance(done, f'log likelihood {-cost:.4g}')

            result = estimate(data, plant.initial, progress, run.threads)
            advance(MAX_ITERATIONS)
        problem = replace(data.problem, continuous=result.worse is None)
        data = replace(data, problem=problem, windows=result.windows)
        knowledge = posterior_samples.knowledge_levels(result.sd)
        kept = posterior_samples.excited(knowledge)
        covariance = options.spread**2 * result.covariance + result.by_joints
        mean, ones = result.z[: len(covariance)], np.ones(len(covariance))
        rng = np.random.default_rng(run.seed)
        samples = posterior_samples.draw_within_bounds(
            mean, covariance, ones, (-LIMIT * ones, LIMIT * ones), rng
        )
        theta = problem.theta(samples)
        system = explain(
            plant, data, result.z[None], np.array([result.log_p]), result.defect, run, theta
        )
        value, sd = in_units(data, result)
        more = {}
        if result.by_joints.any():
            share = np.sqrt(np.diag(result.by_joints)) / result.sd
            more['sd_by_joints'] = (share * sd).tolist()
        summary = posterior_samples.summarize(
            plant.unknowns, value, sd, knowledge,
            posterior_samples.unobservable_directions(result.covariance),
            at_bound=system.converged.at_bound, **more,
        )  # fmt: skip
        summary |= diagnose(system)
        if note := result.note(data):
            summary['notes'] = '; '.join([*filter(None, [summary.get('notes')]), note])

        def sample_forecasts() -> list[HeldOutForecast]:
            if not problem.continuous:
                return list(system.pieces)
            forecasts = particle_summary.forecast(data, system.converged, theta, run.threads)
            return system._replace(forecasts=forecasts).held_out

        return Identification(
            summary,
            theta,
            kept,
            {
                'window_s': options.window,
                'held_out': run.held_out,
                'step_s': float(plant.model.opt.timestep),
                'spread': options.spread,
                'seed': run.seed,
            },
            convergence=Convergence('log likelihood', np.array(log_likelihoods)),
            forecasts=sample_forecasts,
        )


def in_units(data: TrainingData, result: WindowEstimate) -> tuple[Array, Array]:
    """Return the parameters (P,) and their standard deviations, in their units."""
    z = result.z[: len(result.sd)]
    step = np.where(z > 0.0, -_STEP, _STEP)
    theta = data.problem.theta(z)
    slope = (data.problem.theta(z + step) - theta) / step
    return theta, slope * result.sd
