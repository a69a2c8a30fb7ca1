"""The covariance: that of white noise where noise is white, and wider where the model is wrong."""

import numpy as np

from emppi_ros.identify.shooting import uncertainty

from .conftest import PENDULUM_TRUTH
from .test_estimation import fit


def ratios(result) -> np.ndarray:
    """Return the standard deviations relative to those by white noise."""
    size = len(result.theta)
    white = np.linalg.inv(result.information + np.eye(size))
    return np.sqrt(np.diag(uncertainty.covariance(result)) / np.diag(white))


def test_errors_of_the_model_widen_the_intervals(plants, swing) -> None:
    plant = plants['pendulum']
    right = fit(plant, swing(noise=1e-3), 40)
    pushed = fit(plant, swing(noise=1e-3, push=0.05), 40)
    assert np.all(ratios(right) < 2.5)
    assert np.all(ratios(pushed) > 1.0 - 1e-9) and ratios(pushed).max() > 3.0
    # the push biases the estimate by many standard deviations of white noise
    size = len(pushed.theta)
    white = np.sqrt(np.diag(np.linalg.inv(pushed.information + np.eye(size))))
    off = np.abs(pushed.theta - PENDULUM_TRUTH) / plant.scales
    assert np.max(off / white) > 3.0 * np.max(off / (white * ratios(pushed)))


def test_in_no_direction_is_it_narrower_than_white_noise(plants, swing) -> None:
    result = fit(plants['pendulum'], swing(push=0.02), 40)
    white = np.linalg.inv(result.information + np.eye(3))
    least = np.linalg.eigvalsh(uncertainty.covariance(result) - white).min()
    assert least > -1e-9 * np.linalg.norm(white)


def test_scores_of_successive_windows_count_with_bartlett_weights() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((300, 2))
    owner = np.zeros(300, int)
    lags = int(4.0 * 3.0 ** (2.0 / 9.0))
    expected = sum(
        (1.0 - abs(i - j) / (lags + 1.0)) * np.outer(scores[i], scores[j])
        for i in range(300)
        for j in range(max(0, i - lags), min(300, i + lags + 1))
    )
    np.testing.assert_allclose(uncertainty.score_covariance(scores, owner), expected, rtol=1e-9)
    # windows of different recordings do not follow one another
    apart = uncertainty.score_covariance(scores, np.arange(300))
    np.testing.assert_allclose(apart, scores.T @ scores, rtol=1e-12)
