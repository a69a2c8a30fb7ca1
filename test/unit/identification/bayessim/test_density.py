"""Mixture densities: derivatives, normalization, and bounds."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from emppi_ros.identification.bayessim import mixture_density_network as networks
from emppi_ros.identification.bayessim import posterior
from emppi_ros.identification.bayessim.mixture_density_network import (
    BoxedMixture,
    GaussianMixture,
    Network,
    TrainingConfig,
)

BOUND = np.sqrt(3.0)  # of a uniform prior of unit variance


@pytest.fixture
def mixture() -> GaussianMixture:
    roots = np.array([[[2.0, 0.0], [0.5, 1.0]], [[1.0, 0.0], [-1.0, 3.0]]])
    return GaussianMixture(np.log([0.3, 0.7]), np.array([[0.0, 1.0], [2.0, -1.0]]), roots)


def test_the_density_of_a_mixture_is_that_of_its_gaussians(mixture: GaussianMixture) -> None:
    points = np.random.default_rng(0).standard_normal((20, 2))
    expected = sum(
        np.exp(weight) * multivariate_normal(mean, np.linalg.inv(root.T @ root)).pdf(points)
        for weight, mean, root in zip(*mixture, strict=True)
    )
    np.testing.assert_allclose(mixture.log_density(points), np.log(expected), rtol=1e-12)


def test_draws_of_a_mixture_have_its_moments(mixture: GaussianMixture) -> None:
    draws = mixture.sample(40_000, np.random.default_rng(1))
    weights = np.exp(mixture.log_weights)
    mean = weights @ mixture.means
    second = sum(
        w * (np.linalg.inv(r.T @ r) + np.outer(m, m))
        for w, m, r in zip(weights, mixture.means, mixture.roots, strict=True)
    )
    covariance = second - np.outer(mean, mean)
    error = np.sqrt(np.diag(covariance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.0 * error)
    # a sample variance has a relative standard error below sqrt(2 / n) for light tails
    assert np.max(np.abs(np.cov(draws.T) - covariance)) < 5.0 * np.sqrt(2 / len(draws)) * 3.0


def test_no_density_lies_outside_of_the_box(mixture: GaussianMixture) -> None:
    narrow = mixture._replace(means=0.3 * mixture.means, roots=3.0 * mixture.roots)
    boxed = BoxedMixture(narrow)
    edges = np.linspace(-BOUND, BOUND, 201)
    middle = 0.5 * (edges[1:] + edges[:-1])
    grid = np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 2)
    cell = (edges[1] - edges[0]) ** 2
    # the midpoint rule: exact but for rounding and tails where nothing rises at the bounds
    assert np.sum(np.exp(boxed.log_density(grid))) * cell == pytest.approx(1.0, abs=1e-3)
    draws = boxed.sample(20_000, np.random.default_rng(2))
    assert np.max(np.abs(draws)) < BOUND
    share = np.mean(np.all(draws > 0.0, axis=1))
    expected = np.sum(np.exp(boxed.log_density(grid[np.all(grid > 0.0, axis=1)]))) * cell
    # four standard errors of a share, and the error of the sum
    assert abs(share - expected) < 4.0 * np.sqrt(0.25 / len(draws)) + 1e-3


def test_a_uniform_density_in_the_box_is_a_standard_normal_one_outside() -> None:
    points = np.random.default_rng(3).uniform(-BOUND, BOUND, (50, 3))
    normal = GaussianMixture(np.zeros(1), np.zeros((1, 3)), np.eye(3)[None])
    expected = np.full(50, -3.0 * np.log(2.0 * BOUND))
    np.testing.assert_allclose(BoxedMixture(normal).log_density(points), expected, rtol=1e-9)
    np.testing.assert_allclose(
        networks.from_unbounded(networks.to_unbounded(points)), points, rtol=1e-9
    )
    step = 1e-6  # central differences: an error of step^2, and rounding of 1e-16 / step
    rise = (networks.to_unbounded(points + step) - networks.to_unbounded(points - step)) / (
        2.0 * step
    )
    np.testing.assert_allclose(
        networks.log_slope(points), np.log(rise).sum(axis=1), rtol=1e-6, atol=1e-6
    )
    assert np.isfinite(networks.to_unbounded(np.array([-BOUND, BOUND]))).all()


@pytest.mark.parametrize('hidden', [(), (4,), (5, 3)])
def test_the_gradient_is_the_derivative_of_the_loss(hidden: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    network = networks.make(TrainingConfig(components=3, hidden=hidden), 4, 2, rng)
    inputs, targets = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    _, gradient = networks.loss_and_gradient(network, inputs, targets)
    step = 1e-6
    for layer, slopes in zip(network.layers, gradient, strict=True):
        for part, slope in zip(layer, slopes, strict=True):
            index = np.unravel_index(np.argmax(np.abs(slope)), slope.shape)
            losses = []
            for sign in (1.0, -1.0):
                part[index] += sign * step
                losses.append(networks.loss_and_gradient(network, inputs, targets)[0])
                part[index] -= sign * step
            # central differences: an error of step^2, and rounding of 1e-16 / step
            assert (losses[0] - losses[1]) / (2.0 * step) == pytest.approx(slope[index], rel=1e-6)


def test_the_loss_is_the_mean_log_density_of_the_mixtures() -> None:
    rng = np.random.default_rng(4)
    network: Network = networks.make(TrainingConfig(components=2), 3, 2, rng)
    inputs, targets = rng.standard_normal((5, 3)), rng.standard_normal((5, 2))
    each = [
        network.mixture(x).log_density(theta[None])[0]
        for x, theta in zip(inputs, targets, strict=True)
    ]
    loss, _ = networks.loss_and_gradient(network, inputs, targets)
    assert loss == pytest.approx(-np.mean(each), rel=1e-12)


def test_features_of_a_kernel_multiply_to_it() -> None:
    rng = np.random.default_rng(5)
    points, count = rng.standard_normal((10, 3)), 20_000
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    root = np.sqrt(5.0) * apart
    kernels = {
        'rbf': np.exp(-0.5 * apart**2),
        'matern': (1.0 + root + root**2 / 3.0) * np.exp(-root),  # of smoothness 5/2
    }
    for name, expected in kernels.items():
        made = posterior.fourier_features(points, posterior.KERNELS[name](3, count, rng))
        # the mean of `count` cosines of variance at most 1/2: five standard errors
        assert np.max(np.abs(made @ made.T - expected)) < 5.0 * np.sqrt(0.5 / count)


def test_a_summary_unlike_all_simulations_is_recognized() -> None:
    rng = np.random.default_rng(7)
    theta = rng.uniform(-BOUND, BOUND, (1000, 1))
    summaries = np.concatenate([theta, 2.0 * theta, np.ones_like(theta)], axis=1)
    summaries[:, :2] += 0.1 * rng.standard_normal((1000, 2))
    learned = posterior.learn(posterior.NETWORK, TrainingConfig(epochs=2), summaries, theta, rng)
    _, alike = posterior.novelty(learned, summaries, np.array([0.3, 0.6, 1.0]))
    distance, unlike = posterior.novelty(learned, summaries, np.array([1.0, -2.0, 1.0]))
    assert alike > 0.02 and unlike == 0.0 and distance > 10.0
    assert learned.map.used.tolist() == [True, True, False]
