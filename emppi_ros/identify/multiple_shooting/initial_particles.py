"""Initial particles near an estimate."""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identify.multiple_shooting.problem import LIMIT


class ParticleStart(NamedTuple):
    """Normal distribution of initial particles: the linearized posterior about an estimate."""

    mean: Array  # (D,)
    covariance: Array  # (D, D)

    def draw(self, particles: int, unknown: int, seed: int) -> Array:
        """Return particles (N, D); parameters beyond a limit are reflected at it."""
        rng = np.random.default_rng([seed, 0, 2])  # a stream that no draw of the refinement uses
        root = np.linalg.cholesky(self.covariance)
        z = self.mean + rng.standard_normal((particles, len(self.mean))) @ root.T
        inside = LIMIT - np.abs(LIMIT - z[:, :unknown])
        z[:, :unknown] = np.clip(np.abs(inside + LIMIT) - LIMIT, -LIMIT, LIMIT)
        return z
