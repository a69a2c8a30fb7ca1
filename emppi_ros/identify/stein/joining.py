"""
Windows that meet: what is left to choose is parameters, and where recordings begin.

All other starts follow from these by simulation, and derivatives by theirs from the constraints'
normals (the implicit function theorem): no derivative is simulated for it.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.stein.shooting import Shooter
from emppi_ros.identify.stein.target import Evaluation, place
from emppi_ros.model.ensemble import Ensemble, State

Array = npt.NDArray[np.float64]


class Joiner:
    """Makes windows meet; `free` (D,) says which coordinates of a particle are left to choose."""

    def __init__(self, shooter: Shooter, threads: int = 0) -> None:
        """Make one model for each particle, and in it a rollout for each recording."""
        problem, recordings = shooter.problem, len(shooter.firsts)
        self.shooter = shooter
        self._lasts = np.append(shooter.firsts[1:], shooter.windows) - 1
        self._ensemble = Ensemble(
            problem.model, problem.parameters, shooter.particles, recordings, threads
        )
        self.free = np.ones(shooter.size, dtype=bool)
        for window in shooter.joined:
            self.free[place(shooter, window)] = False

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
        for count in range(int(np.max(self._lasts - firsts))):
            # a recording that is over repeats its last window, of which nothing is kept
            now = shooter.controls[np.minimum(firsts + count, self._lasts)]
            controls = np.broadcast_to(now, (len(z), *now.shape))
            state = State(*np.split(start, 2, axis=-1))
            fields = self._ensemble.rollout(state, controls, ('qpos', 'qvel')).fields
            shooter.steps += len(z) * now.shape[0] * now.shape[1]
            start = np.concatenate([fields['qpos'][:, :, -1], fields['qvel'][:, :, -1]], axis=-1)
            for row in np.flatnonzero(firsts + count < self._lasts):
                z[:, place(shooter, firsts[row] + count + 1)] = start[:, row] / scale
        return z

    def eliminate(self, now: Evaluation) -> tuple[Array, Array]:
        """Return score (N, U) and curvature (N, U, U) by what is free, of windows that meet."""
        normals = now.normals[:, self.shooter.unknown :]
        tangent = np.zeros((*now.score.shape, int(self.free.sum())))
        tangent[:, self.free] = np.eye(tangent.shape[2])
        if normals.size:
            there = np.isfinite(now.log_p)[:, None, None]  # others have no derivatives
            own = np.where(there, normals[:, :, ~self.free], np.eye(normals.shape[1]))
            tangent[:, ~self.free] = -np.linalg.solve(own, normals[:, :, self.free])
        across = tangent.swapaxes(1, 2)
        return (across @ now.score[..., None])[..., 0], across @ now.curvature @ tangent
