"""The correlation time of residuals."""

import numpy as np
import pytest

from emppi_ros.recordings.noise import correlation_time


@pytest.mark.parametrize('share', [0.5, 0.8, 0.9])
def test_the_correlation_time_of_an_autoregressive_process_is_that_of_theory(share):
    rng, series = np.random.default_rng(0), np.zeros(20_000)
    for k, noise in enumerate(rng.standard_normal(len(series))):
        series[k] = share * series[k - 1] + noise
    expected = (1.0 + share) / (1.0 - share)
    # relative standard error sqrt(2 (2 m + 1) / n) of a window of m = 5 times: 14 % at most
    assert correlation_time(series) == pytest.approx(expected, rel=0.4)


def test_white_residuals_are_not_correlated():
    for seed in range(20):
        white = np.random.default_rng(seed).standard_normal(500)
        assert correlation_time(white) <= 1.0 + 4.0 * np.sqrt(22.0 / 500)  # four standard errors


def test_a_drift_leaves_about_one_independent_residual():
    assert correlation_time(np.linspace(0.5, 1.5, 400)) > 100.0


def test_no_residuals_are_not_correlated():
    assert correlation_time(np.zeros(100)) == 1.0 and correlation_time(np.ones(3)) == 1.0
