"""The no-U-turn sampler samples densities whose moments are known."""

import numpy as np
import pytest

from benchmarks.csvgd import nuts

SD, MEAN = np.array([1.0, 0.1, 3.0]), np.array([1.0, -2.0, 0.5])


def test_moments_are_those_of_a_normal_density_and_the_budget_is_kept():
    calls = []

    def density(x):
        calls.append(1)
        z = (x - MEAN) / SD
        return -0.5 * float(z @ z), -z / SD

    chain, acceptance = nuts.sample(density, np.zeros(3), 12000, np.random.default_rng(0))
    # the last trajectory may take 256 steps more than the budget
    assert 12000 <= len(calls) <= 12000 + 256
    # over a thousand samples, correlated over a few: a standard error of 0.05 sd; four of them
    assert np.all(np.abs(chain.mean(axis=0) - MEAN) < 0.2 * SD)
    np.testing.assert_allclose(chain.std(axis=0), SD, rtol=0.2)
    assert acceptance == pytest.approx(nuts.ACCEPTANCE, abs=0.15)


def test_a_correlation_is_sampled():
    covariance = np.array([[1.0, 0.95], [0.95, 1.0]])
    precision = np.linalg.inv(covariance)

    def density(x):
        return -0.5 * float(x @ precision @ x), -precision @ x

    chain, _ = nuts.sample(density, np.zeros(2), 12000, np.random.default_rng(1))
    # some hundred independent samples: standard errors of 0.1 of a variance
    np.testing.assert_allclose(np.cov(chain.T), covariance, atol=0.3)
    assert np.corrcoef(chain.T)[0, 1] == pytest.approx(0.95, abs=0.02)


def test_skewed_densities_and_walls():
    def log_gamma(x):  # exp(x) has a gamma density of shape 2
        return float(2.0 * x[0] - np.exp(x[0])), 2.0 - np.exp(x)

    def exponential(x):
        return (-float(x[0]), -np.ones(1)) if x[0] >= 0.0 else (-np.inf, np.zeros(1))

    chain, _ = nuts.sample(log_gamma, np.zeros(1), 12000, np.random.default_rng(2))
    # over a thousand samples, correlated over a few: a standard error of 0.05 sd
    assert np.exp(chain).mean() == pytest.approx(2.0, abs=0.3)
    assert np.exp(chain).var() == pytest.approx(2.0, abs=0.8)
    chain, _ = nuts.sample(exponential, np.ones(1), 2000, np.random.default_rng(2))
    assert chain.min() >= 0.0
