"""
Windows that meet: what is left to choose is parameters, and where recordings begin.

All other starts follow from these by simulation, and derivatives by theirs from the constraints'
normals (the implicit function theorem): no derivative is simulated for it.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.csvgd.shooting import Shooter
from emppi_ros.identify.csvgd.target import Evaluation, place
from emppi_ros.model.ensemble import Ensemble, State

Array = npt.NDArray[np.float64]


class Joiner:
    """Makes windows meet."""

    def __init__(self, shooter: Shooter, threads: int = 0) -> None:
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
                z[:, place(shooter, firsts[row] + count + 1)] = start[:, row] / scale
        return z


def free(shooter: Shooter) -> npt.NDArray[np.bool_]:
    """Return which coordinates (D,) of a particle are left to choose where windows meet."""
    found = np.ones(shooter.size, dtype=bool)
    for window in shooter.joined:
        found[place(shooter, window)] = False
    return found


def eliminate(shooter: Shooter, now: Evaluation) -> tuple[Array, Array]:
    """Return score (N, U) and curvature (N, U, U) by what is free, of windows that meet."""
    normals, chosen = now.normals[:, shooter.unknown :], free(shooter)
    tangent = np.zeros((*now.score.shape, int(chosen.sum())))
    tangent[:, chosen] = np.eye(tangent.shape[2])
    if normals.size:
        there = np.isfinite(now.log_p)[:, None, None]  # others have no derivatives
        own = np.where(there, normals[:, :, ~chosen], np.eye(normals.shape[1]))
        tangent[:, ~chosen] = -np.linalg.solve(own, normals[:, :, chosen])
    across = tangent.swapaxes(1, 2)
    return (across @ now.score[..., None])[..., 0], across @ now.curvature @ tangent
