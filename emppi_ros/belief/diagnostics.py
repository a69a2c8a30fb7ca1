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

Where the model does not explain the data, errors stay large, or persist. A quantity is a misfit if
the root of the mean variance of its errors exceeds a limit, in units of the configured standard
deviations. A parameter is a misfit if the errors that it could reduce persist: the variance of its
scores exceeds what the likelihood implies. Each stays one until it is well below its limit.
"""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.likelihood import Deviation
from emppi_ros.core import weights
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief

Array = npt.NDArray[np.float64]
_WINDOW = 200  # updates: a few seconds
_MAX_MEAN_SQUARE = 2.0  # of normalized innovations; that of a consistent belief is 1
_UNIDENTIFIABLE = 0.9  # of the prior's standard deviation remaining
SMALLEST = 1e-3  # sd, as a fraction of the prior's: no model of a robot is right to so many digits
_COLLAPSED = 0.1  # of the sd that measurements leave; learned errors may justify a third of it
_MAX_LEARNED = 4.0  # learned variance of errors: twice the configured standard deviation
_MAX_INFLATION = 2.5  # of the variance of scores, which right models hardly reach
_CLEARED = 0.75  # of its limit, below which a mean square is no longer a misfit


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
    def excess(self) -> dict[str, float]:
        """Mean square of each quantity, in units of what a belief can explain."""
        return {
            quantity: (mean**2 + variance) / _MAX_MEAN_SQUARE
            for quantity, (mean, variance) in self.statistics().items()
        }

    @property
    def excessive(self) -> bool:
        """Whether the innovations of some quantity are larger than the belief explains."""
        return any(excess > 1.0 for excess in self.excess.values())


def learned_excess(deviations: Sequence[Deviation], variance: Array) -> dict[str, float]:
    """
    Return the mean learned variance of each quantity, in units of its limit.

    `variance` (N,) is that of all values of `deviations`, in their order, in units of the
    configured one.
    """
    counts = [one.values.shape[1] for one in deviations]
    parts: dict[str, list[Array]] = {}
    for one, part in zip(deviations, np.split(variance, np.cumsum(counts)[:-1]), strict=True):
        parts.setdefault(one.quantity, []).append(part)
    return {
        quantity: float(np.concatenate(values).mean()) / _MAX_LEARNED
        for quantity, values in parts.items()
    }


def persistence(names: Sequence[str], inflation: Array) -> dict[str, float]:
    """Return the inflation (P,) of the variance of each parameter's scores, over its limit."""
    return dict(zip(names, (inflation / _MAX_INFLATION).tolist(), strict=True))


def misfit(excess: Mapping[str, float], before: Sequence[str]) -> list[str]:
    """
    Return the quantities and parameters that are a misfit, given those `before`.

    Each is one once its `excess` is above 1, until it is well below 1.
    """
    return [name for name, one in excess.items() if one > (_CLEARED if name in before else 1.0)]


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


def collapsed(spread: Array, remaining: Array) -> npt.NDArray[np.bool_]:
    """
    Return which parameters (P,) have a much narrower belief than the measurements justify.

    Both are fractions of the prior's standard deviation: `spread` (P,) of the belief, and
    `remaining` (P,), which the measurements leave.
    """
    return spread < _COLLAPSED * remaining


def unresolved(prior: JointPrior, belief: Belief) -> list[str]:
    """Return the parameters with a belief that is too narrow for any model of a robot."""
    narrow = prior.relative_sd(belief) < SMALLEST
    return [one.name for one, flag in zip(prior.parameters, narrow, strict=True) if flag]


def unidentifiable(remaining: Array) -> npt.NDArray[np.bool_]:
    """Return which parameters (P,) measurements say next to nothing about."""
    return remaining > _UNIDENTIFIABLE
