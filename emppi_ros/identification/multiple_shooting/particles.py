"""
The windows of particles, and their target density and constraints (Heiden et al. 2022, Sec. IV).

A particle is z = (theta, s_1, ..., s_{W-1}): the parameters, and the initial states of all
windows but the first, in units of their spread. If the initial state of a recording is unknown,
the start of its first window is part of z, too.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem
from emppi_ros.identification.multiple_shooting.windows import STEP, perturb_starts, roll_out
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.parallel.workers import Share


class WindowTrajectories(NamedTuple):
    """Trajectories of N particles in W windows of h steps, and their derivatives."""

    states: Array  # (N, W, h, S), and three more columns for each tracked point
    slopes: Array  # (N, V, W, h, ...): V are the parameters, then the components of own starts
    diverged: Bools  # (N,)


class MultipleShooting:
    """Simulates N particles in W windows of h steps each."""

    def __init__(
        self,
        problem: ShootingProblem,
        particles: int,
        windows: int = 1,
        threads: int = 0,
        slopes: bool = True,
        precise: bool = False,
    ) -> None:
        """
        Set up N (1 + P + S) models with W rollouts each; without derivatives, N models.

        With `precise`, derivatives are of second order: those of first order show information on
        parameters that only their combination has.
        """
        self.length = len(problem.controls) // windows
        self.problem, self.particles, self.windows = problem, particles, windows
        self.unknown = len(problem.parameters)
        self.states = problem.start.shape[-1]
        self.first = 0 if problem.first_steps else 1  # first window whose start is estimated
        learned = windows - self.first
        self.variants = 1 + slopes * (self.unknown + (self.states if learned else 0))
        self.size = self.unknown + learned * self.states
        # first and last window of each recording
        self.firsts = np.array(problem.first_steps or (0,)) // self.length
        self.lasts = np.append(self.firsts[1:], windows) - 1
        joined = np.setdiff1d(np.arange(1, windows), self.firsts) if problem.continuous else ()
        self.joined = [int(window) for window in joined]  # windows that continue the previous one
        self.scale = problem.scale  # (S,) the spread of states: their unit in z
        self._sites, compared = problem.sites, problem.references / self.scale
        if problem.points is not None:
            points = np.nan_to_num(problem.points.positions).reshape(len(compared), -1)
            compared = np.concatenate([compared, points], axis=1)
        self.measurements = self.by_window(compared)  # (W, h, S + 3 points)
        self.time_steps = np.arange(len(problem.controls)).reshape(windows, self.length)
        self.steps = 0  # total physics steps of `simulate`
        self._threads, self._precise = threads, precise

    @cached_property
    def _ensemble(self) -> Ensemble:
        """The models, created on first use: a cluster may simulate instead."""
        return self._models(self.particles * self.variants, self.windows)

    @cached_property
    def _joining(self) -> Ensemble:
        """One model per particle, with one rollout per recording."""
        return self._models(self.particles, len(self.firsts))

    def _models(self, models: int, rollouts: int) -> Ensemble:
        problem = self.problem
        return Ensemble(problem.model, problem.parameters, models, rollouts, self._threads)

    def by_window(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return rows of all steps (T, S) by window, (W, h, S)."""
        return rows.reshape(self.windows, self.length, -1)

    @cached_property
    def noise(self) -> Array:
        """Noise of measurements in their units, states in their spread; infinite without any."""
        rows = np.where(self.problem.observed, self.problem.noise / self.scale, np.inf)
        rows = np.broadcast_to(rows, self.problem.references.shape)
        if (points := self.problem.points) is not None:  # in m
            measured = np.isfinite(points.positions).reshape(len(rows), -1)
            rows = np.concatenate([rows, np.where(measured, points.noise, np.inf)], axis=1)
        return self.by_window(rows)

    def simulate(self, z: Array) -> WindowTrajectories:
        """Return the windows of particles (N, D), with derivatives."""
        result = self._simulate(z, STEP)
        if not self._precise:
            return result
        slopes = 2.0 * result.slopes - self._simulate(z, 2.0 * STEP).slopes
        return result._replace(slopes=slopes)

    def _simulate(self, z: Array, step: float) -> WindowTrajectories:
        """Return the windows of particles (N, D), with derivatives of a step."""
        steps, starts = self._write_parameters(z, step), self.starts(z) * self.scale
        if self.first:
            first = np.broadcast_to(self.problem.start, (self.particles, 1, self.states))
            starts = np.concatenate([first, starts], axis=1)
        if self.windows > self.first and self.variants > 1:
            starts = perturb_starts(starts, self.unknown, self.scale, self.first, step)
        else:
            starts = np.repeat(starts[:, None], self.variants, axis=1)
        starts = starts.reshape(-1, self.windows, self.states)
        states, diverged = roll_out(
            self._ensemble, self.problem.inputs, self.time_steps, starts, sites=self._sites
        )
        self.steps += len(starts) * self.time_steps.size
        states[..., : self.states] /= self.scale
        states = states.reshape(self.particles, self.variants, *states.shape[1:])
        lost = np.asarray(diverged.reshape(self.particles, -1).any(axis=1))
        states[lost] = 0.0
        slopes = states[:, 1:] - states[:, :1]
        slopes /= steps[:, :, None, None, None]
        return WindowTrajectories(states[:, 0], slopes, lost)

    def _write_parameters(self, z: Array, step: float) -> Array:
        """Write the parameters of all models; return the difference steps (N, V)."""
        centre = z[:, : self.unknown]
        steps = np.full((self.particles, self.variants - 1), step)
        rows = np.repeat(self.problem.theta(centre)[:, None], self.variants, axis=1)
        if self.variants > 1:
            inwards = np.where(centre > 0.0, -step, step)
            moved = self.problem.theta(np.clip(centre, -LIMIT, LIMIT) + inwards)
            # the actual step in floating point
            taken = self.problem.coordinates(moved) - self.problem.coordinates(rows[:, 0])
            steps[:, : self.unknown] = taken
            index = np.arange(self.unknown)
            rows[:, 1 + index, index] = moved
        self._ensemble.write(rows.reshape(-1, self.unknown))
        return steps

    def starts(self, z: Array) -> Array:
        """Return the estimated window starts (N, W - first, S) in units of states' spread."""
        return z[:, self.unknown :].reshape(len(z), self.windows - self.first, self.states)

    def start_slice(self, window: int) -> slice:
        """Return the slice of z that holds the initial state of a window."""
        begin = self.unknown + (window - self.first) * self.states
        return slice(begin, begin + self.states)

    def measured_starts(self) -> Array:
        """Return measured initial states (W - first, S) of the windows in z."""
        starts = np.empty((self.windows, self.states))
        starts[1:] = self.measurements[:-1, -1, : self.states]
        starts[self.firsts] = self.problem.start / self.scale
        return starts[self.first :]

    def join(self, z: Array) -> Array:
        """Return particles (N, D) with continuous trajectories: zero defects."""
        z = z.copy()
        if not self.joined:
            return z
        firsts, lasts = self.firsts, self.lasts
        self._joining.write(self.problem.theta(z[:, : self.unknown]))
        start = np.broadcast_to(self.problem.start, (len(z), len(firsts), self.states))
        if not self.first:
            start = self.starts(z)[:, firsts] * self.scale
        for count in range(int(np.max(lasts - firsts))):
            # finished recordings repeat their last window; the result is unused
            steps = self.time_steps[np.minimum(firsts + count, lasts)]
            start = roll_out(self._joining, self.problem.inputs, steps, start)[0][:, :, -1]
            for row in np.flatnonzero(firsts + count < lasts):
                z[:, self.start_slice(firsts[row] + count + 1)] = start[:, row] / self.scale
        return z


def sobol_parameters(problem: ShootingProblem, particles: int) -> Array:
    """Return parameter coordinates (N, P) of the Sobol sequence without its first point."""
    powers = int(np.ceil(np.log2(particles + 1)))
    sequence = qmc.Sobol(len(problem.parameters), scramble=False)
    points = sequence.random_base2(powers)[1 : particles + 1]
    return LIMIT * (2.0 * points - 1.0)


def initial_particles(shooter: MultipleShooting) -> Array:
    """Return initial particles (N, D): Sobol parameters, and windows starting as measured."""
    starts = np.tile(shooter.measured_starts().ravel(), (shooter.particles, 1))
    return np.concatenate([sobol_parameters(shooter.problem, shooter.particles), starts], axis=1)


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


def window_defects(shooter: MultipleShooting, z: Array, windows: WindowTrajectories) -> Array:
    """Return the defects (N, joined S): ends of windows minus the starts of those that follow."""
    joined = np.array(shooter.joined, dtype=int)
    starts = shooter.starts(z)[:, joined - shooter.first]
    defects: Array = windows.states[:, joined - 1, -1, : shooter.states] - starts
    return defects.reshape(len(z), -1)


def continuity(
    shooter: MultipleShooting, z: Array, windows: WindowTrajectories
) -> tuple[Array, Array]:
    """Return the defects (N, joined S) between windows, and their derivatives by z."""
    unknown, states = shooter.unknown, shooter.states
    normals = np.zeros((len(z), len(shooter.joined), states, shooter.size))
    ends = np.moveaxis(windows.slopes[:, :, :, -1, :states], 1, -1)  # (N, W, S, V)
    for row, window in enumerate(shooter.joined):
        last = window - 1
        normals[:, row, :, :unknown] = ends[:, last, :, :unknown]
        normals[:, row, :, shooter.start_slice(window)] = -np.eye(states)
        if last >= shooter.first:
            normals[:, row, :, shooter.start_slice(last)] = ends[:, last, :, unknown:]
    return window_defects(shooter, z, windows), normals.reshape(len(z), -1, shooter.size)


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
