"""
Draws of bodies that can be, from what a recording says and what bodies are like.

About its mode the density is nearly normal (Laplace). Draws are of that distribution where bodies
are possible, by elliptical slice sampling (Murray, Adams and MacKay 2010): a chain goes to a
point on an ellipse through it and a normal draw, and never leaves what is possible. It has no
step size. Ellipses are along few principal axes at a time, which are independent but for the
border: along all of them one body that is close to it would keep all others from moving.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.rigid_body import bodies
from emppi_ros.identify.rigid_body.bodies import Everyday, Known
from emppi_ros.identify.rigid_body.consistency import COUNT, pseudo_inertia

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_CHAINS, _AXES = 100, 7  # chains, all from the mode; axes of a turn
_FIRST, _APART = 600, 20  # turns before the first draws of all chains, and between these
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
    sizes, axes = np.linalg.eigh(curvature * np.outer(unit, unit))
    root = unit[:, None] * axes / np.sqrt(sizes)
    white = np.zeros((min(count, _CHAINS), len(root)))
    taken = []
    for turn in range(_FIRST + _APART * (-(-count // len(white)) - 1) + 1):
        white = _turn(white, mode, root, known.free, rng)
        if turn >= _FIRST and (turn - _FIRST) % _APART == 0:
            taken.append(white)
    found = np.tile(mode, (count, 1))
    found[:, known.free] += np.concatenate(taken)[:count] @ root.T
    return known.fixed + found


def _turn(white: Array, mode: Array, root: Array, free: Bools, rng: np.random.Generator) -> Array:
    """Return white moves (n, k) from the mode, as far as these along all axes but some."""
    turned = np.zeros(white.shape[1], dtype=bool)
    turned[rng.permutation(len(turned))[:_AXES]] = True
    still, moves = np.where(turned, 0.0, white), np.where(turned, white, 0.0)
    other = np.where(turned, rng.standard_normal(white.shape), 0.0)
    angle = rng.uniform(0.0, 2.0 * np.pi, len(white))
    low, high = angle - 2.0 * np.pi, angle.copy()
    found, left = white.copy(), np.arange(len(white))
    while len(left):
        tried = still[left] + np.cos(angle[left])[:, None] * moves[left]
        tried += np.sin(angle[left])[:, None] * other[left]
        taken = _possible(mode, free, tried @ root.T)
        found[left[taken]] = tried[taken]
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
