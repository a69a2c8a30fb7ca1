"""The default regression with noisy inputs: of two methods the one that the data allow."""

import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import bayesian_factor_analysis, errors_in_variables
from emppi_ros.bench.identify.regression_inputs import check
from emppi_ros.core.errors import IdentificationError

Array = npt.NDArray[np.float64]


def regress(x: Array, y: Array) -> Array:
    """
    Return coefficients (d,) that predict from noiseless inputs.

    The correction of the covariance is by far the more accurate where inputs hang together and
    have like shares of noise, and far off where they do not hang together. It says whether they
    do; joint factor analysis is for the others.

    Parameters
    ----------
    x : (n, d) array
        Noisy inputs, of which some may be combinations of others, or have nothing to do with y.
        One that never changes tells nothing: its coefficient is 0.
    y : (n,) array
        Noisy output.

    Raises
    ------
    IdentificationError
        If x or y is no data to learn from.

    """
    check(x, y)
    changing = np.ptp(x, axis=0) > 0.0
    if not changing.any():
        raise IdentificationError('inputs: none of them changes: record more motion')
    used = np.compress(changing, x, axis=1)  # in rows as x is: the same rounding
    found = errors_in_variables.regress(used, y)
    coefficients = np.zeros(x.shape[1])
    coefficients[changing] = (
        found.coefficients if found.certain else bayesian_factor_analysis.regress(used, y)
    )
    return coefficients
