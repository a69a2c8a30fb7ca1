"""Norms: from a residual (..., n) to a scalar cost (...). Register new ones in `NORMS`."""

from collections.abc import Callable

import numpy as np

from emppi_ros.core.arrays import Array


def l1(residual: Array) -> Array:
    """Return the sum of absolute values."""
    return np.sum(np.abs(residual), axis=-1)


def l2(residual: Array) -> Array:
    """Return the Euclidean norm."""
    return np.sqrt(np.einsum('...i,...i->...', residual, residual))


def squared(residual: Array) -> Array:
    """Return the squared Euclidean norm."""
    return np.einsum('...i,...i->...', residual, residual)


def positive(residual: Array) -> Array:
    """Return the sum of the positive elements: a one-sided cost."""
    return np.sum(np.maximum(residual, 0.0), axis=-1)


def shorten(residual: Array, deadzone: float) -> Array:
    """
    Return the residual (..., n), shortened by `deadzone` and zero if it is not longer than that.

    Block soft thresholding: every norm of the result ignores residuals inside the dead zone, and
    grows from zero beyond it (for `l2` this is the deadzone-linear penalty). NaN stays NaN.
    """
    length = l2(residual)
    beyond = np.maximum(length - deadzone, 0.0)
    return residual * (beyond / np.where(length > 0.0, length, 1.0))[..., None]


def soften(residual: Array, smoothing: float) -> Array:
    """
    Return the residual (..., n) with length sqrt(r^2 + p^2) - p, where p is `smoothing` > 0.

    With `l2` this is the pseudo-Huber penalty: quadratic up to about p, linear beyond it.
    """
    length = l2(residual)
    return residual * (length / (np.hypot(length, smoothing) + smoothing))[..., None]


NORMS: dict[str, Callable[[Array], Array]] = {
    'l1': l1,
    'l2': l2,
    'squared': squared,
    'positive': positive,
}
