"""The learned noise is that of the errors, and correlated evidence counts once."""

import math

import numpy as np
import pytest

from emppi_ros.belief import noise

ONE = np.zeros(1)  # log weights of a single particle
SPREAD = np.array([1.0])


def _update(scale, dof, error, jacobian=1.0):
    """Return the estimates after one error of one particle."""
    errors, column = np.array([[error]]), np.array([[jacobian]])
    precision = noise.precision(scale.variance, dof, ONE, errors)
    return noise.update(scale, dof, ONE, errors, precision, column, SPREAD)


def _learn(errors, dof):
    scale = noise.start(1, 1, 1)
    for error in errors:
        scale = _update(scale, dof, error)
    return scale


def test_without_data_the_configured_scale_holds():
    scale = noise.start(3, 2, 1)
    assert np.array_equal(scale.variance, np.ones(3))
    assert np.array_equal(scale.power, np.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize('sd', [0.5, 3.0])
def test_the_scale_of_gaussian_errors_is_their_standard_deviation(rng, sd):
    scale = _learn(rng.normal(0.0, sd, 3000), 1e9)
    # an exponential window of 250 updates has 499 effective samples: five standard errors
    assert np.sqrt(scale.variance[0]) == pytest.approx(sd, rel=5.0 * (0.5 / 499) ** 0.5)


@pytest.mark.slow
def test_the_scale_of_t_errors_is_theirs_and_outliers_do_not_widen_it(rng):
    errors = rng.standard_t(4.0, 3000)
    scale = _learn(errors, 4.0)
    # the scale estimate of Student's t has (nu + 3) / (2 nu) times the variance of a Gaussian's:
    # five standard errors
    assert np.sqrt(scale.variance[0]) == pytest.approx(1.0, rel=5.0 * (0.875 / 499) ** 0.5)
    wide = _learn(np.append(errors, 1000.0), 4.0)
    assert np.sqrt(wide.variance[0]) == pytest.approx(np.sqrt(scale.variance[0]), rel=0.02)


def test_the_scale_has_a_floor_that_exact_models_do_not_pass():
    assert _learn(np.zeros(2000), 4.0).variance[0] == pytest.approx(0.05)


def test_errors_count_by_what_they_say_about_the_parameters(rng):
    scale = noise.start(1, 1, 1)
    for i in range(4000):  # errors are large exactly where the parameter matters
        sensitive = i % 10 == 0
        error = rng.normal(0.0, 2.0 if sensitive else 0.5)
        scale = _update(scale, 1e9, error, 1.0 if sensitive else 0.0)
    # the scale of the informative errors is 2, of which the window has 250: five standard errors
    assert np.sqrt(scale.variance[0]) == pytest.approx(2.0, rel=5.0 * (0.5 / 499) ** 0.5)


def test_errors_that_say_nothing_change_nothing(rng):
    """A robot that moves freely for a minute keeps what it learned about contacts."""
    scale = noise.start(1, 1, 1)
    for error in rng.normal(0.0, 2.0, 50):
        scale = _update(scale, 1e9, error)
    before = scale.variance
    for _ in range(3000):
        scale = _update(scale, 1e9, 0.001, 0.0)
    assert np.array_equal(scale.variance, before)


def test_independent_errors_count_fully_and_correlated_ones_by_their_number(rng):
    white, coloured = rng.normal(0.0, 1.0, 3000), np.zeros(3000)
    # the correlation of 250 errors has a standard error of 0.06: four of these
    assert _learn(white, 1e9).power[0] > (1.0 - 0.24) / (1.0 + 0.24)
    for i in range(1, 3000):
        coloured[i] = 0.9 * coloured[i - 1] + np.sqrt(1.0 - 0.81) * white[i]
    scale = _learn(coloured, 1e9)
    # (1 - r) / (1 + r) is 0.053 at r = 0.9; 250 errors tell r to 0.04, and it is drawn to 0 by 4 %
    assert 0.02 < scale.power[0] < 0.15
    assert scale.persistent[0] == pytest.approx(scale.variance[0] / scale.power[0], rel=0.5)


def test_sums_over_a_window_are_compared_with_those_that_share_no_error(rng):
    """Overlapping sums are correlated even if their errors are not: only later ones count."""
    window, white = 4, rng.normal(0.0, 1.0, 3000)
    scale = noise.start(1, 1, window)
    for i in range(window, 3000):
        scale = _update(scale, 1e9, white[i - window : i].sum() / np.sqrt(window))
    # as above; sums over four errors have a quarter of them independent
    assert scale.power[0] > (1.0 - 0.48) / (1.0 + 0.48)


def test_alternating_errors_count_no_more_than_once(rng):
    errors = np.where(np.arange(500) % 2, 1.0, -1.0) + rng.normal(0.0, 0.1, 500)
    assert _learn(errors, 1e9).power[0] == 1.0


def test_correlated_errors_count_less_only_after_the_belief_could_follow_a_change():
    scale = noise.start(1, 1, 1)
    for _ in range(noise._DELAY - 1):
        scale = _update(scale, 1e9, 3.0)
        assert scale.power[0] == 1.0
    assert scale.persistent[0] > 5.0 * scale.variance[0]  # yet the monitor knows at once
    for _ in range(noise._DELAY - 1):
        scale = _update(scale, 1e9, 3.0)
    assert scale.power[0] < 0.2


def test_a_detected_change_explains_the_errors_since_then(rng):
    before = _learn(rng.normal(0.0, 1.0, 500), 1e9)
    scale = before
    for _ in range(noise._DELAY - 1):
        scale = _update(scale, 1e9, 3.0)
    after = noise.forget_recent(scale)
    # the power is that from before the change, and does not fall afterwards
    np.testing.assert_array_equal(after.products, before.products)
    np.testing.assert_array_equal(after.energy, before.energy)
    assert after.power == before.power
    assert _update(after, 1e9, 0.0).power == before.power


@pytest.mark.parametrize(('error', 'updates'), [(1.5, 60), (0.5, 600)])
def test_a_lag_of_the_belief_is_its_mean_error(rng, error, updates):
    scale = _learn(rng.normal(error, 1.0, updates), 1e9)._replace(
        squares=np.ones(1), total=np.ones(1)
    )
    # the scores of the best window have a standard error of at most a third of the error
    assert np.sqrt(noise.lag(scale)[0]) == pytest.approx(error, rel=0.67)


def test_a_belief_without_error_hardly_ever_lags(rng):
    scale, lagging, updates = noise.start(1, 1, 1), 0, 6000
    for error in rng.normal(0.0, 1.0, updates):
        scale = _update(scale, 1e9, error)
        lagging += bool(noise.lag(scale).any())
    # each window exceeds three standard deviations in 0.27 % of the updates; exceedances of the
    # longest come in groups of some tens, hence twice their sum
    assert lagging < 2 * 3 * 0.0027 * updates


def test_a_detected_change_explains_a_lag(rng):
    scale = _learn(np.full(30, 3.0), 1e9)
    assert noise.lag(scale).any() and not noise.lag(noise.forget_recent(scale)).any()


@pytest.mark.parametrize('window', [1, 4])
def test_only_errors_that_persist_after_a_change_are_not_white(rng, window):
    def judge(bias):
        scale = noise.start(1, 1, window)
        for count, mean in ((200, 0.0), (40, bias)):
            scale = noise.forget_recent(scale)
            errors = rng.normal(mean, 1.0, count + window)
            # sums over the window, as in the filter
            for error in np.convolve(errors, np.ones(window), 'valid') / math.sqrt(window):
                scale = _update(scale, 1e9, error)
        return noise.is_white(scale)

    # white errors are within five standard deviations in each of 100 trials; products of those of
    # three standard deviations are at least 9, and their sum at 9 sqrt(40 / (10 W)) = 18 / sqrt(W)
    assert all(judge(0.0) for _ in range(100))
    assert not any(judge(3.0) for _ in range(100))
