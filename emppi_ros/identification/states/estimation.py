"""Estimation of states and parameters from one observed motion, and their uncertainty."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states import solver
from emppi_ros.identification.states.residuals import forces_known, linearize
from emppi_ros.identification.states.solver import Iterate, ProgressCallback, SolverConfig
from emppi_ros.recordings.motion import Motion
from emppi_ros.recordings.noise import SMOOTHING_CUTOFF_HZ, correlation_time, smooth

_RANK = 1e-7  # of the largest singular value: smaller ones are errors of derivatives


class Uncertainty(NamedTuple):
    """The uncertainty of the parameters, and the noise it is derived from."""

    covariance: Array  # (P, P), in their units
    directions: Array  # (d, P) unit vectors in the scales, which are not determined
    observation_sd: Array  # (R, nv) of each recording, NaN where nothing was observed
    correlation: Array  # (R, nv) of the observations' residuals, in samples; 1 if they are white
    impulse_sd: Array  # (R, nv) N s or N m s
    affected: Bools  # (nv,) degrees of freedom whose forces depend on a parameter

    @property
    def sd(self) -> Array:
        """Standard deviations (P,)."""
        return np.sqrt(np.diag(self.covariance))


class StatesEstimate(NamedTuple):
    """The least-squares solution of a motion, and the uncertainty of its parameters."""

    plant: Plant
    motion: Motion
    config: SolverConfig
    solution: Iterate
    uncertainty: Uncertainty
    knowledge: tuple[str, ...]  # (P,) found, vague, or unexcited

    @property
    def theta(self) -> Array:
        """The parameters (P,)."""
        return self.solution.theta


def estimate(
    plant: Plant, motion: Motion, config: SolverConfig,
    progress: ProgressCallback = lambda _: None,
) -> StatesEstimate:  # fmt: skip
    """
    Return parameters and states by least squares, starting from filtered observations.

    The search runs twice. With parameters that are still far off, states may be pushed across a
    reversal, where dry friction jumps, and stay there; the second search starts from the
    parameters of the first, and from the observations again.
    """
    start = initial_states(plant, motion)
    first = solver.solve(plant, motion, config, start, progress=progress)

    def offset_progress(iterate: Iterate) -> None:
        progress(iterate._replace(iterations=first.iterations + iterate.iterations))

    best = solver.solve(plant, motion, config, start, first.theta, offset_progress)
    iterations = first.iterations + best.iterations
    if best.residuals.cost > first.residuals.cost:
        best = first
    best = best._replace(iterations=iterations)
    uncertainty = estimate_uncertainty(plant, motion, config.state_weight, best)
    knowledge = posterior_samples.knowledge_levels(uncertainty.sd / plant.scales)
    return StatesEstimate(plant, motion, config, best, uncertainty, knowledge)


def initial_states(plant: Plant, motion: Motion) -> Array:
    """Return smoothed observations (N, nq), from which the search for states starts."""
    model = plant.model
    rate = 1.0 / model.opt.timestep
    qpos = np.concatenate(
        [smooth(motion.qpos[part], rate, SMOOTHING_CUTOFF_HZ) for part in motion.parts]
    )
    for row in qpos if model.nq != model.nv else ():
        mujoco.mj_normalizeQuat(model, row)
    return qpos


def estimate_uncertainty(
    plant: Plant, motion: Motion, weight: float, solution: Iterate
) -> Uncertainty:
    """
    Return the uncertainty of the least-squares parameters (section 3.7).

    The noise of observations and impulses is estimated from their residuals, per joint and
    recording. It is propagated through the Jacobian of the parameters with the states eliminated
    (eq. 3.27, 3.28). Where that is rank-deficient, the scale of each parameter is its prior
    standard deviation. Correlated residuals of observations, which errors of the model cause,
    count as fewer: their variance is multiplied by their correlation time.
    """
    jacobian = linearize(plant, motion, weight, solution.theta, solution.qpos, modelled=True)
    residuals, counted = solution.residuals, motion.observed
    n, nv = residuals.observed.shape
    normal = solver.assemble(jacobian, residuals, plant.scales)
    states = solver.factorize_states(normal, 0.0)(normal.mixed).reshape(n, nv, -1)
    impulses = jacobian.unknowns * plant.scales
    for late, block in enumerate(jacobian.impulses):
        impulses = impulses - block @ states[late : n - 2 + late]
    # derivatives of all residuals by scaled parameters, at optimal states
    rows = np.concatenate([-jacobian.observed @ states, impulses]).reshape(-1, states.shape[-1])
    steps = [slice(part.start, part.stop - 2) for part in motion.parts]  # that end in the part
    observation = _rms(residuals.observed, counted, motion.parts)
    impulse = _rms(residuals.impulses, forces_known(plant.model, motion), steps)
    correlation = np.array(
        [
            [correlation_time(residuals.observed[p, v][counted[p, v]]) for v in range(nv)]
            for p in motion.parts
        ]
    )
    noise = np.zeros((2 * n - 2, nv))
    for part, observed_sd in zip(motion.parts, np.sqrt(correlation) * observation, strict=True):
        noise[part] = observed_sd
    for part, impulse_sd in zip(steps, impulse, strict=True):
        noise[n:][part] = impulse_sd
    scaled = _covariance(rows, noise.ravel())
    with np.errstate(invalid='ignore'):  # 0 / 0 where nothing was observed
        observation = observation / _rms(np.sqrt(motion.weights), counted, motion.parts)
    return Uncertainty(
        scaled * np.outer(plant.scales, plant.scales),
        posterior_samples.unobservable_directions(scaled),
        observation,
        correlation,
        impulse / np.sqrt(weight),
        np.any(jacobian.unknowns != 0.0, axis=(0, 2)),
    )


def _rms(values: Array, counted: Bools, parts: Sequence[slice]) -> Array:
    """Return root mean squares (R, nv) of the counted values (n, nv) in each part."""
    squares = [np.sum((counted * values)[part] ** 2, axis=0) for part in parts]
    counts = [np.maximum(counted[part].sum(axis=0), 1) for part in parts]
    return np.sqrt(np.array(squares) / counts)


def _covariance(rows: Array, noise: Array) -> Array:
    """Return the covariance (P, P) of scaled parameters from their Jacobian's rows (n, P)."""
    eye = np.eye(rows.shape[1])
    basis, sizes, right = np.linalg.svd(rows, full_matrices=False)
    determined = sizes > _RANK * sizes.max(initial=np.finfo(float).tiny)
    if not determined.any():
        return eye
    spread = (basis[:, determined] / sizes[determined]).T * noise
    covariance = spread @ spread.T + np.finfo(float).tiny * np.eye(len(spread))
    information = np.linalg.inv(covariance)
    return np.linalg.inv(right[determined].T @ information @ right[determined] + eye)
