"""The smoother agrees with the joint normal distribution of all states and measurements."""

import numpy as np
import pytest
from scipy import stats

from emppi_ros.tracking import kalman_smoother
from emppi_ros.tracking.kalman_smoother import LinearSystem

COUNT, N, M = 5, 3, 2


@pytest.fixture(scope='module')
def system():
    """Return a system without noise along one direction, and without the third measurement."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(COUNT - 1, N, N - 1))
    slopes = rng.normal(size=(COUNT, M, N))
    measured = rng.normal(size=(COUNT, M))
    slopes[2], measured[2] = 0.0, 0.0
    return LinearSystem(
        rng.normal(size=N),
        np.diag([1.0, 4.0, 0.5]),
        rng.normal(size=(COUNT - 1, N, N)),
        rng.normal(size=(COUNT - 1, N)),
        root @ np.swapaxes(root, 1, 2),
        slopes,
        measured,
    )


def joint(system):
    """Return mean and covariance of all states, and the matrix to all measurements."""
    # states are linear in the first one and all noises
    mean, basis = system.mean, np.eye(N, COUNT * N)
    means, rows = [mean], [basis]
    for k in range(COUNT - 1):
        mean = system.transition[k] @ mean + system.shift[k]
        basis = system.transition[k] @ basis
        basis[:, N * (k + 1) : N * (k + 2)] = np.eye(N)
        means.append(mean)
        rows.append(basis)
    spread = np.zeros((COUNT * N, COUNT * N))
    for k, one in enumerate([system.covariance, *system.noise]):
        spread[N * k : N * (k + 1), N * k : N * (k + 1)] = one
    basis = np.concatenate(rows)
    slopes = np.zeros((COUNT * M, COUNT * N))
    for k, one in enumerate(system.slopes):
        slopes[M * k : M * (k + 1), N * k : N * (k + 1)] = one
    return np.concatenate(means), basis, spread, slopes


def log_likelihood(system):
    mean, basis, spread, slopes = joint(system)
    total = slopes @ basis @ spread @ basis.T @ slopes.T + np.eye(COUNT * M)
    return stats.multivariate_normal(slopes @ mean, total).logpdf(system.measured.ravel())


def test_states_and_noises_are_those_of_the_joint_distribution(system):
    mean, basis, spread, slopes = joint(system)
    to_measured = slopes @ basis
    total = to_measured @ spread @ to_measured.T + np.eye(COUNT * M)
    gain = spread @ to_measured.T @ np.linalg.inv(total)
    noises = gain @ (system.measured.ravel() - slopes @ mean)
    rest = spread - gain @ to_measured @ spread
    states, covariance = mean + basis @ noises, basis @ rest @ basis.T
    found = kalman_smoother.smooth(system)
    # rounding: condition numbers are below 1e4
    np.testing.assert_allclose(found.mean.ravel(), states, atol=1e-9)
    for k in range(COUNT):
        own = slice(N * k, N * (k + 1))
        np.testing.assert_allclose(found.covariance[k], covariance[own, own], atol=1e-9)
    squares = [
        np.trace(np.linalg.pinv(one) @ (np.outer(noises[own], noises[own]) + rest[own, own]))
        for k, one in enumerate(system.noise)
        for own in [slice(N * (k + 1), N * (k + 2))]
    ]
    # the direction without noise counts as one
    expected = np.array(squares) + 1.0
    np.testing.assert_allclose(
        kalman_smoother.noise_squares(found, system.noise), expected, atol=1e-9
    )


def test_the_likelihood_is_that_of_all_measurements(system):
    found = kalman_smoother.smooth(system)
    constant = COUNT * M * np.log(2.0 * np.pi)
    value = -0.5 * (found.squares + found.log_determinant + constant)
    assert value == pytest.approx(log_likelihood(system), abs=1e-9)  # rounding


def test_scores_are_the_derivatives_by_the_covariances_of_noise_and_first_state(system):
    found = kalman_smoother.smooth(system)
    step, change = 1e-5, np.ones((N, N)) + np.diag([1.0, 2.0, 3.0])
    for k, score in enumerate(kalman_smoother.scores(found)):

        def moved(by, k=k):
            first, noise = system.covariance.copy(), system.noise.copy()
            (noise[k - 1] if k else first)[:] += by * change
            return log_likelihood(system._replace(covariance=first, noise=noise))

        # differences of second order
        expected = (moved(step) - moved(-step)) / (2.0 * step)
        assert np.sum(score * change) == pytest.approx(expected, rel=1e-5, abs=1e-6)
