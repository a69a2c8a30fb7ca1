"""
Draws of bodies that can be, from what a recording says and what bodies are like.

About its mode the density is nearly normal (Laplace). Draws are of that distribution where bodies
are possible, by elliptical slice sampling (Murray, Adams and MacKay 2010): a chain goes to a
point on an ellipse through it and a normal draw, and never leaves what is possible. It has no
step size. All chains begin at the mode.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.consistency import COUNT, pseudo_inertia
from emppi_ros.identify.rigid import bodies
from emppi_ros.identify.rigid.bodies import Everyday, Known

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_TURNS = 100  # of each chain
_UNITS = np.stack([pseudo_inertia(e) for e in np.eye(10)])  # (10, 4, 4)


def draw(
    information: Array, score: Array, everyday: Everyday, known: Known, count: int,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Return bodies (count, 11 B); arguments are those of `bodies.fit`."""
    mode = bodies.fit(information, score, everyday, known) - known.fixed
    second = bodies.slopes(mode)[1]
    curvature = (information + everyday.weight * second)[np.ix_(known.free, known.free)]
    unit = 1.0 / np.sqrt(np.diag(curvature))
    root = np.linalg.cholesky(np.linalg.inv(curvature * np.outer(unit, unit))) * unit[:, None]
    moves = np.zeros((count, len(root)))
    for _ in range(_TURNS):
        moves = _turn(moves, rng.standard_normal(moves.shape) @ root.T, mode, known.free, rng)
    found = np.tile(mode, (count, 1))
    found[:, known.free] += moves
    return known.fixed + found


def _turn(moves: Array, other: Array, mode: Array, free: Bools, rng: np.random.Generator) -> Array:
    """Return possible moves (n, k) on the ellipses through these and others."""
    angle = rng.uniform(0.0, 2.0 * np.pi, len(moves))
    low, high = angle - 2.0 * np.pi, angle.copy()
    found, left = moves.copy(), np.arange(len(moves))
    while len(left):
        turned = np.cos(angle[left])[:, None] * moves[left]
        turned += np.sin(angle[left])[:, None] * other[left]
        taken = _possible(mode, free, turned)
        found[left[taken]] = turned[taken]
        left = left[~taken]
        low[left] = np.where(angle[left] < 0.0, angle[left], low[left])
        high[left] = np.where(angle[left] < 0.0, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])
    return found


def _possible(mode: Array, free: Bools, moves: Array) -> Bools:
    """Return which moves (n, k) from the mode all bodies can make."""
    whole = np.tile(mode, (len(moves), 1))
    whole[:, free] += moves
    rows, moved = whole.reshape(len(moves), -1, COUNT), free.reshape(-1, COUNT)
    inertial = rows[:, moved[:, :10].any(axis=1), :10]
    least = np.linalg.eigvalsh(np.tensordot(inertial, _UNITS, 1))[..., 0]
    return np.all(least > 0.0, axis=1) & np.all(rows[:, moved[:, 10], 10] > 0.0, axis=1)
