"""
Learned size of prediction errors, and how much information they really contain (docs/method.md).

The scale of the Student's t distribution of each error has a conjugate inverse-gamma update with
forgetting (Sarkka and Nummenmaa, IEEE Trans. Automatic Control, 2009; eqs. 13 to 17). Errors of a
right model are white (Mehra, *On the identification of variances and adaptive Kalman filtering*,
IEEE Trans. Automatic Control, 1970). Errors that are correlated by r from one window to the next
count as (1 - r) / (1 + r) independent ones (Bayley and Hammersley, J. R. Stat. Soc. Suppl. 8,
1946).

Errors are sums over the last updates, which compare impulses and not their times. The noise of a
pose shifts a predicted contact from one interval between poses to the next. The errors of both
then are large and opposite, and particles with weak contacts seem to fit better (regression
dilution); in the sum they cancel. Overlapping sums over W updates, each counted by 1 / W, have the
information of their errors once, as in the estimate of a long-run variance (Bartlett, Biometrika
37, 1950).
"""

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.belief.measurement_model import Deviation
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.journal.snapshot import restorable
from emppi_ros.priors.resampling import Indices

_MEMORY = 250  # informative errors after which one is forgotten: five seconds
_HALF = 0.01  # leverage of an error that counts half
_PRIOR = 2.0  # errors that the prior of the scale is worth
_SMALLEST = 0.05  # variance, in units of the configured one: model errors do not average out
_WINDOWS = np.array([20.0, 60.0, 180.0])  # updates, after which a score no longer counts in a sum
_LAGGING = 9.0  # squared sum of scores over its variance: three standard deviations
_DELAY = 50  # updates in which the belief can follow a change before correlated errors count less
_WHITE = 10.0  # uncorrelated errors that the prior of the correlation is worth
_CERTAIN = 5.0  # standard deviations of a sum of products, beyond which errors are not white
_CORRELATED = 0.98  # largest correlation: errors never count less than a hundredth
_BOUND = 3.0  # standard deviations of a mean error, beyond which it is an outlier


def sum_recent(recent: Array | None, window: int, errors: Array) -> tuple[Array, Array]:
    """
    Return the sum of the errors (M, N) and of those before, and the errors for the next update.

    `recent` (W - 1, M, N) are the errors of the last updates, the oldest first; None starts again.
    The sum is divided by sqrt(W), so that independent errors keep their variance. The errors of
    diverged particles are not finite; they count in this sum only.
    """
    if recent is None or recent.shape != (window - 1, *errors.shape):
        recent = np.zeros((window - 1, *errors.shape))
    total = (recent.sum(axis=0) + errors) / math.sqrt(window)
    finite = np.where(np.isfinite(errors), errors, 0.0)
    return total, np.concatenate([recent, finite[None]])[1:]


def forget_parents(recent: Array, rows: Indices) -> Array:
    """Return recent errors without those of particles that jumped: their parents made them."""
    kept = recent.copy()
    kept[:, rows] = 0.0
    return kept


def sum_window(
    deviations: Sequence[Deviation], window: int, recent: Array | None
) -> tuple[list[Deviation], Array]:
    """Return the deviations summed over a window, and the errors for the next update."""
    errors = np.concatenate([one.values for one in deviations], axis=1)
    total, recent = sum_recent(recent, window, errors)
    ends = np.cumsum([one.values.shape[1] for one in deviations])[:-1]
    parts = np.split(total, ends, axis=1)
    summed = [one._replace(values=part) for one, part in zip(deviations, parts, strict=True)]
    return summed, recent


@restorable
class NoiseScale(NamedTuple):
    """Estimates about the errors of N compared values, in units of the configured sd."""

    squares: Array  # (N,) sum of squared errors, by how informative they are
    total: Array  # (N,) number of informative errors
    means: Array  # (W, N) last mean errors in units of the scale, oldest first
    # sums over informative errors of the mean error times that a window before, and squared
    products: Array  # (N,)
    energy: Array  # (N,)
    # over windows of several lengths, the shortest first
    scores: Array  # (L, P) sums of scores, times prior standard deviation
    implied: Array  # (L, P) variances of these sums that the likelihood implies
    past: Array  # (D, 2, N) products and energy at the last D updates, oldest first

    @property
    def variance(self) -> Array:
        """Squared scale of the errors, (N,)."""
        return np.maximum(self.squares / self.total, _SMALLEST)

    @property
    def power(self) -> Array:
        """Power (N,) in (0, 1] of the likelihood that counts correlated errors once."""
        correlation = _correlation(*self.past[0])
        return (1.0 - correlation) / (1.0 + correlation)

    @property
    def persistent(self) -> Array:
        """Variance (N,) of independent errors that mean as much as all errors until now."""
        correlation = _correlation(self.products, self.energy)
        return self.variance * (1.0 + correlation) / (1.0 - correlation)


def _correlation(products: Array, energy: Array) -> Array:
    """Return the correlation (N,) of errors with those a window before; 0 if it is negative."""
    return np.clip(products / (energy + _WHITE), 0.0, _CORRELATED)


def start(values: int, parameters: int, window: int) -> NoiseScale:
    """Return the prior for N values and P parameters: the configured scale, and power 1."""
    prior, zeros, means = np.full(values, _PRIOR), np.zeros(values), np.zeros((window, values))
    sums, past = np.zeros((len(_WINDOWS), parameters)), np.zeros((_DELAY, 2, values))
    return NoiseScale(prior, prior, means, zeros, zeros, sums, sums, past)


def forget_recent(scale: NoiseScale) -> NoiseScale:
    """Return the estimates without the last correlations and scores, which a change explains."""
    products, energy = scale.past[0]
    past = np.broadcast_to(scale.past[0], scale.past.shape)
    none, means = np.zeros_like(scale.scores), np.zeros_like(scale.means)
    return scale._replace(
        means=means, products=products, energy=energy, scores=none, implied=none, past=past
    )


def is_white(scale: NoiseScale) -> bool:
    """
    Return whether the errors since a change, or else the last _DELAY updates, are uncorrelated.

    The sum of products of white errors has at most the variance W times their energy.
    """
    products, energy = np.sum([scale.products, scale.energy] - scale.past[0], axis=1)
    return bool(products <= _CERTAIN * math.sqrt(len(scale.means) * max(energy, 1.0)))


def lag(scale: NoiseScale) -> Array:
    """
    Return the mean square (P,) of the error of the belief that recent scores show.

    It is in units of the prior's variance, and 0 unless the scores of a window are significant.
    A sum of scores over its implied variance I is the mean error, with a variance of 1 / I.
    """
    squares = scale.scores**2
    significant = squares > _LAGGING * scale.implied
    implied = np.where(significant, scale.implied, 1.0)
    return np.where(significant, (squares / implied - 1.0) / implied, 0.0).max(axis=0)


def robust_weights(dof: float | None, squares: Array) -> Array:
    """Return the weight of errors with normalized squares, small for outliers of Student's t."""
    return np.ones_like(squares) if dof is None else (dof + 1.0) / (dof + squares)


def update(
    scale: NoiseScale,
    dof: float | None,
    log_weights: Array,
    errors: Array,
    precision: Array,
    jacobian: Array,
    spread: Array,
) -> NoiseScale:
    """
    Return the estimates after an update of the belief.

    `log_weights` (M,) are those after the update, `errors` (M, N) predictions minus measurements
    of each particle in units of the configured sd, as sums over a window of updates. `dof` are
    the degrees of freedom of Student's t, `precision` (N,) is the curvature of the negative log
    density at the mean error, `jacobian` (N, P) the sensitivity of the errors to the parameters,
    and `spread` (P,) the standard deviation of their prior.

    An error that says nothing about the parameters neither counts nor lets others be forgotten:
    the noise of a free motion is not that of a contact.
    """
    variance, window = scale.variance, len(scale.means)
    leverage = jacobian**2 * spread**2  # (N, P)
    informative = leverage.sum(axis=1) / variance / window
    weight = informative / (informative + _HALF)
    remembered = 1.0 - weight / _MEMORY
    robust = robust_weights(dof, errors**2 / variance)
    squares = weights.mean(log_weights, robust * errors**2)
    center = weights.mean(log_weights, errors)
    mean = np.clip(center / np.sqrt(variance), -_BOUND, _BOUND)
    products = remembered * scale.products + weight * mean * scale.means[0]
    energy = remembered * scale.energy + weight * mean**2
    decay = (1.0 - 1.0 / _WINDOWS)[:, None]
    return NoiseScale(
        remembered * scale.squares + weight * squares,
        remembered * scale.total + weight,
        np.concatenate([scale.means[1:], mean[None]]),
        products,
        energy,
        decay * scale.scores + (precision * center) @ jacobian * spread,
        decay * scale.implied + precision @ leverage,
        np.concatenate([scale.past[1:], [[products, energy]]]),
    )


def precision(variance: Array, dof: float | None, log_weights: Array, errors: Array) -> Array:
    """Return the curvature (N,) of the negative log density at the mean error."""
    squares = weights.mean(log_weights, errors) ** 2 / variance
    return robust_weights(dof, squares) / variance
