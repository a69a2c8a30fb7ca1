"""
The method `sysid`: one estimate by MuJoCo's least squares, as a reference for the other methods.

It does what `mujoco.sysid` does (its optimizer is `mujoco.minimize.least_squares`, its covariance
that of `calculate_intervals`) by the search over windows that `csvgd` has, too (`window_search`).
`mujoco.sysid` itself would need the extra `mujoco[sysid]`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common import posterior_samples
from emppi_ros.identify.common.figures import Convergence, HeldOutForecast
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.posterior_samples import knowledge_level
from emppi_ros.identify.methods import Identification, Method, RunSettings
from emppi_ros.identify.multiple_shooting import particle_summary, training_data
from emppi_ros.identify.multiple_shooting.particle_summary import SystemResult, summarize
from emppi_ros.identify.multiple_shooting.problem import LIMIT
from emppi_ros.identify.multiple_shooting.training_data import TrainingData, WindowConfig
from emppi_ros.identify.multiple_shooting.window_search import (
    MAX_ITERATIONS,
    WindowEstimate,
    estimate,
)
from emppi_ros.recordings.recordings import Recording

_STEP = 1e-6


@dataclass(frozen=True)
class SysidOptions:
    """Options of the method `sysid`."""

    window: float = fields.window()
    noise: Mapping[str, float] = fields.noise()
    spread: float = fields.spread()


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
        windows = WindowConfig(options.window, run.held_out)
        data = training_data.prepare(plant, recordings, windows, options.noise)
        log_likelihoods: list[float] = []
        with run.progress('sysid', MAX_ITERATIONS, 'iterations') as advance:

            def progress(done: int, cost: float) -> None:
                log_likelihoods.append(-cost)
                advance(done, f'log likelihood {-cost:.4g}')

            result = estimate(data, plant.initial, progress, run.threads)
            advance(MAX_ITERATIONS)
        problem = replace(data.problem, continuous=result.worse is None)
        data = replace(data, problem=problem, windows=result.windows)
        count = len(plant.unknowns)
        knowledge = [knowledge_level(share) for share in result.sd(count)]
        kept = posterior_samples.excited(knowledge)
        particle = particle_summary.select_converged(data, result.z[None], run.threads)
        particle_summary.check(plant, data, particle)
        theta = data.problem.theta(draw(result, count, options.spread, run.seed))
        system = SystemResult(data, particle, np.array([result.log_p]), result.defect)
        if problem.continuous:
            forecasts = particle_summary.forecast(data, particle, run.threads)
            system = system._replace(forecasts=forecasts)
        else:
            pieces = particle_summary.forecast_pieces(
                plant, data, theta, particle.residual_rms, run.seed, run.threads
            )
            system = system._replace(pieces=pieces)
        summary = summarize(plant, system)
        _add_estimate(summary['parameters'].values(), data, result, knowledge)
        names = [unknown.name for unknown in plant.unknowns]
        directions = posterior_samples.unobservable_directions(result.covariance[:count, :count])
        summary['unexcited_directions'] = posterior_samples.describe_directions(directions, names)
        del summary['particles'], summary['stranded']
        if note := result.note(data):
            summary['notes'] = '; '.join([*filter(None, [summary.get('notes')]), note])

        def sample_forecasts() -> list[HeldOutForecast]:
            if not problem.continuous:
                return list(system.pieces)
            samples = particle_summary.with_particles(particle, theta)
            return particle_summary.futures(
                data, particle_summary.forecast(data, samples, run.threads)
            )

        return Identification(
            summary,
            theta,
            kept,
            {
                **asdict(windows),
                'step_s': float(plant.model.opt.timestep),
                'spread': options.spread,
                'seed': run.seed,
            },
            convergence=Convergence('log likelihood', np.array(log_likelihoods)),
            forecasts=sample_forecasts,
        )


def draw(result: WindowEstimate, parameters: int, spread: float, seed: int) -> Array:
    """Return coordinates (n, P) of samples within the limits."""
    box = np.full(parameters, -LIMIT), np.full(parameters, LIMIT)
    covariance = spread**2 * result.covariance + result.by_joints
    covariance = covariance[:parameters, :parameters]
    rng = np.random.default_rng(seed)
    return posterior_samples.draw_within_bounds(
        result.z[:parameters], covariance, np.ones(parameters), box, rng
    )


def _add_estimate(
    rows: Iterable[dict[str, Any]],
    data: TrainingData,
    result: WindowEstimate,
    knowledge: Sequence[str],
) -> None:
    """Set values and standard deviations in the rows of parameters."""
    shares = result.share_by_joints(len(knowledge)).tolist()
    found = zip(*in_units(data, result), knowledge, shares, strict=True)
    for row, (value, sd, level, share) in zip(rows, found, strict=True):
        row.update(value=float(value), sd=float(sd), knowledge=level)
        if result.by_joints.any():
            row['sd_by_joints'] = share * float(sd)


def in_units(data: TrainingData, result: WindowEstimate) -> tuple[Array, Array]:
    """Return the parameters (P,) and their standard deviations, in their units."""
    count = len(data.problem.parameters)
    z = result.z[:count]
    step = np.where(z > 0.0, -_STEP, _STEP)
    theta = data.problem.theta(z)
    slope = (data.problem.theta(z + step) - theta) / step
    return theta, slope * result.sd(count)
