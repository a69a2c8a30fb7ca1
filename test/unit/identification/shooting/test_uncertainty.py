"""The covariance: that of white noise where noise is white, and wider where the model is wrong."""

import numpy as np
import pytest
from scipy import integrate, stats

from emppi_ros.identification.multiple_shooting import windows
from emppi_ros.identification.multiple_shooting.windows import FREEDOM, student_weights
from emppi_ros.identification.shooting import estimation

from .conftest import PENDULUM_TRUTH
from .test_estimation import fit


def by_white_noise(result) -> np.ndarray:
    """Return the covariance by white noise of Student's t."""
    information = estimation._EXPECTED * result.information
    return np.linalg.inv(information + np.eye(len(result.theta)))


def ratios(result) -> np.ndarray:
    """Return the standard deviations relative to those by white noise."""
    white = by_white_noise(result)
    return np.sqrt(np.diag(estimation.covariance(result)) / np.diag(white))


def test_errors_of_the_model_widen_the_intervals(plants, swing) -> None:
    plant = plants['pendulum']
    right = fit(plant, swing(noise=1e-3), 40)
    pushed = fit(plant, swing(noise=1e-3, push=0.05), 40)
    assert np.all(ratios(right) < 2.5)
    assert np.all(ratios(pushed) > 1.0 - 1e-9) and ratios(pushed).max() > 3.0
    # the push biases the estimate by many standard deviations of white noise
    white = np.sqrt(np.diag(by_white_noise(pushed)))
    off = np.abs(pushed.theta - PENDULUM_TRUTH) / plant.scales
    assert np.max(off / white) > 3.0 * np.max(off / (white * ratios(pushed)))


def test_in_no_direction_is_it_narrower_than_white_noise(plants, swing) -> None:
    result = fit(plants['pendulum'], swing(push=0.02), 40)
    white = by_white_noise(result)
    least = np.linalg.eigvalsh(estimation.covariance(result) - white).min()
    assert least > -1e-9 * np.linalg.norm(white)


def test_the_expected_information_is_that_of_students_t() -> None:
    density = stats.t(FREEDOM)

    def expect(function) -> float:
        return integrate.quad(lambda x: function(x) * density.pdf(x), -np.inf, np.inf)[0]

    one = np.ones(1)
    weighted = expect(lambda x: student_weights(x * one, one)[0])
    squared_score = expect(lambda x: (student_weights(x * one, one)[0] * x) ** 2)
    assert estimation._EXPECTED == pytest.approx(squared_score / weighted, rel=1e-6)


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
    np.testing.assert_allclose(windows.score_covariance(scores, owner), expected, rtol=1e-9)
    # windows of different recordings do not follow one another
    apart = windows.score_covariance(scores, np.arange(300))
    np.testing.assert_allclose(apart, scores.T @ scores, rtol=1e-12)
