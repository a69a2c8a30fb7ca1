"""
Trajectories in windows, with their derivatives: one call of the physics batch for all.

A particle is z = (theta, s_1, ..., s_{W-1}): parameters, and the states in which all windows
but the first begin, in units of their spread (s_0, too, if the start is not known).
Derivatives are forward differences: of each particle, models with one perturbed parameter, and
with one perturbed component of the starts of all windows at once, which is one for each since
windows do not touch one another.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.csvgd.problem import LIMIT, ShootingProblem
from emppi_ros.model.ensemble import Ensemble, State

Array = npt.NDArray[np.float64]
DIFFERENCE_STEP = 1e-6  # in units of a standard deviation: rounding grows as 1e-16 / STEP


class WindowTrajectories(NamedTuple):
    """States (N, W, h, S) in units of their spread, and the derivatives (N, V, W, h, S)."""

    states: Array
    slopes: Array  # V: the parameters P, then the components S of each window's own start
    diverged: npt.NDArray[np.bool_]  # (N,)


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
        """Plan N (1 + P + S) models, W rollouts each; one window has no starts."""
        steps = len(problem.controls)
        if windows < 1 or steps % windows:
            raise IdentificationError(f'{steps} steps do not make {windows} windows of one length')
        length = steps // windows
        if any(begin % length for begin in problem.begins):
            raise IdentificationError(f'recordings do not begin with windows of {length} steps')
        self.problem, self.particles, self.windows = problem, particles, windows
        self.unknown = len(problem.parameters)
        self.states = problem.start.shape[-1]
        self.first = 0 if problem.begins else 1  # window whose start is learned
        learned = windows - self.first
        self.variants = 1 + slopes * (self.unknown + (self.states if learned else 0))
        self.size = self.unknown + learned * self.states
        self.firsts = np.array(problem.begins or (0,)) // length  # windows, of recordings
        joined = np.setdiff1d(np.arange(1, windows), self.firsts)
        self.joined = [int(window) for window in joined]  # windows that go on from the last
        self.steps = 0  # physics steps so far
        self._scale = problem.scale
        self.controls = problem.controls.reshape(
            windows, length, -1 if problem.controls.size else 0
        )
        self._threads = threads

    @cached_property
    def ensemble(self) -> Ensemble:
        """All models, made when first simulated: a cluster may do that instead."""
        models, problem = self.particles * self.variants, self.problem
        return Ensemble(problem.model, problem.parameters, models, self.windows, self._threads)

    @property
    def cost(self) -> int:
        """How many physics steps it takes to simulate all once."""
        return self.particles * self.variants * self.windows * self.controls.shape[1]

    def seen(self) -> Array:
        """Return what was measured in units of the states' spread, (R, W, h, S)."""
        references = self.problem.references / self._scale
        return references.reshape(len(references), self.windows, -1, self.states)

    def simulate(self, z: Array) -> WindowTrajectories:
        """Return the windows of particles (N, size), and their derivatives."""
        steps = self._variants(z)
        start = State(*np.split(self._starts(z), 2, axis=-1))
        length = self.controls.shape[1]
        controls = np.broadcast_to(self.controls, (self.ensemble.models, *self.controls.shape))
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

    def _variants(self, z: Array) -> Array:
        """Write the parameters of all models; return the steps (N, V) of the differences."""
        centre = z[:, : self.unknown]
        steps = np.full((self.particles, self.variants - 1), DIFFERENCE_STEP)
        if self.variants == 1:
            self.ensemble.write(self.problem.theta(centre))
            return steps
        inwards = np.where(centre > 0.0, -DIFFERENCE_STEP, DIFFERENCE_STEP)
        steps[:, : self.unknown] = inwards
        rows = np.repeat(self.problem.theta(centre)[:, None], self.variants, axis=1)
        index = np.arange(self.unknown)
        # the step that was really taken, in floating point
        moved = self.problem.theta(np.clip(centre, -LIMIT, LIMIT) + inwards)
        rows[:, 1 + index, index] = moved
        taken = self.problem.coordinates(moved) - self.problem.coordinates(rows[:, 0])
        steps[:, : self.unknown] = taken
        self.ensemble.write(rows.reshape(-1, self.unknown))
        return steps

    def _starts(self, z: Array) -> Array:
        """Return where the windows of all models begin, (N * variants, W, S), in their unit."""
        starts = self.starts(z) * self._scale
        if self.first:
            first = np.broadcast_to(self.problem.start, (self.particles, 1, self.states))
            starts = np.concatenate([first, starts], axis=1)
        rows = np.repeat(starts[:, None], self.variants, axis=1)
        if self.windows > self.first and self.variants > 1:
            rows[:, 1 + self.unknown :, self.first :] += (
                DIFFERENCE_STEP * np.diag(self._scale)[:, None]
            )
        return rows.reshape(-1, self.windows, self.states)

    def starts(self, z: Array) -> Array:
        """Return the learned starts of windows (N, W - first, S) in units of states' spread."""
        return z[:, self.unknown :].reshape(len(z), self.windows - self.first, self.states)

    def measured_starts(self) -> Array:
        """Return where windows begin whose start is learned, as measured (R, W - first, S)."""
        seen = self.seen()
        starts = np.empty((len(seen), self.windows, self.states))
        starts[:, 1:] = seen[:, :-1, -1]
        starts[:, self.firsts] = self.problem.start / self._scale
        return starts[:, self.first :]


class WindowJoiner:
    """Makes windows meet."""

    def __init__(self, shooter: MultipleShooting, threads: int = 0) -> None:
        """Plan one model for each particle, and in it a rollout for each recording."""
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
        """How many windows are simulated one after another."""
        return int(np.max(self._lasts - self.shooter.firsts))

    @property
    def cost(self) -> int:
        """How many physics steps it takes to let all meet once."""
        shooter = self.shooter
        return self._turns * shooter.particles * len(shooter.firsts) * shooter.controls.shape[1]

    def join(self, z: Array) -> Array:
        """Return particles (N, D) whose windows begin where those before them end."""
        shooter, z = self.shooter, z.copy()
        if not shooter.joined:
            return z
        firsts, scale = shooter.firsts, shooter.problem.scale
        self._ensemble.write(shooter.problem.theta(z[:, : shooter.unknown]))
        start = np.broadcast_to(shooter.problem.start, (len(z), len(firsts), shooter.states))
        if not shooter.first:
            start = shooter.starts(z)[:, firsts] * scale
        shooter.steps += self.cost
        for count in range(self._turns):
            # a recording that is over repeats its last window, of which nothing is kept
            now = shooter.controls[np.minimum(firsts + count, self._lasts)]
            controls = np.broadcast_to(now, (len(z), *now.shape))
            state = State(*np.split(start, 2, axis=-1))
            fields = self._ensemble.rollout(state, controls, ('qpos', 'qvel')).fields
            start = np.concatenate([fields['qpos'][:, :, -1], fields['qvel'][:, :, -1]], axis=-1)
            for row in np.flatnonzero(firsts + count < self._lasts):
                z[:, start_slice(shooter, firsts[row] + count + 1)] = start[:, row] / scale
        return z


def start_slice(shooter: MultipleShooting, window: int) -> slice:
    """Return where in z a window's start is."""
    begin = shooter.unknown + (window - shooter.first) * shooter.states
    return slice(begin, begin + shooter.states)
