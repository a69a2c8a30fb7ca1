"""
Diagnostics of a belief: innovations, and identifiability of the parameters.

An innovation is a measurement minus its prediction. Normalized by its standard deviation (that of
the measurement and of the predictions together) it has mean 0 and variance 1 if the belief is
consistent (Bar-Shalom, Li and Kirubarajan, *Estimation with Applications to Tracking and
Navigation*, 2001, section 5.4). Another mean is a bias; a larger variance is an effect that no
particle explains; a smaller one means that measurements are better than configured.

Converged particles prove nothing: if no prediction depends on a parameter, resampling alone
reduces its spread. Identifiability therefore looks at the sensitivity of predictions to each
parameter. The Fisher information of all measurements adds up and, with that of the prior, bounds
the posterior standard deviation from below (Van Trees inequality; in practice the local
identifiability of Rothenberg, Econometrica 1971). If only the ratio of two parameters is
observable, both stay uncertain.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.likelihood import Deviation
from emppi_ros.core import weights

Array = npt.NDArray[np.float64]
_WINDOW = 200  # updates: a few seconds
_MAX_MEAN_SQUARE = 2.0  # of normalized innovations; that of a consistent belief is 1
_UNIDENTIFIABLE = 0.9  # of the prior's standard deviation remaining


def normalized_innovations(
    log_weights: Array, deviations: Sequence[Deviation]
) -> dict[str, Array]:
    """
    Return normalized innovations (n,) by quantity.

    `log_weights` (M,) are those before the update. Diverged models are ignored; a
    quantity is omitted if all models diverged.
    """
    parts: dict[str, list[Array]] = {}
    for deviation in deviations:
        finite = np.isfinite(deviation.values).all(axis=1) & np.isfinite(log_weights)
        if finite.any():
            shares, values = log_weights[finite], deviation.values[finite]
            mean = weights.mean(shares, values)
            variance = weights.mean(shares, (values - mean) ** 2)
            parts.setdefault(deviation.quantity, []).append(-mean / np.sqrt(1.0 + variance))
    return {quantity: np.concatenate(values) for quantity, values in parts.items()}


class InnovationStatistics:
    """Mean and variance of recent normalized innovations, by quantity."""

    def __init__(self) -> None:
        """Start without innovations."""
        self._sums: dict[str, deque[tuple[int, float, float]]] = {}

    def add(self, innovations: dict[str, Array]) -> None:
        """Add the normalized innovations of one update."""
        for quantity, values in innovations.items():
            sums = self._sums.setdefault(quantity, deque(maxlen=_WINDOW))
            sums.append((values.size, float(values.sum()), float(values @ values)))

    def statistics(self) -> dict[str, tuple[float, float]]:
        """Return (mean, variance) by quantity."""
        result = {}
        for quantity, sums in list(self._sums.items()):  # another thread may add
            count, total, square = np.sum(list(sums), axis=0)
            mean = total / count
            result[quantity] = float(mean), float(square / count - mean**2)
        return result

    @property
    def excessive(self) -> bool:
        """Whether the innovations of some quantity are larger than the belief explains."""
        return any(m**2 + v > _MAX_MEAN_SQUARE for m, v in self.statistics().values())


def fisher_information(jacobian: Array) -> Array:
    """Return the Fisher information (P, P) of measurements with unit variance, from (n, P)."""
    return jacobian.T @ jacobian


def remaining_sd(information: Array, correlation: Array) -> Array:
    """
    Return the posterior standard deviation of each parameter (P,), as a fraction of its prior's.

    `information` (P, P) is about parameters in units of their prior's standard deviation;
    `correlation` (P, P) is that of the prior, and may be singular.
    """
    # (C^-1 + F)^-1 = C^1/2 (1 + C^1/2 F C^1/2)^-1 C^1/2 avoids the inverse of C
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = np.eye(len(information)) + root @ information @ root
    return np.sqrt(np.maximum(np.diag(root @ np.linalg.solve(inner, root)), 0.0))


def unidentifiable(remaining: Array) -> npt.NDArray[np.bool_]:
    """Return which parameters (P,) measurements say next to nothing about."""
    return remaining > _UNIDENTIFIABLE
