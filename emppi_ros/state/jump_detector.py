"""Detect that the scene was moved, as by a reset of the simulator or by a person's hand."""

import mujoco
import numpy as np

from emppi_ros.model.ensemble import State

_LEAST = 0.05  # m or rad beyond the motion explained by velocities
_NOISE_SDS = 6.0  # Gaussian noise of 24 joints at 50 Hz exceeds it every few days
_MEMORY = 50  # states, over which the noise is averaged


class JumpDetector:
    """Compares successive states: a jump is neither explained by velocities nor by noise."""

    MEMORY = ('_count', '_variance')

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._count, self._variance = 0, np.zeros(model.nv)

    def update(self, elapsed: float, before: State, after: State) -> bool:
        """Return whether anything jumped from one state to the next, `elapsed` [s] later."""
        moved = np.empty(self._model.nv)
        mujoco.mj_differentiatePos(self._model, moved, 1.0, before.qpos, after.qpos)
        explained = elapsed * (np.abs(before.qvel) + np.abs(after.qvel))
        excess = np.maximum(np.abs(moved) - explained, 0.0)
        limit = np.maximum(_LEAST, _NOISE_SDS * np.sqrt(self._variance))
        self._count += 1
        share = max(1.0 / self._count, 1.0 / _MEMORY)
        self._variance += share * (np.minimum(excess, limit) ** 2 - self._variance)
        return bool(np.any(excess > limit))
