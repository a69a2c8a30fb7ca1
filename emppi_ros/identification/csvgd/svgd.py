"""
Stein variational gradient descent (SVGD): its direction, and an update rule with curvature.

Each particle solves for its own step, with the kernel-weighted Gauss-Newton curvature of all
particles (Detommaso et al., NeurIPS 2018) and that of its constraints. A step that makes a
particle much worse is rejected and repeated with more damping (Levenberg-Marquardt).
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.target_density import Evaluation, select_particles

_MIN_BANDWIDTH = 1e-12  # coinciding particles do not repel one another
MAX_STEP = 0.5  # in any coordinate: half a standard deviation of the prior
MAX_LOSS = 5.0  # nats; a step may lower the density, as neighbours repel a particle
MORE_DAMPING, LESS_DAMPING = 4.0, 0.5  # factors after a rejected or accepted step
MIN_DAMPING, MAX_DAMPING = 1e-4, 1e8


def median_bandwidth(x: Array) -> float:
    """Return h of exp(-|x - y|^2 / h) by the median heuristic of Liu and Wang (2016)."""
    distances = cdist(x, x, 'sqeuclidean')[np.triu_indices(len(x), 1)]
    return max(float(np.median(distances)) / np.log(len(x)), _MIN_BANDWIDTH) if len(x) > 1 else 1.0


def rbf_kernel(x: Array, bandwidth: float) -> tuple[Array, Array]:
    """
    Return the kernel matrix (N, N) and the repulsive term (N, D) of all particles.

    The repulsive term is the sum over j of the derivative of k(x_j, x_i) by x_j.
    """
    kernel = np.exp(-cdist(x, x, 'sqeuclidean') / bandwidth)
    return kernel, (2.0 / bandwidth) * (kernel.sum(axis=1)[:, None] * x - kernel @ x)


def stein_newton_step(
    density: Callable[[Array], Evaluation],
    z: Array,
    now: Evaluation,
    stiffness: float,
    damping: Array,
) -> tuple[Array, Evaluation, Array]:
    """
    Return the particles (N, D) after one step, the density there, and the next damping (N,).

    `stiffness`, in nats, is the second derivative of the constraint penalty.
    """

    def merit(at: Evaluation) -> Array:
        force = 0.5 * stiffness * at.defects
        return at.log_p - np.sum(force * at.defects, axis=1)

    step = _newton_direction(z, now, stiffness, damping)
    length = np.maximum(np.abs(step).max(axis=1), MAX_STEP)
    moved = z + step * (MAX_STEP / length)[:, None]
    new = density(moved)
    better = merit(new) > merit(now) - MAX_LOSS
    factor = np.where(better, LESS_DAMPING, MORE_DAMPING)
    damping = np.clip(damping * factor, MIN_DAMPING, MAX_DAMPING)
    return *select_particles(better, (moved, new), (z, now)), damping


def _newton_direction(z: Array, now: Evaluation, stiffness: float, damping: Array) -> Array:
    """
    Return the step (N, D) of each particle z (N, D), before its length is limited.

    `damping` (N,) is the multiple of each curvature's own diagonal that is added to it.
    """
    # the kernel's metric is the posterior's curvature, not the prior's: particles that are far
    # apart in it do not influence each other
    root = np.linalg.cholesky(now.curvature.mean(axis=0) + np.eye(z.shape[1]))
    kernels, repulsion = rbf_kernel(z @ root, median_bandwidth(z @ root))
    drive = kernels @ now.score + repulsion @ root.T
    pull = np.einsum('nc,ncd->nd', stiffness * now.defects, now.normals)
    curvature = np.einsum('ij,jkl->ikl', kernels**2, now.curvature, optimize=True)
    curvature += stiffness * now.normals.swapaxes(1, 2) @ now.normals
    diagonal = np.einsum('ndd->nd', curvature)  # a view
    diagonal += damping[:, None] * diagonal + 1.0
    return np.linalg.solve(curvature, (drive - pull)[..., None])[..., 0]
