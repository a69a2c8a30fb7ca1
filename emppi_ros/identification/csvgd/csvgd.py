"""
Constrained Stein variational gradient descent (Heiden et al., ICRA 2022).

Particles follow the SVGD direction. Each solves for its own step, with the kernel-weighted
Gauss-Newton curvature of all particles (Detommaso et al., NeurIPS 2018) and that of its
constraints: parameter limits, and continuity between windows. These are a quadratic penalty whose
stiffness grows, in place of the paper's multipliers. A step that makes a particle much worse is
rejected, and repeated with more damping (Levenberg-Marquardt). A last phase that is not in the
paper refines particles by MCMC (`mcmc_refinement`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from emppi_ros.core.arrays import Array
from emppi_ros.identification.csvgd.mcmc_refinement import McmcRefinement
from emppi_ros.identification.multiple_shooting.particles import (
    Evaluation,
    ParticleSimulation,
    initial_particles,
    select_particles,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem
from emppi_ros.parallel.workers import Share

_MIN_BANDWIDTH = 1e-12  # coinciding particles do not repel one another
MAX_STEP = 0.5  # in any coordinate: half a standard deviation of the prior
MAX_LOSS = 5.0  # nats; a step may lower the density, as neighbours repel a particle
MORE_DAMPING, LESS_DAMPING = 4.0, 0.5  # factors after a rejected or accepted step
MIN_DAMPING, MAX_DAMPING = 1e-4, 1e8


@dataclass(frozen=True)
class CsvgdConfig:
    """Configuration of an inference."""

    particles: int = 100
    iterations: int = 500
    windows: int = 1
    stiffness: tuple[float, float] = (1e3, 1e7)  # of the constraint penalty, first and last
    settling: float = 0.2  # last share of iterations: MCMC refinement, half ascent, half draws
    seed: int = 0  # of the MCMC draws


class CsvgdState(NamedTuple):
    """Checkpoint of an inference after some iterations."""

    iteration: int | Array
    z: Array  # (N, D)
    damping: Array  # (N,) of the next step


class CsvgdPosterior(NamedTuple):
    """Particles of the posterior, and diagnostics."""

    theta: Array  # (N, P), within the limits
    log_p: Array  # (N,) log density of the windows
    z: Array  # (N, D), before parameters are clipped to their limits
    defect: float  # rms gap between windows, in units of the states' spread


def median_bandwidth(x: Array) -> float:
    """Return h of exp(-|x - y|^2 / h) by the median heuristic of Liu and Wang (2016)."""
    distances = cdist(x, x, 'sqeuclidean')[np.triu_indices(len(x), 1)]
    return max(float(np.median(distances)) / np.log(len(x)), _MIN_BANDWIDTH) if len(x) > 1 else 1.0


def rbf_kernel(x: Array, bandwidth: float) -> tuple[Array, Array]:
    """Return the kernel (N, N), and the sums (N, D) over j of the slopes of k(x_j, x_i) by x_j."""
    kernel = np.exp(-cdist(x, x, 'sqeuclidean') / bandwidth)
    return kernel, (2.0 / bandwidth) * (kernel.sum(axis=1)[:, None] * x - kernel @ x)


def stein_newton_step(
    density: Callable[[Array], Evaluation],
    z: Array,
    now: Evaluation,
    stiffness: float,  # nats: the second derivative of the constraint penalty
    damping: Array,
) -> tuple[Array, Evaluation, Array]:
    """Return particles (N, D) after a step, their density, and the next damping (N,)."""

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
    """Return unlimited steps (N, D); `damping` (N,) is a share of each curvature's diagonal."""
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


def has_settled(before: Array, z: Array, curvature: Array) -> bool:
    """Return whether the mean step of particles (N, D) is below the error of as many draws."""
    moved = np.any(z != before, axis=1)
    if not moved.any():
        return False
    step = (z - before)[moved].mean(axis=0)
    # in the metric of the mean curvature, and as an RMS over coordinates
    length = np.sqrt(step @ curvature.mean(axis=0) @ step / len(step))
    return bool(length < moved.sum() ** -0.5)


def draw_particles(
    mean: Array, covariance: Array, particles: int, unknown: int, seed: int
) -> Array:
    """Return particles (N, D) of a normal distribution; parameters are reflected at limits."""
    rng = np.random.default_rng([seed, 0, 2])  # a stream that no draw of the refinement uses
    root = np.linalg.cholesky(covariance)
    z = mean + rng.standard_normal((particles, len(mean))) @ root.T
    inside = LIMIT - np.abs(LIMIT - z[:, :unknown])
    z[:, :unknown] = np.clip(np.abs(inside + LIMIT) - LIMIT, -LIMIT, LIMIT)
    return z


def infer(
    problem: ShootingProblem,
    settings: CsvgdConfig,
    threads: int = 0,
    watch: Callable[[CsvgdState, Array], None] = lambda *_: None,
    state: CsvgdState | None = None,
    share: Share | None = None,
    begin: tuple[Array, Array] | None = None,
) -> CsvgdPosterior:
    """
    Return particles of the posterior.

    `watch` is called with state and log densities (N,) before every iteration. One of these as
    `state` resumes the inference, with the same bits as without the interruption. `share`
    simulates particles on a cluster, which changes no bit either. Particles that `begin` near one
    estimate, with its mean (D,) and covariance (D, D), need no growing stiffness, ascent or jumps:
    they move until their mean has settled, and draws follow.
    """
    simulation = ParticleSimulation(problem, settings.windows, settings.particles, threads, share)
    shooter, density = simulation.shooter, simulation.density
    if state is None:
        z = initial_particles(shooter)
        if begin is not None:
            z = draw_particles(*begin, settings.particles, shooter.unknown, settings.seed)
        state = CsvgdState(0, z, np.ones(len(z)))
    iteration, z, damping = int(state.iteration), state.z.copy(), state.damping
    now = density(z)
    refinement = McmcRefinement(density, simulation.make_continuous, shooter, settings.seed)
    last = settings.iterations
    svgd_end = last - round(settings.settling * last)
    draws_start = (svgd_end + last) // 2
    # the stiffness grows to its last value at four fifths of the SVGD phase
    stiffnesses = np.geomspace(*settings.stiffness, max(4 * svgd_end // 5, 1))
    if begin is not None:
        svgd_end, stiffnesses = draws_start, stiffnesses[-1:]
    while iteration < last:
        watch(CsvgdState(iteration, z, damping), now.log_p)
        if iteration < svgd_end:
            before, stiffness = z, float(stiffnesses[min(iteration, len(stiffnesses) - 1)])
            z, now, damping = stein_newton_step(density, z, now, stiffness, damping)
            settled = begin is not None and has_settled(before, z, now.curvature)
            iteration = svgd_end if settled else iteration + 1
            continue
        if iteration == svgd_end:
            z, now = refinement.start(z)
            damping = np.ones(len(z))
        if iteration == draws_start and begin is None:
            z, now = refinement.jump(z, now)
        if iteration < draws_start:
            z, now, damping = refinement.ascend(z, now, damping)
        else:
            z, now = refinement.draw(z, now, iteration - draws_start)
        iteration += 1
    theta, defects = problem.theta(z[:, : shooter.unknown]), now.defects[:, shooter.unknown :]
    defect = float(np.sqrt(np.mean(defects**2))) if defects.size else 0.0
    return CsvgdPosterior(theta, now.log_p, z, defect)
