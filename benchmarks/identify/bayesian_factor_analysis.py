"""
Regression with noisy inputs by Bayesian joint factor analysis, after Ting et al. (2006).

y = sum_m z_m + e_y,  z_m = w_zm t_m + e_zm,  x_m = w_xm t_m + e_xm,  t_m ~ N(0, 1),  and
w_zm, w_xm ~ N(0, 1 / alpha_m), alpha_m ~ Gamma: an uninformative input gets a large alpha_m, which
shrinks both of its weights to zero (automatic relevance determination). Variational EM as in the
paper's appendix, with closed-form matrices: all are diagonal plus rank one, so an iteration costs
O(d) per row. (Sigma_zt has the wrong sign in the paper; <t_i> below is correct.)
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.identify.errors_in_variables import StandardizedData, standardize
from emppi_ros.core.config import between, positive

Array = npt.NDArray[np.float64]
_MIN_VARIANCE = 1e-12  # relative to the data: EM may shrink noise to zero


@dataclass(frozen=True)
class FactorConfig:
    """Settings of the EM algorithm, in standardized units."""

    iterations: int = between(
        1, 10_000_000, 30_000, doc='maximum number; stopped early, coefficients are useless'
    )
    tolerance: float = positive(1e-6, doc='largest change of a weight at convergence')
    shape: float = positive(1e-6, doc='shape of the Gamma prior of alpha, uninformative')
    rate: float = positive(1e-6, doc='rate of that prior')
    signal: float = between(0.0, 1.0, 0.5, doc="initial share of signal in an input's variance")


class FactorPosterior(NamedTuple):
    """Posterior of the weights, and noise variances; all (d,) except output_noise."""

    wz: Array  # means
    wx: Array
    vz: Array  # variances
    vx: Array
    alpha: Array  # means
    z_noise: Array
    x_noise: Array
    output_noise: float
    iterations: int = 0


def initial_posterior(config: FactorConfig, d: int) -> FactorPosterior:
    """Return the start of EM: equal inputs whose sum explains half of the output."""
    of = np.full(d, 1.0)
    wz, noise = np.sqrt(0.5 / d) * of, max(1.0 - config.signal, _MIN_VARIANCE) * of
    zero = np.zeros(d)
    return FactorPosterior(
        wz, np.sqrt(config.signal) * of, zero, zero, of, 0.25 / d * of, noise, 0.25
    )


def em_step(
    config: FactorConfig, scaled: StandardizedData, rows: int, now: FactorPosterior
) -> FactorPosterior:
    """
    Return the posterior after one EM iteration, which never decreases the evidence bound.

    `scaled` has the data, or any rows with the same inner products as its `rows` rows.
    """
    x, y = scaled.x, scaled.y
    wz, wx = now.wz, now.wx
    wz2, wx2 = wz**2 + now.vz, wx**2 + now.vx
    pz, px, py = now.z_noise, now.x_noise, now.output_noise
    # E-step: z = q x + m e and t = a x + b e, where e is what x leaves of y
    k = 1.0 + wx2 / px + wz2 / pz
    m = pz + wz**2 / (1.0 + wx2 / px + now.vz / pz)
    total, g = m.sum(), wz / (pz * k)
    q = m * g * wx / px
    a, b = wx / (px * k) + g * q, g * m
    e = (y - x @ q) / (py + total)
    xx, xe, ee = (x**2).sum(axis=0), e @ x, e @ e
    spread = m - m**2 / (py + total)  # posterior variance of z
    zz = q**2 * xx + 2.0 * q * m * xe + m**2 * ee + rows * spread
    zt = q * a * xx + (q * b + m * a) * xe + m * b * ee + rows * g * spread
    tt = a**2 * xx + 2.0 * a * b * xe + b**2 * ee + rows * (1.0 / k + g**2 * spread)
    xt = a * xx + b * xe
    # M-step, and the posterior of the weights
    alpha = (config.shape + 1.0) / (config.rate + 0.5 * (wz2 + wx2))
    vz, vx = 1.0 / (tt / pz + alpha), 1.0 / (tt / px + alpha)
    wz, wx = vz * zt / pz, vx * xt / px
    pz = np.maximum((zz - 2.0 * wz * zt + (wz**2 + vz) * tt) / rows, _MIN_VARIANCE)
    px = np.maximum((xx - 2.0 * wx * xt + (wx**2 + vx) * tt) / rows, _MIN_VARIANCE)
    py = max(py**2 * ee / rows + total * py / (py + total), _MIN_VARIANCE)
    return FactorPosterior(wz, wx, vz, vx, alpha, pz, px, py, now.iterations + 1)


def fit(config: FactorConfig, scaled: StandardizedData) -> FactorPosterior:
    """Return the posterior after convergence, or after the last iteration."""
    rows, d = scaled.x.shape
    if rows > d + 1:  # fewer rows with the very same products: the triangle of a QR decomposition
        # an array in this mode, unlike what NumPy's types say
        r = np.asarray(np.linalg.qr(np.column_stack([scaled.x, scaled.y]), mode='r'))
        scaled = StandardizedData(r[:, :-1], r[:, -1], scaled.unit)
    now = initial_posterior(config, d)
    for _ in range(config.iterations):
        before, now = now, em_step(config, scaled, rows, now)
        change = max(np.abs(now.wz - before.wz).max(), np.abs(now.wx - before.wx).max())
        if change < config.tolerance:
            break
    return now


def predict_from_noiseless(posterior: FactorPosterior) -> Array:
    """
    Return the coefficients (d,) for noiseless inputs: the limit of eq. 3 instead of eq. 4.

    All matrices of eq. 4 cancel to w_z / w_x, which is 0 / 0 for irrelevant inputs. As the noise
    goes to zero, eq. 3 becomes w_z w_x / <w_x^2>, which only differs by the variance of w_x and is
    zero for irrelevant inputs.
    """
    return posterior.wz * posterior.wx / (posterior.wx**2 + posterior.vx)


def regress(x: Array, y: Array, config: FactorConfig | None = None) -> Array:
    """Return coefficients (d,) for noiseless inputs from noisy ones (n, d) and output (n,)."""
    scaled = standardize(x, y)
    return predict_from_noiseless(fit(config or FactorConfig(), scaled)) * scaled.unit
