"""
Learned size of prediction errors, and how much information they really contain (docs/method.md).

The scale of the Student's t distribution of each error has a conjugate inverse-gamma update with
forgetting (Sarkka and Nummenmaa, IEEE Trans. Automatic Control, 2009; eqs. 13 to 17). The power of
the likelihood is the variance of the score that it implies, over the one that scores have (Pauli,
Racugno and Ventura, Statistica Sinica, 2011; Newey and West, Econometrica, 1987).

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

_MEMORY = 250  # updates after which a score is forgotten, and informative errors: five seconds
_HALF = 0.01  # leverage of an error that counts half
_PRIOR = 2.0  # errors that the prior of the scale is worth
_SMALLEST = 0.05  # variance, in units of the configured one: model errors do not average out
_WINDOWS = np.array([20.0, 60.0, 180.0])  # updates, after which a score no longer counts in a sum
_LAGGING = 9.0  # squared sum of scores over its variance: three standard deviations
_DELAY = 50  # updates in which the belief can follow a change before correlated errors count less
_PRIOR_INFORMATION = 10.0  # of the parameters' prior, before which the power stays near 1


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
    # variance of the score by each parameter, times prior variance
    expected: Array  # (P,) that the likelihood implies
    actual: Array  # (P,) that scores have
    # over W windows, the shortest first
    scores: Array  # (W, P) sums of scores, times prior standard deviation
    implied: Array  # (W, P) variances of these sums that the likelihood implies
    past: Array  # (D, 2, P) expected and actual at the last D updates, oldest first

    @property
    def variance(self) -> Array:
        """Squared scale of the errors, (N,)."""
        return np.maximum(self.squares / self.total, _SMALLEST)

    @property
    def inflation(self) -> Array:
        """Variance of the scores (P,), in units of what the likelihood implies."""
        expected, actual = self.past[0] + _PRIOR_INFORMATION
        return np.asarray(actual / expected)

    @property
    def power(self) -> float:
        """Power in (0, 1] of the likelihood that counts each piece of evidence once."""
        inflation = self.inflation
        return float(min(1.0, 1.0 / inflation.mean())) if len(inflation) else 1.0


def start(values: int, parameters: int) -> NoiseScale:
    """Return the prior for N values and P parameters: the configured scale, and power 1."""
    prior, zeros = np.full(values, _PRIOR), np.zeros(parameters)
    windows, past = np.zeros((len(_WINDOWS), parameters)), np.zeros((_DELAY, 2, parameters))
    return NoiseScale(prior, prior, zeros, zeros, windows, windows, past)


def forget_recent(scale: NoiseScale) -> NoiseScale:
    """Return the estimates without the last scores, which a change explains."""
    expected, actual = scale.past[0]
    past = np.broadcast_to(scale.past[0], scale.past.shape)
    none = np.zeros_like(scale.scores)
    return scale._replace(expected=expected, actual=actual, scores=none, implied=none, past=past)


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


def robust_weights(dof: float, squares: Array) -> Array:
    """Return the weight of errors with normalized squares, small for outliers."""
    return (dof + 1.0) / (dof + squares)


def update(
    scale: NoiseScale,
    dof: float,
    log_weights: Array,
    errors: Array,
    precision: Array,
    jacobian: Array,
    spread: Array,
    window: int = 1,
) -> NoiseScale:
    """
    Return the estimates after an update of the belief.

    `log_weights` (M,) are those after the update, `errors` (M, N) predictions minus measurements
    of each particle in units of the configured sd. `dof` are the degrees of freedom of Student's
    t, `precision` (N,) is the curvature of the negative log density at the mean error, `jacobian`
    (N, P) the sensitivity of the errors to the parameters, and `spread` (P,) the standard
    deviation of their prior. Errors are sums over a `window` of updates.

    An error that says nothing about the parameters neither counts nor lets others be forgotten:
    the noise of a free motion is not that of a contact.
    """
    variance = scale.variance
    leverage = jacobian**2 * spread**2  # (N, P)
    kept = 1.0 - 1.0 / _MEMORY
    informative = leverage.sum(axis=1) / variance / window
    weight = informative / (informative + _HALF)
    remembered = 1.0 - weight / _MEMORY
    robust = robust_weights(dof, errors**2 / variance)
    squares = weights.mean(log_weights, robust * errors**2)
    score = (precision * weights.mean(log_weights, errors)) @ jacobian * spread
    implied = precision @ leverage
    expected = kept * scale.expected + implied
    decay = (1.0 - 1.0 / _WINDOWS)[:, None]
    before = decay * scale.scores
    actual = np.maximum(kept * scale.actual + score * (score + 2.0 * before[0]), 0.0)
    return NoiseScale(
        remembered * scale.squares + weight * squares,
        remembered * scale.total + weight,
        expected,
        actual,
        before + score,
        decay * scale.implied + implied,
        np.concatenate([scale.past[1:], [[expected, actual]]]),
    )


def precision(scale: NoiseScale, dof: float, log_weights: Array, errors: Array) -> Array:
    """Return the curvature (N,) of the negative log density at the mean error."""
    squares = weights.mean(log_weights, errors) ** 2 / scale.variance
    return robust_weights(dof, squares) / scale.variance
