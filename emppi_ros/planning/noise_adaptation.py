"""
Adapt the variance of the control noise to the samples that were good.

The variance of each step and control becomes the weighted mean of squared noise, with the weights
of the update. This is PI2-CMA (Stulp and Sigaud, 2012, "Path integral policy improvement with
covariance matrix adaptation") with a diagonal covariance. The variance stays large while good
samples are far from the plan, and shrinks once they are close to it. The cross-entropy method
(Kobilarov, 2012) takes deviations from the new plan instead, which are smaller.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.tasks.planner_config import NoiseAdaptation


def bound(config: NoiseAdaptation, variance: Array, base: Array) -> Array:
    """Return the variance (H, nu) within its bounds around `base` (nu,)."""
    return np.clip(variance, config.lowest * base, config.highest * base)


def adapt(
    config: NoiseAdaptation, variance: Array, weights: Array, noise: Array, base: Array
) -> Array:
    """
    Return the variance of the next update, (H, nu).

    Parameters
    ----------
    config : NoiseAdaptation
        Settings.
    variance : (H, nu) array
        Variance that the noise was drawn with.
    weights : (M, K, H) array
        Weights of the samples, with sum 1 at each step.
    noise : (M, K, H, nu) array
        Noise of the samples after clipping to limits; (1, K, H, nu) if all models share it.
    base : (nu,) array
        The configured variance, which the bounds are multiples of.

    """
    squares = np.einsum('mkh,mkhu->hu', weights, noise**2)
    return bound(config, variance + config.rate * (squares - variance), base)
