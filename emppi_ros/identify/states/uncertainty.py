"""Linearised covariance of parameters, and the directions that the data do not show."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.states.elimination import States, assemble
from emppi_ros.identify.states.motion import Motion
from emppi_ros.identify.states.plant import Plant
from emppi_ros.identify.states.residuals import Jacobian, explained, linearize
from emppi_ros.identify.states.solver import Iterate

Array = npt.NDArray[np.float64]
_RANK = 1e-7  # of the largest singular value: below it are derivatives' errors
_OPEN = 0.5  # of the variance before


class Uncertainty(NamedTuple):
    """How well parameters are known."""

    covariance: Array  # (P, P), in their units
    directions: Array  # (d, P) unit vectors in unknowns' scales, along which nothing was learned
    observation_sd: Array  # (nv,), NaN where nothing was observed
    impulse_sd: Array  # (nv,) N s or N m s
    affected: npt.NDArray[np.bool_]  # (nv,) whether any parameter has an effect on its forces

    @property
    def sd(self) -> Array:
        """Standard deviations (P,)."""
        return np.sqrt(np.diag(self.covariance))


def estimate(plant: Plant, motion: Motion, weight: float, found: Iterate) -> Uncertainty:
    """
    Return what least squares leave open (section 3.7).

    The noise of each joint's observations and impulses is read from their residuals. It goes
    through the parameters' Jacobian without what states can explain (eq. 3.27, 3.28). Where that
    has no rank, each unknown's scale is taken for the standard deviation that it had before.
    """
    jacobian = linearize(plant, motion, weight, found.theta, found.qpos)
    observed, impulses = _project(plant, jacobian, found)
    seen = motion.weights > 0.0
    count = np.maximum(seen.sum(axis=0), 1)
    observation = np.sqrt(np.sum(found.residuals.observed**2, axis=0) / count)
    balanced = np.maximum(explained(plant.model, motion).sum(axis=0), 1)
    impulse = np.sqrt(np.sum(found.residuals.impulses**2, axis=0) / balanced)
    p = len(found.theta)
    rows = np.concatenate([observed.reshape(-1, p), impulses.reshape(-1, p)])
    noise = np.concatenate(
        [
            np.broadcast_to(observation, motion.weights.shape).ravel(),
            np.broadcast_to(impulse, found.residuals.impulses.shape).ravel(),
        ]
    )
    scaled = _covariance(rows, noise)
    sizes, vectors = np.linalg.eigh(scaled)
    weights = np.where(seen, motion.weights, 0.0).sum(axis=0) / count
    with np.errstate(divide='ignore', invalid='ignore'):
        observation = np.where(seen.any(axis=0), observation / np.sqrt(weights), np.nan)
    return Uncertainty(
        scaled * np.outer(plant.scales, plant.scales),
        vectors.T[sizes > _OPEN],
        observation,
        impulse / np.sqrt(weight),
        np.any(jacobian.unknowns != 0.0, axis=(0, 2)),
    )


def _covariance(rows: Array, noise: Array) -> Array:
    """Return the covariance (P, P) of scaled parameters from their Jacobian's rows (n, P)."""
    eye = np.eye(rows.shape[1])
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    known = sizes > _RANK * sizes.max(initial=np.finfo(float).tiny)
    if not known.any():
        return eye
    spread = (left[:, known] / sizes[known]).T * noise
    information = np.linalg.inv(spread @ spread.T + np.finfo(float).tiny * np.eye(known.sum()))
    return np.linalg.inv(right[known].T @ information @ right[known] + eye)


def _project(plant: Plant, jacobian: Jacobian, found: Iterate) -> tuple[Array, Array]:
    """Return derivatives by scaled parameters (N, nv, P), (N - 2, nv, P), states adjusted."""
    n, nv = found.residuals.observed.shape
    normal = assemble(jacobian, found.residuals, plant.scales)
    states = States(normal, 0.0).solve(normal.mixed).reshape(n, nv, -1)
    observed = -jacobian.observed @ states
    impulses = jacobian.unknowns * plant.scales
    for late, block in enumerate(jacobian.impulses):
        impulses = impulses - block @ states[late : n - 2 + late]
    return observed, impulses
