"""
Rigid-body parameters that a body can have, after Ting et al. (2006), section III.B.

A body has 11 parameters in its link's frame: mass m, h = m c (three, c the centre of mass), the
inertia I about the frame's origin (xx, xy, xz, yy, yz, zz) and viscous friction.

The paper makes them from virtual ones by eq. 5, and seeks those by descent. That has false
valleys, such as at a mass of zero, and allows inertias that no body has: the largest moment
never exceeds the sum of the others. Both end with the pseudo-inertia [[S, h], [h', m]], where
S = tr(I) / 2 - I: it is linear in the parameters, and positive definite just for those of
bodies (Wensing et al. 2018). To be closest in eq. 8 is then a convex problem.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from emppi_ros.core.errors import IdentificationError

Array = npt.NDArray[np.float64]
BODY_PARAMETERS = 11  # parameters of a body
_ROWS, _COLUMNS = np.triu_indices(3)  # of the inertia's six numbers
_MIN_VALUE = 1e-9  # kg, kg m^2, N m s: where a start is not physical
_MAX_STEPS = 200  # of the solver, at most
_DEFAULT_BODY = np.array([1.0, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.02, 0.0, 0.02, 0.1])  # 1 kg, 10 cm


def from_virtual(virtual: Array) -> Array:
    """
    Return the parameters (11,) of a body from virtual ones (11,), eq. 5.

    Virtual are sqrt(m), c, the six numbers of a lower triangle L, column by column, of which L L'
    is the inertia at the centre of mass, and the root of friction.
    """
    mass, centre = virtual[0] ** 2, virtual[1:4]
    lower = np.zeros((3, 3))
    lower[_COLUMNS, _ROWS] = virtual[4:10]
    parallel = mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    inertia = (lower @ lower.T + parallel)[_ROWS, _COLUMNS]
    return np.concatenate([[mass], mass * centre, inertia, [virtual[10] ** 2]])


def pseudo_inertia(actual: Array) -> Array:
    """Return the pseudo-inertia (4, 4) of a body's parameters (11,) or (10,)."""
    inertia = np.empty((3, 3))
    inertia[_ROWS, _COLUMNS] = inertia[_COLUMNS, _ROWS] = actual[4:10]
    full = np.empty((4, 4))
    full[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    full[:3, 3] = full[3, :3] = actual[1:4]
    full[3, 3] = actual[0]
    return full


def from_pseudo_inertia(full: Array) -> Array:
    """Return the parameters (10,) but friction of a body's pseudo-inertia (4, 4)."""
    inertia = np.trace(full[:3, :3]) * np.eye(3) - full[:3, :3]
    return np.concatenate([[full[3, 3]], full[:3, 3], inertia[_ROWS, _COLUMNS]])


# what each of the 16 entries of a pseudo-inertia gives to the 10 parameters
_LINEAR = np.stack([from_pseudo_inertia(e.reshape(4, 4)) for e in np.eye(16)], axis=1)


_SYMMETRIC = _LINEAR.reshape(10, 4, 4) + np.swapaxes(_LINEAR.reshape(10, 4, 4), 1, 2)


def project(found: Array, metric: Array) -> Array:
    """
    Return the possible parameters (11 n,) closest to those found, eq. 8.

    Parameters
    ----------
    found : (11 n,) array
        Parameters of n bodies, as a regression gives them.
    metric : (11 n, 11 n) array
        X'X of the regressor X, in which parameters that move nothing weigh nothing; where the
        regressor is noisy, plus the variance of its noise times the number of rows.

    Raises
    ------
    IdentificationError
        If the sizes do not match, or something is not finite.

    """
    size = len(found)
    if size % BODY_PARAMETERS or metric.shape != (size, size):
        raise IdentificationError(
            f'{size} parameters and a metric {metric.shape}: expected 11 for each body, squared'
        )
    if not (np.isfinite(found).all() and np.isfinite(metric).all()):
        raise IdentificationError('parameters or metric are not finite')
    values, vectors = np.linalg.eigh(0.5 * (metric + metric.T))
    scale = max(values[-1], np.finfo(float).tiny)
    root = np.sqrt(np.maximum(values, 0.0) / scale)[:, None] * vectors.T
    target = root @ found

    def residuals(free: Array) -> Array:
        return root @ _from_roots(free) - target

    # what moves nothing may be anything, as far from any body as can be: then begin elsewhere
    starts = [np.concatenate([_initial_root(body) for body in found.reshape(-1, BODY_PARAMETERS)])]
    starts.append(np.tile(_initial_root(_DEFAULT_BODY), size // BODY_PARAMETERS))
    done = least_squares(
        residuals,
        min(starts, key=lambda free: np.sum(residuals(free) ** 2)),
        jac=lambda free: root @ _jacobian(free),
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
        max_nfev=_MAX_STEPS,
    )
    return _from_roots(done.x)


def _initial_root(body: Array) -> Array:
    """Return a root (16,) of a possible pseudo-inertia near by, and one of friction (1,)."""
    values, vectors = np.linalg.eigh(pseudo_inertia(body))
    # square, not a triangle: a square root has no valleys but those of the convex problem
    square = vectors * np.sqrt(np.maximum(values, _MIN_VALUE)) @ vectors.T
    return np.append(square.ravel(), np.sqrt(max(body[10], _MIN_VALUE)))


def _from_roots(free: Array) -> Array:
    """Return parameters (11 n,) from roots (17 n,)."""
    rows = free.reshape(-1, 17)
    square = rows[:, :16].reshape(-1, 4, 4)
    full = (square @ np.swapaxes(square, 1, 2)).reshape(-1, 16)
    return np.column_stack([full @ _LINEAR.T, rows[:, 16] ** 2]).ravel()


def _jacobian(free: Array) -> Array:
    """Return the derivative (11 n, 17 n) of the parameters."""
    rows = free.reshape(-1, 17)
    slopes = np.zeros((len(rows), BODY_PARAMETERS, len(rows), 17))
    for i, row in enumerate(rows):
        slopes[i, :10, i, :16] = (_SYMMETRIC @ row[:16].reshape(4, 4)).reshape(10, 16)
        slopes[i, 10, i, 16] = 2.0 * row[16]
    return slopes.reshape(BODY_PARAMETERS * len(rows), 17 * len(rows))
