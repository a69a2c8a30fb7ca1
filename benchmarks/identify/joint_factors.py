"""
Regression with noisy inputs by joint factor analysis, after Ting et al. (2006).

y = sum_m z_m + e_y,  z_m = w_zm t_m + e_zm,  x_m = w_xm t_m + e_xm,  t_m ~ N(0, 1). The Bayesian
model has w_zm, w_xm ~ N(0, 1 / alpha_m), alpha_m ~ Gamma: an uninformative input gets a large
alpha_m, which shrinks both of its weights to zero. EM as in the paper's appendix, with closed-form
matrices: all are diagonal plus rank one. (Sigma_zt has the wrong sign in the paper.)
"""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array

_ITERATIONS, _CONVERGED = 30_000, 1e-6  # and the change of a weight that ends EM
_SHAPE = _RATE = 1e-6  # of the prior of alpha: uninformative
_LEAST = 1e-12  # variance of scaled data


class FactorPosterior(NamedTuple):
    """Posterior of the weights, and noise variances; all (d,) except output_noise."""

    wz: Array  # means
    wx: Array
    vz: Array  # variances
    vx: Array
    z_noise: Array
    x_noise: Array
    output_noise: float

    def coefficients(self, noisy: bool) -> Array:
        """
        Return the coefficients (d,) for noisy inputs, or for noiseless ones.

        The matrices of eq. 3 cancel to w_z w_x / (w_x^2 + noise), as in eq. 9, and those of eq. 4
        to its limit without noise.
        """
        return self.wz * self.wx / (self.wx**2 + self.vx + noisy * self.x_noise)


def step(now: FactorPosterior, x: Array, y: Array, rows: int, bayesian: bool) -> FactorPosterior:
    """
    Return the posterior after an iteration, which never decreases the evidence bound.

    `x` and `y` are scaled data, or have the same inner products as their `rows` rows.
    """
    wz, wx, vz, vx, pz, px, py = now
    wz2, wx2 = wz**2 + vz, wx**2 + vx
    # E-step: z = q x + m e and t = a x + b e, where e is what x leaves of y
    k = 1.0 + wx2 / px + wz2 / pz
    m = pz + wz**2 / (1.0 + wx2 / px + vz / pz)
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
    alpha = bayesian * (_SHAPE + 1.0) / (_RATE + 0.5 * (wz2 + wx2))
    vz, vx = 1.0 / (tt / pz + alpha), 1.0 / (tt / px + alpha)
    wz, wx = vz * zt / pz, vx * xt / px
    vz, vx = bayesian * vz, bayesian * vx
    pz = np.maximum((zz - 2.0 * wz * zt + (wz**2 + vz) * tt) / rows, _LEAST)
    px = np.maximum((xx - 2.0 * wx * xt + (wx**2 + vx) * tt) / rows, _LEAST)
    py = max(py**2 * ee / rows + total * py / (py + total), _LEAST)
    return FactorPosterior(wz, wx, vz, vx, pz, px, py)


def fit(x: Array, y: Array, bayesian: bool, signal: float = 0.5) -> FactorPosterior:
    """
    Return the posterior of scaled data after convergence, or after the last iteration.

    EM starts from equal inputs, with a share of `signal`, that explain half of the output.
    """
    (rows, d), each = x.shape, np.ones(x.shape[1])
    if rows > d + 1:  # fewer rows with the very same products
        small = np.asarray(np.linalg.qr(np.column_stack([x, y]), mode='r'))
        x, y = small[:, :-1], small[:, -1]
    noise = max(1.0 - signal, _LEAST) * each
    weights = np.sqrt(0.5 / d) * each, np.sqrt(signal) * each
    now = FactorPosterior(*weights, 0.0 * each, 0.0 * each, 0.25 / d * each, noise, 0.25)
    for _ in range(_ITERATIONS):
        before, now = now, step(now, x, y, rows, bayesian)
        if max(np.abs(now.wz - before.wz).max(), np.abs(now.wx - before.wx).max()) < _CONVERGED:
            break
    return now
