"""The information of the particles is that of linear regression, and diffusion keeps the prior."""

import numpy as np
import pytest

from emppi_ros.belief import information

SPREAD = np.array([0.5, 2.0])


def test_the_sensitivity_of_linear_predictions_is_their_matrix(rng):
    slope = rng.normal(0.0, 3.0, (7, 2))
    z = rng.normal(0.0, SPREAD, (64, 2))
    weights = np.full(64, -np.log(64.0))
    errors = z @ slope.T + rng.normal(0.0, 1.0, 7)
    ours = information.sensitivity(weights, z, errors, np.ones(7), SPREAD)
    # the ridge, 1e-6 of the prior's variance
    np.testing.assert_allclose(ours, slope, rtol=1e-4, atol=1e-4)


def test_noise_hardly_counts_as_information(rng):
    z = rng.normal(0.0, SPREAD, (64, 2))
    weights, total = np.full(64, -np.log(64.0)), np.zeros((2, 2))
    for _ in range(400):
        jacobian = information.sensitivity(
            weights, z, rng.normal(size=(64, 7)), np.ones(7), SPREAD
        )
        total += SPREAD[:, None] * (jacobian.T @ jacobian) * SPREAD
    # regression of noise adds 7 / 64 per update and direction, 44 in all; less than a twentieth
    # of that may remain
    assert np.linalg.eigvalsh(total)[-1] < 0.05 * 400 * 7 / 64


@pytest.mark.parametrize('count', [1, 3, 4])
def test_too_few_predictions_have_no_sensitivity(rng, count):
    errors, z = rng.normal(size=(count, 3)), rng.normal(0.0, SPREAD, (count, 2))
    weights = np.full(count, -np.log(count))
    ours = information.sensitivity(weights, z, errors, np.ones(3), SPREAD)
    assert np.array_equal(ours, np.zeros((3, 2)))


def test_information_adds_up_to_the_posterior_of_linear_regression(rng):
    jacobian, precision = rng.normal(size=(9, 2)), rng.uniform(0.5, 2.0, 9)
    gathered = information.add(information.start(SPREAD, 4), jacobian, precision)
    exact = np.linalg.inv(np.diag(SPREAD**-2.0) + (jacobian.T * precision) @ jacobian)
    ours = information.covariance(np.full(4, -np.log(4.0)), gathered)
    np.testing.assert_allclose(ours, exact, rtol=1e-9)


def test_drift_adds_its_variance_to_independent_parameters():
    before = information.start(SPREAD, 1)
    after = information.drift(before, np.array([0.3, 0.0]))
    np.testing.assert_allclose(np.linalg.inv(after)[0], np.diag(SPREAD**2 + [0.3, 0.0]))


def test_raised_variances_are_those_asked_for_and_none_falls():
    before = information.start(SPREAD, 3)
    log_weights = np.full(3, -np.log(3.0))
    after = information.raise_variance(before, log_weights, np.array([1.0, 1.0]))
    covariance = information.covariance(log_weights, after)
    np.testing.assert_allclose(covariance, np.diag([1.0, SPREAD[1] ** 2]))


def test_a_parameter_that_jumped_has_the_information_of_its_prior(rng):
    root = rng.normal(size=(2, 2))
    before = np.tile(root @ root.T + np.eye(2), (2, 1, 1))
    after = information.jump(before, np.array([0, 1]), SPREAD)
    np.testing.assert_allclose(after[0], np.diag([SPREAD[0] ** -2, before[0, 1, 1]]))
    np.testing.assert_allclose(after[1], np.diag([before[1, 0, 0], SPREAD[1] ** -2]))


def test_what_another_parameter_leaves_unexplained_is_the_residual_of_least_squares(rng):
    jacobian, step = rng.integers(-9, 10, size=(6, 3)).astype(float), 0.5  # exact products
    jacobian[:, 2] = 0.0  # nothing was learned about it
    target = step * jacobian[:, 0]
    expected = [
        target @ target
        - np.linalg.lstsq(jacobian[:, [i]], target)[0][0] * (target @ jacobian[:, i])
        for i in range(3)
    ]
    unexplained = information.unexplained(jacobian.T @ jacobian, 0, step)
    np.testing.assert_allclose(unexplained, expected, atol=1e-12)
    assert unexplained[2] == target @ target


def test_information_starts_again_about_some_parameters_and_stays_about_the_others(rng):
    root, other = rng.normal(size=(2, 3, 3))
    before, since, flags = root @ root.T, other @ other.T, np.array([True, False, True])
    spread = np.array([1.0, 2.0, 3.0])
    (after,) = information.restart(before[None], flags, since, spread)
    np.testing.assert_allclose(
        after[np.ix_(flags, flags)], (since + np.diag(spread**-2))[np.ix_(flags, flags)]
    )
    np.testing.assert_allclose(after[1], [0.0, before[1, 1], 0.0])


def test_what_is_missing_raises_a_covariance_to_the_floor_in_each_direction(rng):
    root, other = rng.normal(size=(2, 3, 3))
    floor, covariance = root @ root.T, other @ other.T
    total = covariance + information.missing(covariance, floor)
    excess = np.linalg.eigvals(np.linalg.solve(floor, total)).real
    assert np.all(excess > 1.0 - 1e-9)
    larger = 2.0 * floor
    np.testing.assert_allclose(information.missing(larger, floor), 0.0, atol=1e-12)
    np.testing.assert_allclose(information.missing(0.0 * floor, floor), floor, atol=1e-12)


def test_diffusion_leaves_the_prior_as_it_is(rng):
    center, count = np.array([1.0, -2.0]), 20_000
    z = center + rng.normal(size=(count, 2)) * SPREAD
    added = 0.02 * np.outer(SPREAD, SPREAD) * np.array([[1.0, 0.5], [0.5, 1.0]])
    for _ in range(50):
        z = information.diffuse(z, added, center, SPREAD, rng)
    # five standard errors of the mean; a step of the first order adds 0.01 to the variance
    np.testing.assert_allclose(z.mean(axis=0), center, atol=5.0 * SPREAD.max() / count**0.5)
    np.testing.assert_allclose(z.std(axis=0), SPREAD, rtol=0.01 + 5.0 * (0.5 / count) ** 0.5)
