"""
Linear regressions without intercept: coefficients (d,) from inputs (n, d) and an output (n,).

Settings are chosen by five-fold cross-validation, those of ridge regression by the generalized
one. All scale columns and the output to unit root mean square.
"""

from collections.abc import Callable, Mapping

import numpy as np
import scipy.stats

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError

Regression = Callable[[Array, Array], Array]
_RANK = 1e-8  # relative to the largest singular value or column: smaller is rounding
_FOLDS = 5
_RIDGES = np.logspace(-6.0, 2.0, 33)  # relative to the number of rows
_PENALTIES = np.logspace(0.0, -4.0, 40)  # of the LASSO, relative to the largest possible
_SWEEPS, _SMALL = 300, 1e-5  # of coordinate descent, and a change that ends it
_COMPONENTS = 30  # of partial least squares, at most
_ENTER, _REMOVE = 0.05, 0.1  # significance levels of stepwise regression


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


def total_least_squares(x: Array, y: Array) -> Array:
    """Return the total-least-squares coefficients, in the span of the inputs (Golub, Van Loan)."""
    _, sizes, rows = np.linalg.svd(x, full_matrices=False)
    space = rows[sizes > _RANK * sizes[0]].T
    last = np.linalg.svd(np.column_stack([x @ space, y]), full_matrices=False)[2][-1]
    return space @ (-last[:-1] / last[-1])


def ridge(x: Array, y: Array) -> Array:
    """Return the coefficients with the weight of the least generalized cross-validation error."""
    left, sizes, rows = np.linalg.svd(x, full_matrices=False)
    shares = sizes**2 / (sizes**2 + len(y) * _RIDGES[:, None])
    along = left.T @ y
    rest = y @ y - along @ along + ((1.0 - shares) ** 2) @ along**2
    best = shares[np.argmin(rest / (len(y) - shares.sum(axis=1)) ** 2)]
    return (best * along / np.maximum(sizes, np.finfo(float).tiny)) @ rows


def lasso(x: Array, y: Array) -> Array:
    """Return the coefficients of the LASSO, by coordinate descent for all penalties at once."""
    return _cross_validated(_lasso_path, x, y)


def partial_least_squares(x: Array, y: Array) -> Array:
    """Return the coefficients of partial least squares (conjugate gradients are the same)."""
    return _cross_validated(_pls_path, x, y)


def _cross_validated(path: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
    """Return those of the coefficients (k, d) of a path that predict left-out rows best."""
    error = np.zeros(1)
    for part in np.array_split(np.arange(len(y)), _FOLDS):
        coefficients = path(np.delete(x, part, axis=0), np.delete(y, part))
        error = error + np.sum((y[part] - coefficients @ x[part].T) ** 2, axis=1)
    best: Array = path(x, y)[np.argmin(error)]
    return best


def _lasso_path(x: Array, y: Array) -> Array:
    gram, score = x.T @ x / len(y), x.T @ y / len(y)
    coefficients = np.zeros((len(_PENALTIES), len(score)))
    for _ in range(_SWEEPS):
        change = 0.0
        for j, size in enumerate(np.diag(gram)):
            pull = score[j] - coefficients @ gram[j] + size * coefficients[:, j]
            moved = np.sign(pull) * np.maximum(np.abs(pull) - _PENALTIES, 0.0) / size
            change = max(change, float(np.abs(moved - coefficients[:, j]).max()))
            coefficients[:, j] = moved
        if change < _SMALL:
            break
    return coefficients


def _pls_path(x: Array, y: Array) -> Array:
    gram, score = x.T @ x, x.T @ y
    basis = np.zeros((0, len(score)))
    coefficients = np.zeros((_COMPONENTS, len(score)))
    for k in range(_COMPONENTS):
        coefficients[k:] = basis.T @ (basis @ score)
        new = score - gram @ coefficients[k]
        for _ in range(2):  # twice: rounding
            new = new - basis.T @ (basis @ (gram @ new))
        size = float(new @ gram @ new)
        if not np.linalg.norm(new) > _RANK * np.linalg.norm(score) or size <= 0.0:
            break
        basis = np.vstack([basis, new / np.sqrt(size)])
    return coefficients


def stepwise(x: Array, y: Array) -> Array:
    """
    Return the coefficients of stepwise regression (Draper and Smith 1981).

    The most significant input enters, then the least significant leaves, until none does.
    """
    count, width = x.shape
    chosen = list[int]()
    for _ in range(2 * width):
        basis = np.linalg.qr(x[:, chosen])[0]
        left, others = y - basis @ (basis.T @ y), x - basis @ (basis.T @ x)
        size = np.sum(others**2, axis=0)
        new = size > _RANK * np.sum(x**2, axis=0)
        gain = np.where(new, (left @ others) ** 2 / np.maximum(size, np.finfo(float).tiny), 0.0)
        best, free = int(np.argmax(gain)), count - len(chosen) - 1
        rest = left @ left - gain[best]
        if free < 1 or _p_value(gain[best], rest, free) > _ENTER:
            break
        chosen.append(best)
        inverse = np.linalg.inv(x[:, chosen].T @ x[:, chosen])
        fit = inverse @ (x[:, chosen].T @ y)
        losses = fit**2 / np.diag(inverse)
        weakest = int(np.argmin(losses))
        if _p_value(losses[weakest], rest, free) > _REMOVE:
            del chosen[weakest]
    coefficients = np.zeros(width)
    coefficients[chosen] = least_squares(x[:, chosen], y)
    return coefficients


def _p_value(gain: float, rest: float, free: int) -> float:
    """Return the probability of such a decrease of squared residuals, of which `rest` is left."""
    ratio = gain * free / max(rest, np.finfo(float).tiny)
    return float(scipy.stats.f.sf(ratio, 1, free))


BASELINES: Mapping[str, tuple[Regression, str]] = {
    'OLS': (scaled(least_squares), 'ordinary least squares'),
    'ridge': (scaled(ridge), 'ridge regression'),
    'LASSO': (scaled(lasso), 'the LASSO'),
    'PLS': (scaled(partial_least_squares), 'partial least squares'),
    'TLS': (scaled(total_least_squares), 'total least squares'),
    'stepwise': (scaled(stepwise), 'stepwise regression: inputs enter at 5 %, leave at 10 %'),
}
