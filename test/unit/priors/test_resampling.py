"""Systematic resampling: unbiased, never off by one, never a particle of weight zero."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
import numpy as np
import pytest

from emppi_ros.priors.resampling import match_moments, systematic

JUST_BELOW_ONE = np.nextafter(1.0, 0.0)
OFFSETS = st.one_of(st.sampled_from([0.0, JUST_BELOW_ONE, 0.5, 1e-300]), st.floats(0.0, 0.999))
WEIGHTS = arrays(
    np.float64,
    st.integers(1, 30),
    elements=st.one_of(st.just(0.0), st.floats(1e-6, 1.0), st.just(5e-324)),
).filter(lambda w: w.sum() > 1e-7)


@given(WEIGHTS, st.integers(1, 50), OFFSETS)
def test_a_weight_of_zero_is_never_drawn(weights, count, offset):
    chosen = systematic(weights, count, offset)
    assert len(chosen) == count
    assert np.all(weights[chosen] > 0.0)


@given(WEIGHTS, st.integers(1, 50), OFFSETS)
def test_counts_are_less_than_one_off(weights, count, offset):
    counts = np.bincount(systematic(weights, count, offset), minlength=len(weights))
    # a comb tooth may sit on a boundary that is rounded by 30 * 2^-53
    assert np.all(np.abs(counts - count * weights / weights.sum()) < 1.0 + 1e-12)


@given(WEIGHTS, st.integers(1, 50), OFFSETS)
def test_indices_are_in_order(weights, count, offset):
    assert np.all(np.diff(systematic(weights, count, offset)) >= 0)


@pytest.mark.parametrize('offset', [0.0, JUST_BELOW_ONE])
@pytest.mark.parametrize(
    'weights',
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.3, 0.7, 0.0], [0.1] * 10 + [0.0], [1.0, 1e-320, 0.0]],
    ids=str,
)
def test_corner_offsets_stay_on_particles_with_weight(weights, offset):
    # ten times 0.1 adds up to less than one, and zeros stand at both ends
    weights = np.array(weights)
    assert np.all(weights[systematic(weights, 7, offset)] > 0.0)


def test_equal_weights_choose_everybody_once():
    for offset in (0.0, 0.5, 0.999):
        # 1/8 is exact, so that no boundary is rounded
        assert systematic(np.full(8, 0.125), 8, offset).tolist() == list(range(8))


def test_draws_are_unbiased(rng):
    weights = rng.dirichlet(np.full(12, 0.7))
    count, repeats = 20, 4000
    total = np.zeros(12)
    for _ in range(repeats):
        total += np.bincount(systematic(weights, count, rng.random()), minlength=12)
    expected = count * weights
    # one count is floor or ceil of count * w: a Bernoulli variable around it, variance f (1 - f)
    share = expected % 1.0
    sigma = np.sqrt(share * (1.0 - share) / repeats)
    assert np.all(np.abs(total / repeats - expected) < 4.0 * sigma + 1e-9)


@pytest.mark.parametrize('dimension', [1, 3])
def test_moments_of_drawn_particles_are_exact(rng, dimension):
    root = rng.standard_normal((dimension, dimension)) + 2.0 * np.eye(dimension)
    mean, covariance = rng.standard_normal(dimension), root @ root.T
    z = mean + rng.standard_normal((60, dimension)) @ root.T
    matched = match_moments(z, mean, covariance)
    np.testing.assert_allclose(matched.mean(axis=0), mean, atol=1e-10)
    found = np.cov(matched.T, bias=True).reshape(dimension, dimension)
    np.testing.assert_allclose(found, covariance, rtol=1e-9, atol=1e-9)
    # exact moments need no further change
    np.testing.assert_allclose(match_moments(matched, mean, covariance), matched, atol=1e-9)


def test_particles_that_lost_a_mode_are_not_stretched(rng):
    """One of two modes was not drawn: a map to the mean of both would be in neither."""
    modes = np.where(np.arange(64) < 62, -1.0, 9.0)[:, None] + 0.1 * rng.standard_normal((64, 1))
    left = modes[rng.integers(62, size=64)]
    mean, covariance = modes.mean(axis=0), np.cov(modes.T, bias=True).reshape(1, 1)
    np.testing.assert_array_equal(match_moments(left, mean, covariance), left)


def test_particles_that_are_all_the_same_stay():
    z = np.ones((10, 2))
    np.testing.assert_array_equal(match_moments(z, np.ones(2), np.zeros((2, 2))), z)
