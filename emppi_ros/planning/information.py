"""
Expected information gain: what the measurements along a plan tell about the parameters.

The models of the ensemble disagree about what will be measured. For the controls k, model m
predicts the measurements y_mk, in units of their noise. If predictions are normal over the belief,
the mutual information of parameters and measurements is that of a Gaussian channel (Lindley 1956;
Cover and Thomas, *Elements of Information Theory*, 2006, section 9.4)::

    I_k = 1/2 log det(1 + C_k),    C_k = sum_m p(theta_m) (y_mk - mean) (y_mk - mean)'

in nats. A measurement that repeats another one adds little, and one on which all models agree
adds nothing. The determinant is computed from the inner products of models: M x M instead of the
number of measurements.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.core import weights

Array = npt.NDArray[np.float64]


def gain(predictions: Array, log_belief: Array) -> Array:
    """
    Return the information of the measurements up to each step, (K, T) [nat].

    It does not decrease from step to step.

    Parameters
    ----------
    predictions : (M, K, T, N) array
        Predictions of N measured values at T steps of K plans, which are the same for all
        models, in units of the standard deviation of their noise.
    log_belief : (M,) array
        Log weight of each model, in any normalization. Models without weight are ignored.

    Returns
    -------
    (K, T) array
        NaN from the first step at which a model predicts a value that is not finite.

    """
    some = np.isfinite(log_belief)
    belief = np.exp(weights.normalize(log_belief[some]))
    chosen = np.moveaxis(predictions[some], 0, 2)  # (K, T, M, N)
    finite = np.logical_and.accumulate(np.isfinite(chosen).all(axis=(2, 3)), axis=1)
    chosen = np.where(finite[:, :, None, None], chosen, 0.0)
    deviations = np.sqrt(belief)[:, None] * (chosen - (belief @ chosen)[:, :, None])
    products = np.cumsum(deviations @ deviations.swapaxes(2, 3), axis=1)  # (K, T, M, M)
    information: Array = 0.5 * np.linalg.slogdet(np.eye(len(belief)) + products)[1]
    return np.where(finite, information, np.nan)


def per_step(predictions: Array, log_belief: Array) -> Array:
    """
    Return what each step adds to the information of those before it, (K, T - 1) [nat].

    Arguments are those of `gain`. By the chain rule the sum is the information of all steps, given
    the measurements of the first one, which has no controls before it. Steps at which a model
    predicts values that are not finite add nothing.
    """
    return np.nan_to_num(np.diff(gain(predictions, log_belief), axis=1), nan=0.0)
