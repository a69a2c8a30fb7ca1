"""What measurements leave of a prior's spread is what Bayes' rule leaves."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.belief.identifiability import information, remaining, unidentifiable


def correlation(rng, count):
    rows = rng.normal(size=(2 * count, count))
    covariance = rows.T @ rows
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


@given(seed=st.integers(0, 1000), count=st.integers(1, 6), scale=st.floats(1e-3, 1e3))
def test_it_is_the_posterior_of_a_linear_gaussian_model(seed, count, scale):
    rng = np.random.default_rng(seed)
    prior, jacobian = correlation(rng, count), scale * rng.normal(size=(5, count))
    posterior = np.linalg.inv(np.linalg.inv(prior) + jacobian.T @ jacobian)
    found = remaining(information(jacobian), prior)
    # inverses of matrices with a condition of up to 1e9 or so
    np.testing.assert_allclose(found, np.sqrt(np.diag(posterior)), rtol=1e-5)
    assert np.all(found <= 1.0 + 1e-9)


def test_without_information_all_is_left_and_nobody_is_identifiable():
    found = remaining(np.zeros((3, 3)), np.eye(3))
    assert np.array_equal(found, np.ones(3)) and unidentifiable(found).all()


def test_a_measurement_of_one_says_nothing_of_another():
    found = remaining(information(np.array([[100.0, 0.0]])), np.eye(2))
    assert found[0] == pytest.approx(1.0 / np.sqrt(1.0 + 100.0**2)) and found[1] == 1.0
    assert unidentifiable(found).tolist() == [False, True]


def test_a_ratio_leaves_both_wide_however_well_it_is_measured():
    found = remaining(information(np.array([[1e4, -1e4]])), np.eye(2))
    np.testing.assert_allclose(found, np.sqrt(0.5), rtol=1e-6)  # 1/2 + 1/(4e8)


def test_parameters_that_the_prior_ties_together_are_learned_together():
    tied = np.ones((2, 2))  # which has no inverse
    found = remaining(information(np.array([[3.0, 0.0]])), tied)
    # rounding of an eigenvalue of 0, of which the square root is taken
    np.testing.assert_allclose(found, 1.0 / np.sqrt(10.0), rtol=1e-7)
