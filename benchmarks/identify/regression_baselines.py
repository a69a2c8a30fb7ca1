"""Baseline regressions from libraries. Needs the extra `identify`."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV

from benchmarks.identify.errors_in_variables import standardize

Array = npt.NDArray[np.float64]
Regression = Callable[[Array, Array], Array]
_RANK = 1e-8  # relative to the largest singular value: smaller is rounding
_FOLDS = 5
_MOST_COMPONENTS = 12


def least_squares(x: Array, y: Array) -> Array:
    """Return the minimum-norm least-squares coefficients (d,)."""
    return np.asarray(np.linalg.lstsq(x, y, rcond=_RANK)[0], dtype=np.float64)


def total_least_squares(x: Array, y: Array) -> Array:
    """
    Return the total-least-squares coefficients (d,), for equal noise in all columns.

    Redundant inputs are projected out first, as the problem has no solution with them (Golub and
    Van Loan).
    """
    _, sizes, rows = np.linalg.svd(x, full_matrices=False)
    space = rows[sizes > _RANK * sizes[0]].T
    both = np.column_stack([x @ space, y])
    last = np.linalg.svd(both, full_matrices=False)[2][-1]
    return space @ (-last[:-1] / last[-1])


def ridge(x: Array, y: Array) -> Array:
    """Return the coefficients (d,) of ridge regression with cross-validated weight."""
    return RidgeCV(np.logspace(-4.0, 4.0, 25)).fit(x, y).coef_


def lasso(x: Array, y: Array) -> Array:
    """Return the coefficients (d,) of the LASSO with cross-validated weight."""
    return LassoCV(cv=_FOLDS, alphas=50, tol=1e-3, max_iter=5000).fit(x, y).coef_


def partial_least_squares(x: Array, y: Array) -> Array:
    """Return the coefficients (d,) of PLS with cross-validated components."""
    most = min(_MOST_COMPONENTS, np.linalg.matrix_rank(x, tol=_RANK * np.linalg.norm(x)))
    counts, score = {'n_components': list(range(1, most + 1))}, 'neg_mean_squared_error'
    search = GridSearchCV(PLSRegression(scale=False), counts, cv=_FOLDS, scoring=score)
    return search.fit(x, y).best_estimator_.coef_.ravel()


def _standardized(method: Regression) -> Regression:
    """Return the method applied to standardized data, with coefficients in original units."""

    def regress(x: Array, y: Array) -> Array:
        scaled = standardize(x, y)
        return method(scaled.x, scaled.y) * scaled.unit

    return regress


BASELINES: Mapping[str, Regression] = {
    'OLS': _standardized(least_squares),
    'ridge': _standardized(ridge),
    'LASSO': _standardized(lasso),
    'PLS': _standardized(partial_least_squares),
    'TLS': _standardized(total_least_squares),
}
