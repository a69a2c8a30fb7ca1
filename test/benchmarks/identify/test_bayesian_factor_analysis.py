"""Bayesian joint factor analysis: each step compared with computations with full matrices."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln
import scipy.stats

from benchmarks.identify import bayesian_factor_analysis
from benchmarks.identify.bayesian_factor_analysis import FactorConfig, FactorPosterior
from benchmarks.identify.errors_in_variables import StandardizedData, standardize

D, N = 3, 40
CONFIG = FactorConfig(shape=0.1, rate=0.2)


@pytest.fixture
def scaled(rng):
    """Return noisy inputs and an output of two of them."""
    t = rng.standard_normal((N, D))
    x = t * [1.0, -0.5, 2.0] + 0.3 * rng.standard_normal((N, D))
    return standardize(x, t @ [1.0, 2.0, 0.0] + 0.2 * rng.standard_normal(N))


@pytest.fixture
def found(rng):
    """Return a random posterior."""
    draw = [rng.uniform(0.3, 1.5, D) for _ in range(7)]
    return FactorPosterior(draw[0], -draw[1], *draw[2:], output_noise=0.4)


def _joint(now):
    """Return the precision (2D, 2D) of z and t, and maps of x and y to precision times mean."""
    wz2, wx2 = now.wz**2 + now.vz, now.wx**2 + now.vx
    zz = np.ones((D, D)) / now.output_noise + np.diag(1.0 / now.z_noise)
    zt = -np.diag(now.wz / now.z_noise)
    tt = np.diag(1.0 + wx2 / now.x_noise + wz2 / now.z_noise)
    pull_x = np.vstack([np.zeros((D, D)), np.diag(now.wx / now.x_noise)])
    pull_y = np.concatenate([np.full(D, 1.0 / now.output_noise), np.zeros(D)])
    return np.block([[zz, zt], [zt.T, tt]]), pull_x, pull_y


def _bound(now, x, y):
    """Return the lower bound on the evidence, maximized over the Gaussian of z and t."""
    precision, pull_x, pull_y = _joint(now)
    pull = x @ pull_x.T + np.outer(y, pull_y)
    noise = (np.log(2 * np.pi * v).sum() for v in (now.z_noise, now.x_noise, np.ones(D)))
    constant = -0.5 * (
        np.log(2 * np.pi * now.output_noise)
        + sum(noise)
        + y**2 / now.output_noise
        + (x**2 / now.x_noise).sum(axis=1)
    )
    gauss = 0.5 * np.einsum('ni,ij,nj->n', pull, np.linalg.inv(precision), pull)
    volume = 0.5 * (2 * D * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1])
    total = np.sum(constant + gauss + volume)
    a0, b0, a = CONFIG.shape, CONFIG.rate, CONFIG.shape + 1.0
    b = a / now.alpha
    log_alpha = digamma(a) - np.log(b)
    for w, v in ((now.wz, now.vz), (now.wx, now.vx)):
        total += np.sum(0.5 * (log_alpha - np.log(2 * np.pi) - now.alpha * (w**2 + v)))
        total += np.sum(0.5 * np.log(2 * np.pi * np.e * v))
    prior = a0 * np.log(b0) - gammaln(a0) + (a0 - 1.0) * log_alpha - b0 * now.alpha
    return total + np.sum(prior + scipy.stats.gamma(a, scale=1.0 / b).entropy())


def test_no_iteration_lowers_the_bound_on_the_evidence(scaled):
    now = bayesian_factor_analysis.em_step(
        CONFIG, scaled, N, bayesian_factor_analysis.initial_posterior(CONFIG, D)
    )
    bounds = []
    for _ in range(300):
        bounds.append(_bound(now, scaled.x, scaled.y))
        now = bayesian_factor_analysis.em_step(CONFIG, scaled, N, now)
    # sums of 40 rows of numbers up to 100: rounding far below 1e-9
    assert np.all(np.diff(bounds) > -1e-9) and bounds[-1] > bounds[0] + 1.0


def test_an_iteration_matches_computations_with_dense_gaussians(scaled, found):
    """Compare explicit sums with the matrices in the paper's appendix."""
    x, y = scaled.x, scaled.y
    precision, pull_x, pull_y = _joint(found)
    covariance = np.linalg.inv(precision)
    mean = (x @ pull_x.T + np.outer(y, pull_y)) @ covariance
    z, t = mean[:, :D], mean[:, D:]
    var = np.diag(covariance)
    tt = (t**2).sum(axis=0) + N * var[D:]
    zt = (z * t).sum(axis=0) + N * np.diag(covariance[:D, D:])
    zz = (z**2).sum(axis=0) + N * var[:D]
    square = found.wz**2 + found.vz + found.wx**2 + found.vx
    alpha = (CONFIG.shape + 1.0) / (CONFIG.rate + square / 2.0)
    vz = 1.0 / (tt / found.z_noise + alpha)
    vx = 1.0 / (tt / found.x_noise + alpha)
    wz, wx = vz / found.z_noise * zt, vx / found.x_noise * (x * t).sum(axis=0)
    left = np.sum((y - z.sum(axis=1)) ** 2) / N + covariance[:D, :D].sum()
    expected = FactorPosterior(
        wz,
        wx,
        vz,
        vx,
        alpha,
        (zz - 2.0 * wz * zt + (wz**2 + vz) * tt) / N,
        ((x**2).sum(axis=0) - 2.0 * wx * (x * t).sum(axis=0) + (wx**2 + vx) * tt) / N,
        left,
        1,
    )
    for got, want in zip(
        bayesian_factor_analysis.em_step(CONFIG, scaled, N, found), expected, strict=True
    ):
        # two computations of the same sums of 40 numbers: rounding
        np.testing.assert_allclose(got, want, rtol=1e-10)


def test_a_qr_factor_of_the_data_gives_the_same_iteration(scaled, found):
    r = np.linalg.qr(np.column_stack([scaled.x, scaled.y]), mode='r')
    short = bayesian_factor_analysis.em_step(
        CONFIG, StandardizedData(r[:, :-1], r[:, -1], scaled.unit), N, found
    )
    for got, want in zip(
        short, bayesian_factor_analysis.em_step(CONFIG, scaled, N, found), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-10)  # rounding of a QR decomposition


def _matrices(found):
    wz, wx = np.diag(found.wz), np.diag(found.wx)
    return wz, wx, np.diag(1.0 / found.z_noise), np.diag(1.0 / found.x_noise), np.ones(D)


def test_with_certain_weights_prediction_from_noiseless_inputs_is_eq_4(found):
    wz, wx, by_z, _, one = _matrices(found)
    py = found.output_noise
    c = np.linalg.inv(np.outer(one, one) / py + by_z)
    expected = py * (one @ c) / (py - one @ c @ one) @ by_z @ wz.T @ np.linalg.inv(wx)
    certain = found._replace(vz=np.zeros(D), vx=np.zeros(D))
    np.testing.assert_allclose(
        bayesian_factor_analysis.predict_from_noiseless(certain), expected, rtol=1e-10
    )


def test_prediction_from_noiseless_inputs_is_the_limit_of_eq_3_without_noise(found):
    noise = 1e-12  # of inputs; the relative error is of the same order
    k = 1.0 + (found.wx**2 + found.vx) / noise + found.vz / found.z_noise
    from_noisy = found.wz * found.wx / (noise * k)  # eq. 3, by Sherman and Morrison
    np.testing.assert_allclose(
        from_noisy, bayesian_factor_analysis.predict_from_noiseless(found), rtol=1e-10
    )


def test_an_input_without_information_has_no_weight(found):
    gone = found._replace(wx=found.wx * [1.0, 1e-9, 1.0], wz=found.wz * [1.0, 1e-9, 1.0])
    # w_z w_x is 1e-18 of what it was, over a variance of order 1
    assert abs(bayesian_factor_analysis.predict_from_noiseless(gone)[1]) < 1e-16


def test_irrelevant_inputs_get_negligible_coefficients(rng):
    t = rng.standard_normal((500, 6))
    y = t[:, :2] @ [1.0, -2.0] + 0.5 * rng.standard_normal(500)
    found = bayesian_factor_analysis.fit(FactorConfig(), standardize(t, y))
    b = bayesian_factor_analysis.predict_from_noiseless(found)
    # least squares would give about 1 / sqrt(500) = 0.04
    assert np.all(np.abs(b[2:]) < 1e-3)
    assert found.alpha[2:].min() > 100.0 * found.alpha[:2].max()
