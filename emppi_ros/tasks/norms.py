"""Norms: from a residual vector (..., n) to a cost (...)."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def l1(residual: Array) -> Array:
    """Return the sum of absolute values."""
    return np.sum(np.abs(residual), axis=-1)


def l2(residual: Array) -> Array:
    """Return the Euclidean length."""
    return np.sqrt(np.einsum('...i,...i->...', residual, residual))


def squared(residual: Array) -> Array:
    """Return the squared Euclidean length."""
    return np.einsum('...i,...i->...', residual, residual)


def positive(residual: Array) -> Array:
    """Return the sum of what exceeds zero: a one-sided cost."""
    return np.sum(np.maximum(residual, 0.0), axis=-1)


NORMS: dict[str, Callable[[Array], Array]] = {
    'l1': l1,
    'l2': l2,
    'squared': squared,
    'positive': positive,
}
