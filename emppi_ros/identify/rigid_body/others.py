"""What a joint's torque has besides bodies, in known shapes: dry friction, a sensor's offset."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_LARGE = 10.0  # of a joint's torque, rms: by as much they may be off, before


class Others(NamedTuple):
    """Numbers (nv, e) that are most likely, given bodies b (11 B,): `alone` - `gain` b."""

    alone: Array  # (nv e,)
    gain: Array  # (nv e, 11 B)
    mixed: Array  # (11 B, nv e) of the normal equations
    inner: Array  # (nv e, nv e) likewise
    joints: int

    def given(self, bodies: Array) -> Array:
        """Return them (nv, e)."""
        return (self.alone - self.gain @ bodies).reshape(self.joints, -1)

    def draw(self, bodies: Array, spread: float, rng: np.random.Generator) -> Array:
        """Return draws (n, nv, e) of them given bodies (n, 11 B), with `spread` times the sd."""
        root = np.linalg.cholesky(self.inner)
        normal = rng.standard_normal((len(root), len(bodies)))
        found = self.alone - bodies @ self.gain.T + spread * np.linalg.solve(root.T, normal).T
        return found.reshape(len(bodies), self.joints, -1)


def eliminate(white: Array, torque: Array, shapes: Array | None, x: Array, y: Array) -> Others:
    """
    Return what takes these numbers out of the normal equations of bodies.

    `white` (n, nv, nv) takes torques (n, nv) to units of their noise, in which x (n nv, 11 B)
    and y (n nv,) are; a joint's torque has `shapes` (n, nv, e) times its numbers.
    """
    n, nv = torque.shape
    shapes = np.zeros((n, nv, 0)) if shapes is None else shapes
    own = np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]
    z = (white @ own.reshape(n, nv, -1)).reshape(n * nv, -1)
    before = np.repeat(_LARGE * np.sqrt(np.mean(torque**2, axis=0)), shapes.shape[2])
    inner = z.T @ z + np.diag(before**-2.0)
    mixed = x.T @ z
    alone, gain = np.linalg.solve(inner, z.T @ y), np.linalg.solve(inner, mixed.T)
    return Others(alone, gain, mixed, inner, nv)
