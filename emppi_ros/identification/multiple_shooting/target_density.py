"""Target density of the particles and their constraints (Heiden et al. 2022, Sec. IV)."""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    WindowTrajectories,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem
from emppi_ros.parallel.workers import Share


class Evaluation(NamedTuple):
    """Log density, derivatives and C constraints of N particles with D coordinates."""

    log_p: Array  # (N,)
    score: Array  # (N, D)
    curvature: Array  # (N, D, D): Gauss-Newton approximation of minus the Hessian
    defects: Array  # (N, C): constraint violations
    normals: Array  # (N, C, D): their derivatives; beyond a limit, those just within it


def evaluate(shooter: MultipleShooting, z: Array) -> Evaluation:
    """
    Return the log density log p_ms(D | z), limits and defects of particles z (N, D).

    Initial states of recordings are estimated, so their measurements enter the density. Diverged
    particles have log density -inf and zero derivatives.
    """
    windows, unknown = shooter.simulate(z), shooter.unknown
    slopes = windows.slopes / shooter.noise
    flat = np.ascontiguousarray(slopes.swapaxes(1, 2)).reshape(
        len(z), shooter.windows, shooter.variants - 1, -1
    )  # (N, W, V, h S)
    slope = (flat @ _residuals(shooter, windows)[..., None])[..., 0]
    by_start = slope[:, shooter.first :, unknown:].reshape(len(z), -1)
    score = np.concatenate([slope[:, :, :unknown].sum(axis=1), by_start], axis=1)
    curvature = _to_particle_hessian(shooter, flat @ flat.swapaxes(-1, -2))
    columns, deviation, precision = _start_deviations(shooter, z)
    score[:, columns] -= precision * deviation
    curvature[:, columns, columns] += precision
    defects, normals = continuity(shooter, z, windows)
    limits = z[:, :unknown] - np.clip(z[:, :unknown], -LIMIT, LIMIT)
    outside = limits != 0.0  # simulated parameters are clipped there: only the limit has a slope
    score[:, :unknown][outside] = 0.0
    walls = np.zeros((len(z), unknown, shooter.size))
    index = np.arange(unknown)
    walls[:, index, index] = outside
    evaluation = Evaluation(
        log_density(shooter, z, windows),
        score,
        curvature,
        np.concatenate([limits, defects], axis=1),
        np.concatenate([walls, normals], axis=1),
    )
    for part in evaluation[1:]:
        part[windows.diverged] = 0.0
    return evaluation


def select_particles(
    which: Bools, new: tuple[Array, Evaluation], old: tuple[Array, Evaluation]
) -> tuple[Array, Evaluation]:
    """Return the new values of the selected particles (mask (N,)), the old of the others."""
    parts = (
        np.where(which.reshape(-1, *[1] * (before.ndim - 1)), after, before)
        for after, before in zip(new[1], old[1], strict=True)
    )
    return np.where(which[:, None], new[0], old[0]), Evaluation(*parts)


def log_likelihood(shooter: MultipleShooting, z: Array) -> Array:
    """Return the same log density (N,) without derivatives."""
    return log_density(shooter, z, shooter.simulate(z))


def log_density(shooter: MultipleShooting, z: Array, windows: WindowTrajectories) -> Array:
    """Return the log density (N,) of particles z (N, D) for their windows."""
    squares = np.sum(_residuals(shooter, windows) ** 2, axis=2).T
    recordings = -0.5 * np.add.reduceat(squares, shooter.firsts, axis=0)
    _, deviation, precision = _start_deviations(shooter, z)
    starts = -0.5 * np.sum(precision * deviation**2, axis=2)
    total = recordings.sum(axis=0) + starts.sum(axis=1)
    return np.where(windows.diverged, -np.inf, total)


def _residuals(shooter: MultipleShooting, windows: WindowTrajectories) -> Array:
    """Return the residuals (N, W, h S), divided by the measurement noise."""
    errors = (shooter.measurements - windows.states) / shooter.noise
    return errors.reshape(*errors.shape[:2], -1)


def _start_deviations(shooter: MultipleShooting, z: Array) -> tuple[Ints, Array, Array]:
    """Return places (G, S) of recordings' starts in z, deviations (N, G, S), precisions (S,)."""
    windows = shooter.firsts[shooter.first :]  # none if the start is exact
    columns = np.arange(shooter.unknown, shooter.size).reshape(-1, shooter.states)[windows]
    deviation = shooter.starts(z)[:, windows] - shooter.measured_starts()[windows]
    # unmeasured components have their spread over all trajectories: 1 in its unit
    return columns, deviation, np.minimum(shooter.problem.noise / shooter.scale, 1.0) ** -2


def _to_particle_hessian(shooter: MultipleShooting, gram: Array) -> Array:
    """Return second derivatives (N, D, D) by z from those of windows (N, W, V, V)."""
    unknown = shooter.unknown
    whole = np.zeros((len(gram), shooter.size, shooter.size))
    whole[:, :unknown, :unknown] = gram[:, :, :unknown, :unknown].sum(axis=1)
    for window in range(shooter.first, shooter.windows):
        rows = shooter.start_slice(window)
        block = gram[:, window]
        whole[:, rows, rows] = block[:, unknown:, unknown:]
        whole[:, rows, :unknown] = block[:, unknown:, :unknown]
        whole[:, :unknown, rows] = block[:, :unknown, unknown:]
    return whole


def continuity(
    shooter: MultipleShooting, z: Array, windows: WindowTrajectories
) -> tuple[Array, Array]:
    """Return the defects (N, joined S) between windows, and their derivatives by z."""
    unknown, states, joined = shooter.unknown, shooter.states, np.array(shooter.joined, dtype=int)
    starts = shooter.starts(z)[:, joined - shooter.first]
    defects = windows.states[:, joined - 1, -1] - starts
    normals = np.zeros((len(z), len(joined), states, shooter.size))
    ends = np.moveaxis(windows.slopes[:, :, :, -1], 1, -1)  # (N, W, S, V)
    for row, window in enumerate(shooter.joined):
        last = window - 1
        normals[:, row, :, :unknown] = ends[:, last, :, :unknown]
        normals[:, row, :, shooter.start_slice(window)] = -np.eye(states)
        if last >= shooter.first:
            normals[:, row, :, shooter.start_slice(last)] = ends[:, last, :, unknown:]
    return defects.reshape(len(z), -1), normals.reshape(len(z), -1, shooter.size)


class ParticleSimulation:
    """Evaluates N particles here or on a cluster; any partition of them gives the same bits."""

    def __init__(
        self,
        problem: ShootingProblem,
        windows: int,
        particles: int,
        threads: int = 0,
        share: Share | None = None,
    ) -> None:
        """Set up; models are created where they are simulated."""
        self.shooter, self._share = MultipleShooting(problem, particles, windows, threads), share

    def density(self, z: Array) -> Evaluation:
        """Evaluate particles (N, D); IdentificationError if all of them diverge."""
        blocks = [self.evaluate(z)] if self._share is None else self._share('evaluate', z)
        now = Evaluation(*map(np.concatenate, zip(*blocks, strict=True)))
        if not np.isfinite(now.log_p).any():
            raise IdentificationError('all particles diverge: reduce the limits or the time step')
        return now

    def make_continuous(self, z: Array) -> Array:
        """Return particles (N, D) with continuous trajectories."""
        return self.join(z) if self._share is None else np.concatenate(self._share('join', z))

    def evaluate(self, z: Array) -> Evaluation:
        """Evaluate a block of particles in this process."""
        return evaluate(self.shooter, z)

    def join(self, z: Array) -> Array:
        """Join the windows of a block of particles in this process."""
        return self.shooter.join(z)
