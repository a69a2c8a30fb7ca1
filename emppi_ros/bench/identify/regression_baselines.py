"""What others do, from libraries: regressions to compare with. Needs the extra `identify`."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV

from emppi_ros.bench.identify.regression_inputs import standardize

Array = npt.NDArray[np.float64]
Regression = Callable[[Array, Array], Array]
_RANK = 1e-8  # of the largest singular value: what is smaller is rounding
_FOLDS = 5
_MOST_COMPONENTS = 12


def least_squares(x: Array, y: Array) -> Array:
    """Return the shortest coefficients (d,) of least squares."""
    return np.linalg.lstsq(x, y, rcond=_RANK)[0]


def total_least_squares(x: Array, y: Array) -> Array:
    """
    Return the coefficients (d,) of total least squares, for like noise in all columns.

    Redundant inputs are left out first, as directions in which x has nothing: without that the
    problem has no solution (Golub and Van Loan).
    """
    _, sizes, rows = np.linalg.svd(x, full_matrices=False)
    space = rows[sizes > _RANK * sizes[0]].T
    both = np.column_stack([x @ space, y])
    last = np.linalg.svd(both, full_matrices=False)[2][-1]
    return space @ (-last[:-1] / last[-1])


def ridge(x: Array, y: Array) -> Array:
    """Return the coefficients (d,) of ridge regression, its weight by cross-validation."""
    return RidgeCV(np.logspace(-4.0, 4.0, 25)).fit(x, y).coef_


def lasso(x: Array, y: Array) -> Array:
    """Return the coefficients (d,) of the LASSO, its weight by cross-validation."""
    return LassoCV(cv=_FOLDS, alphas=50, tol=1e-3, max_iter=5000).fit(x, y).coef_


def partial_least_squares(x: Array, y: Array) -> Array:
    """Return the coefficients (d,) of PLS, its number of components by cross-validation."""
    most = min(_MOST_COMPONENTS, np.linalg.matrix_rank(x, tol=_RANK * np.linalg.norm(x)))
    search = GridSearchCV(
        PLSRegression(scale=False),
        {'n_components': list(range(1, most + 1))},
        cv=_FOLDS,
        scoring='neg_mean_squared_error',
    )
    return search.fit(x, y).best_estimator_.coef_.ravel()


def _standardized(method: Regression) -> Regression:
    """Return a method that is given standardized data, and gives coefficients in their units."""

    def regress(x: Array, y: Array) -> Array:
        scaled = standardize(x, y)
        return method(scaled.x, scaled.y) * scaled.unit

    return regress


ALL: Mapping[str, Regression] = {
    'OLS': _standardized(least_squares),
    'ridge': _standardized(ridge),
    'LASSO': _standardized(lasso),
    'PLS': _standardized(partial_least_squares),
    'TLS': _standardized(total_least_squares),
}
