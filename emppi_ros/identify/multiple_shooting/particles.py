"""
Multiple shooting: simulate all windows of all particles, with derivatives, in one batch call.

A particle is z = (theta, s_1, ..., s_{W-1}): the parameters, and the initial states of all
windows but the first, in units of their spread. If the initial state of a recording is unknown,
the start of its first window is part of z, too.
Derivatives are forward differences. For each particle, one model is simulated per perturbed
parameter, and one per perturbed component of the initial states. The latter perturbs the starts
of all windows at once, as a window only depends on its own start.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.multiple_shooting.problem import LIMIT, ShootingProblem
from emppi_ros.model.ensemble import Ensemble, State

DIFFERENCE_STEP = 1e-6  # in standard deviations; rounding errors grow as 1e-16 / step


class WindowTrajectories(NamedTuple):
    """Trajectories of N particles in W windows of h steps, and their derivatives."""

    states: Array
    slopes: Array  # V: the parameters P, then the components S of each window's own start
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
    ) -> None:
        """Set up N (1 + P + S) models with W rollouts each; without derivatives, N models."""
        steps = len(problem.controls)
        if windows < 1 or steps % windows:
            raise IdentificationError(
                f'{steps} steps do not divide into {windows} windows of equal length'
            )
        length = steps // windows
        if any(begin % length for begin in problem.first_steps):
            raise IdentificationError(
                f'recordings do not begin at multiples of the window length, {length} steps'
            )
        self.problem, self.particles, self.windows = problem, particles, windows
        self.unknown = len(problem.parameters)
        self.states = problem.start.shape[-1]
        self.first = 0 if problem.first_steps else 1  # first window whose start is estimated
        learned = windows - self.first
        self.variants = 1 + slopes * (self.unknown + (self.states if learned else 0))
        self.size = self.unknown + learned * self.states
        # first window of each recording
        self.firsts = np.array(problem.first_steps or (0,)) // length
        joined = np.setdiff1d(np.arange(1, windows), self.firsts) if problem.continuous else ()
        self.joined = [int(window) for window in joined]  # windows that continue the previous one
        self.steps = 0  # total physics steps
        self._scale = problem.scale
        controls = problem.controls.shape[1]
        self.controls = problem.controls.reshape(windows, length, controls)
        self._threads = threads

    @cached_property
    def ensemble(self) -> Ensemble:
        """The models, created on first use: a cluster may simulate instead."""
        models, problem = self.particles * self.variants, self.problem
        return Ensemble(problem.model, problem.parameters, models, self.windows, self._threads)

    @property
    def cost(self) -> int:
        """Number of physics steps of one simulation of all particles."""
        return self.particles * self.variants * self.windows * self.controls.shape[1]

    def measurements(self) -> Array:
        """Return the measured states (R, W, h, S) in units of the states' spread."""
        references = self.problem.references / self._scale
        return references.reshape(len(references), self.windows, -1, self.states)

    @cached_property
    def noise(self) -> Array:
        """
        Noise of measurements in units of the states' spread; infinite where there is none.

        Its shape is (S,), or (W, h, S) if not every step was measured.
        """
        noise = self.problem.noise / self._scale
        if self.problem.seen is None:
            return noise
        rows = np.where(self.problem.seen, noise, np.inf)
        return rows.reshape(self.windows, -1, self.states)

    def simulate(self, z: Array) -> WindowTrajectories:
        """Return the windows of particles (N, D), with derivatives."""
        steps = self._variants(z)
        start = State(*np.split(self._starts(z), 2, axis=-1))
        length = self.controls.shape[1]
        controls = self.acting(self.ensemble)
        records = self.ensemble.rollout(start, controls, ('qpos', 'qvel'))
        self.steps += self.cost
        states = np.concatenate([records.fields['qpos'], records.fields['qvel']], axis=-1)
        states /= self._scale
        states = states.reshape(self.particles, self.variants, self.windows, length, self.states)
        diverged = records.diverged.reshape(self.particles, -1).any(axis=1)
        diverged |= ~np.isfinite(states).all(axis=(1, 2, 3, 4))
        states[diverged] = 0.0
        slopes = states[:, 1:] - states[:, :1]
        slopes /= steps[:, :, None, None, None]
        return WindowTrajectories(states[:, 0], slopes, diverged)

    def acting(self, ensemble: Ensemble) -> Array:
        """Return the controls (M, W, h, nu) that act on the models of an ensemble."""
        acting = self.problem.acting(ensemble.delays)
        shape = ensemble.models, *self.controls.shape
        if acting.ndim > 2:  # one sequence per model
            return acting.reshape(shape)
        return np.broadcast_to(acting.reshape(self.controls.shape), shape)

    def _variants(self, z: Array) -> Array:
        """Write the parameters of all models; return the difference steps (N, V)."""
        centre = z[:, : self.unknown]
        steps = np.full((self.particles, self.variants - 1), DIFFERENCE_STEP)
        if self.variants == 1:
            self.ensemble.write(self.problem.theta(centre))
            return steps
        inwards = np.where(centre > 0.0, -DIFFERENCE_STEP, DIFFERENCE_STEP)
        steps[:, : self.unknown] = inwards
        rows = np.repeat(self.problem.theta(centre)[:, None], self.variants, axis=1)
        index = np.arange(self.unknown)
        # the actual step in floating point
        moved = self.problem.theta(np.clip(centre, -LIMIT, LIMIT) + inwards)
        rows[:, 1 + index, index] = moved
        taken = self.problem.coordinates(moved) - self.problem.coordinates(rows[:, 0])
        steps[:, : self.unknown] = taken
        self.ensemble.write(rows.reshape(-1, self.unknown))
        return steps

    def _starts(self, z: Array) -> Array:
        """Return the initial states (N * variants, W, S) of all models, in their units."""
        starts = self.starts(z) * self._scale
        if self.first:
            first = np.broadcast_to(self.problem.start, (self.particles, 1, self.states))
            starts = np.concatenate([first, starts], axis=1)
        rows = np.repeat(starts[:, None], self.variants, axis=1)
        if self.windows > self.first and self.variants > 1:
            steps = DIFFERENCE_STEP * np.diag(self._scale)[:, None]
            rows[:, 1 + self.unknown :, self.first :] += steps
        return rows.reshape(-1, self.windows, self.states)

    def starts(self, z: Array) -> Array:
        """Return the estimated window starts (N, W - first, S) in units of states' spread."""
        return z[:, self.unknown :].reshape(len(z), self.windows - self.first, self.states)

    def measured_starts(self) -> Array:
        """Return measured initial states of the windows in z, (R, W - first, S)."""
        measured = self.measurements()
        starts = np.empty((len(measured), self.windows, self.states))
        starts[:, 1:] = measured[:, :-1, -1]
        starts[:, self.firsts] = self.problem.start / self._scale
        return starts[:, self.first :]


class WindowJoiner:
    """Sets the start of each window to the end of the one before."""

    def __init__(self, shooter: MultipleShooting, threads: int = 0) -> None:
        """Set up one model per particle, with one rollout per recording."""
        self.shooter, self._threads = shooter, threads
        self._lasts = np.append(shooter.firsts[1:], shooter.windows) - 1

    @cached_property
    def _ensemble(self) -> Ensemble:
        problem, recordings = self.shooter.problem, len(self.shooter.firsts)
        return Ensemble(
            problem.model, problem.parameters, self.shooter.particles, recordings, self._threads
        )

    @property
    def _turns(self) -> int:
        """Number of windows to simulate in sequence."""
        return int(np.max(self._lasts - self.shooter.firsts))

    @property
    def cost(self) -> int:
        """Number of physics steps of one call of `join`."""
        shooter = self.shooter
        return self._turns * shooter.particles * len(shooter.firsts) * shooter.controls.shape[1]

    def join(self, z: Array) -> Array:
        """Return particles (N, D) with continuous trajectories: zero defects."""
        shooter, z = self.shooter, z.copy()
        if not shooter.joined:
            return z
        firsts, scale = shooter.firsts, shooter.problem.scale
        self._ensemble.write(shooter.problem.theta(z[:, : shooter.unknown]))
        start = np.broadcast_to(shooter.problem.start, (len(z), len(firsts), shooter.states))
        if not shooter.first:
            start = shooter.starts(z)[:, firsts] * scale
        shooter.steps += self.cost
        acting = shooter.acting(self._ensemble)
        for count in range(self._turns):
            # finished recordings repeat their last window; the result is unused
            controls = acting[:, np.minimum(firsts + count, self._lasts)]
            state = State(*np.split(start, 2, axis=-1))
            fields = self._ensemble.rollout(state, controls, ('qpos', 'qvel')).fields
            start = np.concatenate([fields['qpos'][:, :, -1], fields['qvel'][:, :, -1]], axis=-1)
            for row in np.flatnonzero(firsts + count < self._lasts):
                z[:, start_slice(shooter, firsts[row] + count + 1)] = start[:, row] / scale
        return z


def start_slice(shooter: MultipleShooting, window: int) -> slice:
    """Return the slice of z that holds the initial state of a window."""
    begin = shooter.unknown + (window - shooter.first) * shooter.states
    return slice(begin, begin + shooter.states)
