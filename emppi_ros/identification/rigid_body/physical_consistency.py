"""
Physically consistent inertial parameters.

A body has 12 parameters in its link's frame: mass m, h = m c (c the center of mass), the inertia I
about the frame's origin (xx, xy, xz, yy, yz, zz), viscous friction and rotor inertia (armature)
of its joint.

The pseudo-inertia [[S, h], [h', m]], S = tr(I) / 2 - I, is linear in the parameters, and positive
definite exactly for physically consistent ones (Wensing et al. 2018), so that the closest
consistent body is the solution of a convex problem.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError

BODY_PARAMETERS = 12  # parameters of a body
FRICTION, ARMATURE = 10, 11  # indices of those of its joint
_ROWS, _COLUMNS = np.triu_indices(3)  # of the six independent entries of the inertia


def pseudo_inertia(actual: Array) -> Array:
    """Return the pseudo-inertia (4, 4) of parameters (12,) or (10,) of a body."""
    inertia = np.empty((3, 3))
    inertia[_ROWS, _COLUMNS] = inertia[_COLUMNS, _ROWS] = actual[4:10]
    full = np.empty((4, 4))
    full[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    full[:3, 3] = full[3, :3] = actual[1:4]
    full[3, 3] = actual[0]
    return full


def from_pseudo_inertia(full: Array) -> Array:
    """Return the inertial parameters (10,) of a pseudo-inertia (4, 4)."""
    inertia = np.trace(full[:3, :3]) * np.eye(3) - full[:3, :3]
    return np.concatenate([[full[3, 3]], full[:3, 3], inertia[_ROWS, _COLUMNS]])


def check_matrix(vector: Array, matrix: Array, name: str) -> None:
    """Raise IdentificationError unless a vector (12 n,) and a matrix (12 n, 12 n) fit bodies."""
    size = len(vector)
    if size % BODY_PARAMETERS or matrix.shape != (size, size):
        raise IdentificationError(
            f'{size} parameters and a {name} of shape {matrix.shape}: expected '
            f'{BODY_PARAMETERS} parameters per body, and a square matrix'
        )
    if not (np.isfinite(vector).all() and np.isfinite(matrix).all()):
        raise IdentificationError(f'parameters or {name} not finite')
