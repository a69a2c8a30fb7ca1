"""
Linear regressions without intercept: coefficients (d,) from inputs (n, d) and an output (n,).

All scale columns and the output to unit root mean square. Settings are chosen by five-fold
cross-validation.
"""

from collections.abc import Callable, Mapping
import functools

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError

Regression = Callable[[Array, Array], Array]
_RANK = 1e-8  # relative to the largest singular value or column: smaller is rounding
_FOLDS = 5
_RIDGES = np.logspace(-6.0, 2.0, 33)  # relative to the number of rows
_PENALTIES = np.logspace(0.0, -4.0, 40)  # of the LASSO, relative to the largest possible
_SWEEPS, _SMALL = 300, 1e-5  # of coordinate descent, and a change that ends it
_COMPONENTS = 30  # of partial least squares, at most
ENTER, REMOVE = 4.0, 3.9  # F statistics of stepwise regression


def scaled(method: Regression) -> Regression:
    """Return a method applied to scaled data, with coefficients in the original units."""

    def regress(x: Array, y: Array) -> Array:
        if not (np.isfinite(x).all() and np.isfinite(y).all() and np.any(y)):
            raise IdentificationError('inputs or output are not finite, or the output is zero')
        size, unit = np.sqrt(np.mean(x**2, axis=0)), float(np.sqrt(np.mean(y**2)))
        used = size > _RANK * size.max()  # others are always zero
        coefficients = np.zeros(x.shape[1])
        coefficients[used] = method(x[:, used] / size[used], y / unit) * unit / size[used]
        return coefficients

    return regress


def least_squares(x: Array, y: Array) -> Array:
    """Return the minimum-norm least-squares coefficients."""
    return np.asarray(np.linalg.lstsq(x, y, rcond=_RANK)[0], dtype=np.float64)


def cross_validated(path: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
    """Return those of the coefficients (k, d) of a path that predict left-out rows best."""
    error = np.zeros(1)
    for part in np.array_split(np.arange(len(y)), _FOLDS):
        rest = path(np.delete(x, part, axis=0), np.delete(y, part))
        error = error + np.sum((y[part] - rest @ x[part].T) ** 2, axis=1)
    best: Array = path(x, y)[np.argmin(error)]
    return best


def ridge_path(x: Array, y: Array) -> Array:
    """Return the coefficients of ridge regression for all weights."""
    sizes, axes = np.linalg.eigh(x.T @ x)
    return (axes.T @ (x.T @ y) / (sizes + len(y) * _RIDGES[:, None])) @ axes.T


def lasso_path(x: Array, y: Array) -> Array:
    """Return the coefficients of the LASSO, by coordinate descent for all penalties at once."""
    gram, score = x.T @ x / len(y), x.T @ y / len(y)
    coefficients = np.zeros((len(_PENALTIES), len(score)))
    for _ in range(_SWEEPS):
        before = coefficients.copy()
        for j, size in enumerate(np.diag(gram)):
            pull = score[j] - coefficients @ gram[j] + size * coefficients[:, j]
            shrunk = np.maximum(np.abs(pull) - _PENALTIES, 0.0)
            coefficients[:, j] = np.sign(pull) * shrunk / size
        if np.abs(coefficients - before).max() < _SMALL:
            break
    return coefficients


def pls_path(x: Array, y: Array) -> Array:
    """Return the coefficients of partial least squares: the iterates of conjugate gradients."""
    gram, score = x.T @ x, x.T @ y
    basis, coefficients = np.zeros((0, len(score))), np.zeros((_COMPONENTS, len(score)))
    for k in range(_COMPONENTS):
        coefficients[k:] = basis.T @ (basis @ score)
        new = score - gram @ coefficients[k]
        if not np.linalg.norm(new) > _RANK * np.linalg.norm(score):
            break
        for _ in range(2):  # twice: rounding
            new = new - basis.T @ (basis @ (gram @ new))
        basis = np.vstack([basis, new / np.sqrt(new @ gram @ new)])
    return coefficients


def stepwise(x: Array, y: Array) -> Array:
    """
    Return the coefficients of stepwise regression (Draper and Smith 1981).

    The most significant input enters, then the least significant leaves, until none does.
    """
    (count, width), chosen = x.shape, list[int]()
    for _ in range(2 * width):
        basis = np.linalg.qr(x[:, chosen])[0]
        residual, candidates = y - basis @ (basis.T @ y), x - basis @ (basis.T @ x)
        size = np.sum(candidates**2, axis=0)
        gain = np.where(
            size > _RANK * count, (residual @ candidates) ** 2 / np.maximum(size, _RANK), 0.0
        )
        best = int(np.argmax(gain))
        noise = (residual @ residual - gain[best]) / max(count - len(chosen) - 1, 1)
        if gain[best] < max(ENTER * noise, _RANK**2 * count):
            break
        chosen.append(best)
        inverse = np.linalg.inv(x[:, chosen].T @ x[:, chosen])
        losses = (inverse @ (x[:, chosen].T @ y)) ** 2 / np.diag(inverse)
        if losses.min() < REMOVE * noise:
            del chosen[int(np.argmin(losses))]
    coefficients = np.zeros(width)
    coefficients[chosen] = least_squares(x[:, chosen], y)
    return coefficients


REGRESSIONS: Mapping[str, Regression] = {
    'OLS': scaled(least_squares),
    'ridge': scaled(functools.partial(cross_validated, ridge_path)),
    'LASSO': scaled(functools.partial(cross_validated, lasso_path)),
    'PLS': scaled(functools.partial(cross_validated, pls_path)),
    'stepwise': scaled(stepwise),
}
