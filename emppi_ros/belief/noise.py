"""
Learned size of prediction errors, and how much information they really contain.

The error of each compared value has a Student's t distribution whose scale is learned: a
conjugate inverse-gamma update with forgetting, given the posterior of the parameters (Sarkka and
Nummenmaa, *Recursive noise adaptive Kalman filtering by variational Bayesian approximations*,
IEEE Trans. Automatic Control, 2009; eqs. 13 to 17). The standard deviations of the task are the
prior of the scale.

Errors of a wrong model are correlated, and largest where parameters matter, as in contact. A
likelihood that multiplies their densities counts the same evidence several times. Therefore it is
raised to a power: the variance of the score that the likelihood implies, over the variance that
scores have (Pauli, Racugno and Ventura, *Bayesian composite marginal likelihoods*, Statistica
Sinica, 2011), including the covariance of successive scores (Newey and West, Econometrica, 1987).

After a change of a parameter, errors are correlated until the belief has followed it. If they
counted less at once, it never would. Therefore the power is that of some updates before, and a
detected change discards the scores since then.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core import weights

Array = npt.NDArray[np.float64]
_MEMORY = 250  # updates after which an error is forgotten: five seconds
_BASE = 0.01  # leverage of an error that says nothing about the parameters
_PRIOR = 10 * _BASE  # leverage of the prior of the scale
_SMALLEST = 0.1  # variance, in units of the configured one: model errors do not average out
_CORRELATED = 0.95  # weight of the covariance of successive scores, per update
_DELAY = 50  # updates in which the belief can follow a change before correlated errors count less
_PRIOR_INFORMATION = 10.0  # of the parameters' prior, before which the power stays near 1


class NoiseScale(NamedTuple):
    """
    Estimates about the errors of N compared values, in units of the configured sd.

    Attributes
    ----------
    squares : (N,) array
        Sum of squared errors, by their leverage.
    total : (N,) array
        Sum of the leverage.
    expected : (P,) array
        Variance of the score by each parameter that the likelihood implies, times prior variance.
    actual : (P,) array
        Variance of the scores, times prior variance.
    recent : (P,) array
        Decaying sum of scores, in prior standard deviations.
    past : (D, 2, P) array
        Expected and actual variance at the last D updates, oldest first.

    """

    squares: Array
    total: Array
    expected: Array
    actual: Array
    recent: Array
    past: Array

    @property
    def variance(self) -> Array:
        """Squared scale of the errors, (N,)."""
        return np.maximum(self.squares / self.total, _SMALLEST)

    @property
    def power(self) -> float:
        """Power in (0, 1] of the likelihood that counts each piece of evidence once."""
        if not len(self.expected):
            return 1.0
        expected, actual = self.past[0] + _PRIOR_INFORMATION
        ratio = actual / expected
        return float(min(1.0, 1.0 / ratio.mean()))


def start(values: int, parameters: int) -> NoiseScale:
    """Return the prior for N values and P parameters: the configured scale, and power 1."""
    zeros = np.zeros(parameters)
    prior = np.full(values, _PRIOR)
    return NoiseScale(prior, prior, zeros, zeros, zeros, np.zeros((_DELAY, 2, parameters)))


def forget_recent(scale: NoiseScale) -> NoiseScale:
    """Return the estimates without the last scores, which a change explains."""
    expected, actual = scale.past[0]
    past = np.broadcast_to(scale.past[0], scale.past.shape)
    return scale._replace(expected=expected, actual=actual, recent=0.0 * scale.recent, past=past)


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
) -> NoiseScale:
    """
    Return the estimates after an update of the belief.

    Parameters
    ----------
    scale : NoiseScale
        The estimates before.
    dof : float
        Degrees of freedom of Student's t.
    log_weights : (M,) array
        Log weights after the update.
    errors : (M, N) array
        Prediction minus measurement of each particle, in units of the configured sd.
    precision : (N,) array
        Curvature of the negative log density at the mean error.
    jacobian : (N, P) array
        Sensitivity of the errors to the parameters.
    spread : (P,) array
        Standard deviations of the parameters' prior.

    """
    finite = np.isfinite(errors).all(axis=1) & np.isfinite(log_weights)
    if not finite.any():
        return scale
    shares, errors = log_weights[finite], errors[finite]
    before = scale.variance
    leverage = jacobian**2 * spread**2  # (N, P)
    kept = 1.0 - 1.0 / _MEMORY
    weight = _BASE + leverage.sum(axis=1) / before
    squares = errors**2
    squares = weights.mean(shares, robust_weights(dof, squares / before) * squares)
    score = (precision * weights.mean(shares, errors)) @ jacobian * spread
    expected = kept * scale.expected + precision @ leverage
    actual = kept * scale.actual + score * (score + 2.0 * _CORRELATED * scale.recent)
    actual = np.maximum(actual, 0.0)
    return NoiseScale(
        kept * scale.squares + weight * squares,
        kept * scale.total + weight,
        expected,
        actual,
        _CORRELATED * scale.recent + score,
        np.concatenate([scale.past[1:], [[expected, actual]]]),
    )


def precision(scale: NoiseScale, dof: float, log_weights: Array, errors: Array) -> Array:
    """Return the curvature (N,) of the negative log density at the mean error."""
    finite = np.isfinite(errors).all(axis=1) & np.isfinite(log_weights)
    if not finite.any():
        return np.zeros(errors.shape[1])
    squares = weights.mean(log_weights[finite], errors[finite]) ** 2 / scale.variance
    return robust_weights(dof, squares) / scale.variance
