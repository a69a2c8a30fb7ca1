"""The default regression with noisy inputs: of two methods the one that the data allow."""

import numpy as np
import numpy.typing as npt

from emppi_ros.identify import correction, factors

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
    y : (n,) array
        Noisy output.

    Raises
    ------
    IdentificationError
        If x or y is no data to learn from.

    """
    found = correction.regress(x, y)
    return found.coefficients if found.certain else factors.regress(x, y)
