"""Stein's direction is its definition, and leads to the density."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from emppi_ros.identification.csvgd import csvgd


def svgd_direction(x, score, bandwidth=None):
    """Return the direction (N, D) of Liu and Wang (2016, eq. 8) for particles x (N, D)."""
    kernel, repulsion = csvgd.rbf_kernel(x, bandwidth or csvgd.median_bandwidth(x))
    return (kernel @ score + repulsion) / len(x)


def test_the_direction_is_its_definition_pair_by_pair():
    rng = np.random.default_rng(0)
    x, score = rng.standard_normal((2, 6, 3))
    h = 1.7
    expected = np.zeros_like(x)
    for i in range(6):
        for j in range(6):
            k = np.exp(-np.sum((x[j] - x[i]) ** 2) / h)
            expected[i] += (k * score[j] - 2.0 / h * (x[j] - x[i]) * k) / 6
    # rounding of a few dozen sums
    np.testing.assert_allclose(svgd_direction(x, score, h), expected, atol=1e-13)


def test_the_bandwidth_makes_the_sum_over_a_typical_row_about_one():
    x = np.random.default_rng(1).standard_normal((50, 4))
    apart = cdist(x, x, 'sqeuclidean')[np.triu_indices(50, 1)]
    # so Liu and Wang (2016) derive it: n exp(-median / h) = 1
    median = np.exp(-np.median(apart) / csvgd.median_bandwidth(x))
    assert 50 * median == pytest.approx(1.0, rel=1e-9)
    assert csvgd.median_bandwidth(np.zeros((5, 2))) > 0.0  # all in one place
    assert csvgd.median_bandwidth(np.zeros((1, 2))) == 1.0  # alone


def test_particles_spread_as_the_gaussian_that_they_climb():
    mean, variance = np.array([1.0, -2.0]), np.array([0.5, 2.0])
    x = np.random.default_rng(2).standard_normal((80, 2))
    for _ in range(1500):
        x = x + 0.3 * svgd_direction(x, -(x - mean) / variance)
    # means are exact for a Gaussian at rest; variances of 80 particles are short by a tenth or so
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(x.var(axis=0), variance, rtol=0.2)


def test_a_particle_alone_climbs_the_slope():
    score = np.array([[3.0, -1.0]])
    np.testing.assert_array_equal(svgd_direction(np.zeros((1, 2)), score), score)
