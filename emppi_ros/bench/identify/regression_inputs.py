"""
Which inputs of a regression can say anything, and all of them in one scale.

>>> columns = base(x)                     # no redundant one
>>> scaled = standardize(x[:, columns], y)
>>> columns = columns[related(scaled)]    # none that is but noise
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.stats

from emppi_ros.core.errors import IdentificationError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
_RANK = 1e-8  # of the largest column: what is smaller is rounding
_MISTAKE = 0.01  # probability that any of the inputs that are but noise is kept


class Scaled(NamedTuple):
    """Inputs and output of mean 0 and variance 1, and what takes coefficients back."""

    x: Array  # (n, d)
    y: Array  # (n,)
    unit: Array  # (d,) of a coefficient: that of y over that of x


def check(x: Array, y: Array) -> None:
    """Raise IdentificationError unless x (n, d) and y (n,) are data to learn from."""
    if x.ndim != 2 or y.shape != x.shape[:1] or not x.size:
        raise IdentificationError(
            f'inputs {x.shape} and output {y.shape} do not match: expected (n, d) and (n,)'
        )
    for name, values in (('inputs', x), ('output', y)):
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise IdentificationError(f'{name}: row {row} is not finite')
    if np.ptp(y) == 0.0:
        raise IdentificationError('output: it never changes, so that nothing can be learned')


def standardize(x: Array, y: Array) -> Scaled:
    """Return inputs (n, d) and output (n,) of mean 0 and variance 1; constant ones are errors."""
    check(x, y)
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0.0)
    if len(constant):
        raise IdentificationError(f'inputs: columns {constant.tolist()} never change')
    unit = y.std() / x.std(axis=0)
    return Scaled((x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std(), unit)


def base(x: Array) -> Indices:
    """
    Return columns of x (n, d) of which all others are combinations, in ascending order.

    QR with pivoting takes the largest column first, and then what is left of the others. Where
    redundant inputs are convex combinations of some, as in the benchmark of Ting et al. (2006),
    it finds these: no combination is as large. In a robot's regressor it finds base parameters.
    """
    moving = x - x.mean(axis=0)
    if not np.any(moving):
        raise IdentificationError('inputs: none of them changes: record more motion')
    r, pivots = scipy.linalg.qr(moving, mode='r', pivoting=True)
    sizes = np.abs(np.diag(r))
    return np.sort(pivots[: len(sizes)][sizes > _RANK * sizes[0]])


def related(scaled: Scaled) -> Indices:
    """
    Return the inputs that correlate with another one or with the output; the others are noise.

    Fisher's z of a correlation that is zero is normal with variance 1 / (n - 3); the level is
    shared by all pairs (Bonferroni). If none is related, all are returned.
    """
    n, d = scaled.x.shape
    together = np.column_stack([scaled.x, scaled.y])
    correlation = np.abs(together.T @ together) / n
    np.fill_diagonal(correlation, 0.0)
    pairs = d * (d + 1) / 2
    least = np.tanh(scipy.stats.norm.isf(_MISTAKE / pairs / 2) / np.sqrt(max(n - 3, 1)))
    found = np.flatnonzero(correlation[:d].max(axis=1) > least)
    return found if len(found) else np.arange(d)
