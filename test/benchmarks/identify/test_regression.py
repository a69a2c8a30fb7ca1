"""Regressions with noisy inputs, and the cells of the study."""

import numpy as np
import pytest

from benchmarks.identify import errors_in_variables, joint_factors, regression
from benchmarks.identify.baselines import REGRESSIONS
from emppi_ros.core.errors import IdentificationError


@pytest.fixture
def clean(rng):
    """Return noiseless inputs, two of them redundant, and their output; four are relevant."""
    x = rng.standard_normal((300, 4)) * [1.0, 10.0, 0.1, 1.0]
    true = np.array([1.0, -0.2, 30.0, 2.0])
    return np.hstack([x, x @ rng.dirichlet(np.ones(4), 2).T]), x @ true


@pytest.mark.parametrize('name', REGRESSIONS)
def test_a_regression_without_noise_predicts_other_data(name, clean):
    x, y = clean
    coefficients = REGRESSIONS[name](x[:200], y[:200])
    # the smallest penalty of the LASSO is 1e-4 of the output, for each of four inputs
    assert np.abs(x[200:] @ coefficients - y[200:]).max() < 4e-4 * np.abs(y).max()


@pytest.mark.parametrize('name', REGRESSIONS)
def test_coefficients_follow_the_units(name, rng):
    x = rng.standard_normal((200, 5))
    y = x @ [1.0, -2.0, 0.0, 0.0, 0.5] + rng.standard_normal(200)
    units = np.array([1.0, 1e3, 1e-3, 5.0, 0.2])
    changed = REGRESSIONS[name](x / units, 7.0 * y)
    np.testing.assert_allclose(changed, 7.0 * units * REGRESSIONS[name](x, y), rtol=1e-6)


def test_stepwise_regression_keeps_relevant_inputs(rng):
    x = rng.standard_normal((500, 8))
    y = x[:, [1, 4]] @ [3.0, -2.0] + rng.standard_normal(500)
    chosen = np.flatnonzero(REGRESSIONS['stepwise'](x, y))
    # each of the others enters with a probability of 5 %
    assert {1, 4} <= set(chosen) and len(chosen) <= 4


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(IdentificationError, match='not finite'):
        REGRESSIONS['OLS'](np.full((5, 2), np.nan), np.ones(5))


def test_factor_analysis_without_input_noise_is_least_squares(rng):
    x = rng.standard_normal((60, 3))
    x /= np.sqrt(np.mean(x**2, axis=0))
    y = x @ [0.5, -0.3, 0.4] + 0.5 * rng.standard_normal(60)
    y /= np.sqrt(np.mean(y**2))
    posterior = joint_factors.fit(x, y, bayesian=False, signal=1.0)
    assert posterior.x_noise.max() < 1e-9
    exact = np.linalg.lstsq(x, y, rcond=None)[0]
    # EM ends when weights change by less than 1e-6 in an iteration
    for noisy in (False, True):
        np.testing.assert_allclose(posterior.coefficients(noisy), exact, atol=1e-3)


def test_the_predictor_is_that_of_the_papers_equation_3(rng):
    wz, wx, pz, px = rng.uniform(0.3, 1.5, (4, 3))
    none, py, one = np.zeros(3), 0.4, np.ones(3)
    a = np.diag(1.0 + wx**2 / px + wz**2 / pz)
    to_z = np.diag(wz / pz)
    b = np.linalg.inv(np.outer(one, one) / py + np.diag(1.0 / pz) - to_z @ np.linalg.inv(a) @ to_z)
    share = py / (py - one @ b @ one) * (one @ b)
    expected = share @ to_z @ np.linalg.inv(a) @ np.diag(wx / px)
    posterior = joint_factors.FactorPosterior(wz, wx, none, none, pz, px, py)
    np.testing.assert_allclose(posterior.coefficients(noisy=True), expected, rtol=1e-10)


def test_irrelevant_inputs_get_negligible_weights(rng):
    x = rng.standard_normal((500, 6))
    y = x[:, :2] @ [1.0, -2.0] + 0.5 * rng.standard_normal(500)
    posterior = joint_factors.fit(x / x.std(axis=0), y / y.std(), bayesian=True)
    # least squares has errors of about 0.25 / sqrt(500) = 0.01 of the output
    assert np.abs(posterior.coefficients(noisy=False)[2:]).max() < 1e-3


def test_the_noise_of_correlated_inputs_is_subtracted(rng):
    base = rng.standard_normal((20_000, 1))
    t = base + 0.05 * rng.standard_normal((20_000, 3))
    x = t + 0.5 * rng.standard_normal(t.shape)
    true = np.array([1.0, 2.0, 3.0])
    y = t @ true + rng.standard_normal(20_000)
    coefficients, identified = errors_in_variables.regress(x, y)
    assert identified
    # least squares loses a fourteenth of the sum, 0.25 / (3 + 0.25); sampling errors are 0.02
    assert coefficients.sum() == pytest.approx(6.0, abs=0.1)
    assert REGRESSIONS['OLS'](x, t @ true).sum() < 5.7


def test_the_data_are_those_of_the_figure():
    train, clean, noisy = regression.draw('SNR 2: 30 redundant, 60 irrelevant', 3, 4000)
    assert train[0].shape == (4000, 100)
    assert np.linalg.matrix_rank(train[0][:, :40]) == 10
    np.testing.assert_allclose(clean[0][:, :10] @ regression.TRUE, clean[1])
    # 4000 rows: variances have standard errors of 2 %
    assert noisy[1].var() / clean[1].var() == pytest.approx(1.2, abs=0.15)
    ratio = noisy[0][:, :10].var(axis=0) / clean[0][:, :10].var(axis=0)
    np.testing.assert_allclose(ratio, 1.5, atol=0.25)
