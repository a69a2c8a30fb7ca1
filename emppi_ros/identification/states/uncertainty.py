"""Linearised covariance of the parameters, and the directions that the data do not determine."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.normal_equations import StateFactorization, assemble
from emppi_ros.identification.states.residuals import Jacobian, forces_known, linearize
from emppi_ros.identification.states.solver import Iterate
from emppi_ros.recordings.motion import Motion
from emppi_ros.recordings.noise import correlation_time

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
    jacobian = linearize(plant, motion, weight, solution.theta, solution.qpos)
    observed, impulses = _project(plant, jacobian, solution)
    steps = [slice(part.start, part.stop - 2) for part in motion.parts]  # that end in the part
    counted = motion.observed
    observation = _rms(solution.residuals.observed, counted, motion.parts)
    impulse = _rms(solution.residuals.impulses, forces_known(plant.model, motion), steps)
    p = len(solution.theta)
    rows = np.concatenate([observed.reshape(-1, p), impulses.reshape(-1, p)])
    correlation = _correlation(solution.residuals.observed, counted, motion.parts)
    noise = [
        _each_row(np.sqrt(correlation) * observation, motion.parts, len(observed)),
        _each_row(impulse, steps, len(impulses)),
    ]
    scaled = _covariance(rows, np.concatenate(noise).ravel())
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


def _correlation(values: Array, counted: Bools, parts: Sequence[slice]) -> Array:
    """Return correlation times (R, nv) of the counted values (n, nv) in each part, in samples."""
    series = [[v[c] for v, c in zip(values[p].T, counted[p].T, strict=True)] for p in parts]
    return np.array([[correlation_time(residuals) for residuals in row] for row in series])


def _each_row(of_parts: Array, parts: Sequence[slice], count: int) -> Array:
    """Return rows (count, nv) with the values of their part; 0 outside of all parts."""
    rows = np.zeros((count, of_parts.shape[1]))
    for part, row in zip(parts, of_parts, strict=True):
        rows[part] = row
    return rows


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


def _project(plant: Plant, jacobian: Jacobian, solution: Iterate) -> tuple[Array, Array]:
    """Return derivatives by scaled parameters (N, nv, P), (N - 2, nv, P) at optimal states."""
    n, nv = solution.residuals.observed.shape
    normal = assemble(jacobian, solution.residuals, plant.scales)
    states = StateFactorization(normal, 0.0).solve(normal.mixed).reshape(n, nv, -1)
    observed = -jacobian.observed @ states
    impulses = jacobian.unknowns * plant.scales
    for late, block in enumerate(jacobian.impulses):
        impulses = impulses - block @ states[late : n - 2 + late]
    return observed, impulses
