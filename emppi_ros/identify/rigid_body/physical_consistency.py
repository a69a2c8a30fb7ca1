"""
Physically consistent inertial parameters, after Ting et al. (2006), section III.B.

A body has 12 parameters in its link's frame: mass m, h = m c (c the center of mass), the inertia I
about the frame's origin (xx, xy, xz, yy, yz, zz), viscous friction and rotor inertia (armature)
of its joint.

The paper maps virtual parameters to these (eq. 5) and optimizes the virtual ones by gradient
descent. That objective has spurious local minima, such as at zero mass, and it admits inertias
that violate the triangle inequality of principal moments. Both problems vanish with the pseudo-
inertia [[S, h], [h', m]], S = tr(I) / 2 - I: it is linear in the parameters, and positive definite
exactly for physically consistent ones (Wensing et al. 2018). The projection of eq. 8 is then
convex.
"""

import numpy as np
from scipy.optimize import least_squares

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError

BODY_PARAMETERS = 12  # parameters of a body
FRICTION, ARMATURE = 10, 11  # indices of those of its joint
_ROWS, _COLUMNS = np.triu_indices(3)  # of the six independent entries of the inertia
_MIN_VALUE = 1e-9  # kg, kg m^2, N m s/rad: lower bound of initial values
_MAX_STEPS = 200
_ROOTS = 18  # of a body: 16 of its pseudo-inertia, and two of its joint
_DEFAULT_BODY = np.array(
    [1.0, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.02, 0.0, 0.02, 0.1, 0.01]
)  # 1 kg, 10 cm


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


# contribution of each of the 16 entries of a pseudo-inertia to the 10 parameters
_LINEAR = np.stack([from_pseudo_inertia(e.reshape(4, 4)) for e in np.eye(16)], axis=1)


_SYMMETRIC = _LINEAR.reshape(10, 4, 4) + np.swapaxes(_LINEAR.reshape(10, 4, 4), 1, 2)


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


def project(found: Array, metric: Array) -> Array:
    """
    Return the physically consistent parameters (12 n,) closest to an estimate, eq. 8.

    `metric` (12 n, 12 n) is X'X of the regressor X, so that unexcited parameters have no weight;
    if the regressor is noisy, plus the variance of its noise times the number of rows.
    IdentificationError if sizes do not match, or values are not finite.
    """
    check_matrix(found, metric, 'metric')
    values, vectors = np.linalg.eigh(0.5 * (metric + metric.T))
    scale = max(values[-1], np.finfo(float).tiny)
    root = np.sqrt(np.maximum(values, 0.0) / scale)[:, None] * vectors.T
    target = root @ found

    def residuals(free: Array) -> Array:
        return root @ _from_roots(free) - target

    # unexcited parameters are arbitrary, and may be a poor start: use the better of two
    starts = [np.concatenate([_initial_root(body) for body in found.reshape(-1, BODY_PARAMETERS)])]
    starts.append(np.tile(_initial_root(_DEFAULT_BODY), len(found) // BODY_PARAMETERS))
    start = min(starts, key=lambda free: np.sum(residuals(free) ** 2))
    limits = {'xtol': 1e-12, 'ftol': 1e-12, 'gtol': 1e-12, 'max_nfev': _MAX_STEPS}
    return _from_roots(
        least_squares(residuals, start, lambda free: root @ _jacobian(free), **limits).x
    )


def _initial_root(body: Array) -> Array:
    """Return square roots: (16,) of a nearby pseudo-inertia, and (2,) of friction and armature."""
    values, vectors = np.linalg.eigh(pseudo_inertia(body))
    # a symmetric root, unlike a triangular one, adds no local minima to the convex problem
    square = vectors * np.sqrt(np.maximum(values, _MIN_VALUE)) @ vectors.T
    return np.append(square.ravel(), np.sqrt(np.maximum(body[FRICTION:], _MIN_VALUE)))


def _from_roots(free: Array) -> Array:
    """Return parameters (12 n,) from roots (18 n,)."""
    rows = free.reshape(-1, _ROOTS)
    square = rows[:, :16].reshape(-1, 4, 4)
    full = (square @ np.swapaxes(square, 1, 2)).reshape(-1, 16)
    return np.column_stack([full @ _LINEAR.T, rows[:, 16:] ** 2]).ravel()


def _jacobian(free: Array) -> Array:
    """Return the derivative (12 n, 18 n) of `_from_roots`."""
    rows = free.reshape(-1, _ROOTS)
    slopes = np.zeros((len(rows), BODY_PARAMETERS, len(rows), _ROOTS))
    for i, row in enumerate(rows):
        slopes[i, :10, i, :16] = (_SYMMETRIC @ row[:16].reshape(4, 4)).reshape(10, 16)
        slopes[i, FRICTION, i, 16], slopes[i, ARMATURE, i, 17] = 2.0 * row[16:]
    return slopes.reshape(BODY_PARAMETERS * len(rows), _ROOTS * len(rows))
