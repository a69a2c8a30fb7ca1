"""Laws of log-weight arithmetic."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
import numpy as np
import pytest

from emppi_ros.core import weights
from emppi_ros.core.errors import DegenerateWeightsError

LOGS = arrays(np.float64, st.integers(1, 40), elements=st.floats(-800.0, 800.0))
# sums of n <= 40 rounded exponentials: n * 2^-53 and the rounding of log and exp, with slack
SUM = 1e-13


@given(LOGS)
def test_normalized_weights_sum_to_one(log_weights):
    assert abs(np.exp(weights.normalize(log_weights)).sum() - 1.0) < SUM


@given(LOGS, st.floats(-1e3, 1e3))
def test_normalize_is_shift_invariant(log_weights, shift):
    # adding the shift rounds each entry by at most 2^-53 * 1800; three such roundings meet
    np.testing.assert_allclose(
        weights.normalize(log_weights + shift), weights.normalize(log_weights), rtol=0, atol=1e-12
    )


@given(LOGS)
def test_normalize_keeps_differences(log_weights):
    # a difference of numbers up to 1600 is rounded to 2^-53 * 1600 twice
    np.testing.assert_allclose(
        np.diff(weights.normalize(log_weights)), np.diff(log_weights), rtol=0, atol=1e-12
    )


def test_normalize_works_along_one_axis(rng):
    log_weights = rng.normal(0.0, 5.0, (4, 3, 7))
    summed = np.exp(weights.normalize(log_weights, axis=(0, 1))).sum(axis=(0, 1))
    np.testing.assert_allclose(summed, np.ones(7), rtol=0, atol=SUM)


def test_extreme_log_weights_do_not_underflow():
    log_w = weights.normalize(np.array([-1e6, -1e6 - 1.0, -2e6]))
    expected = np.array([-np.log1p(np.exp(-1.0)), -1.0 - np.log1p(np.exp(-1.0)), -1e6])
    expected[2] += expected[0]
    # numbers near 1e6 carry 2^-33 of rounding: 1.2e-10
    np.testing.assert_allclose(log_w, expected, rtol=1e-9)
    assert weights.effective_sample_size(np.full(5, -1e6)) == pytest.approx(5.0, rel=1e-9)


@pytest.mark.parametrize(
    'log_weights',
    [[-np.inf], [-np.inf, -np.inf], [np.nan, 0.0], [0.0, np.nan], [np.inf, 0.0]],
    ids=str,
)
@pytest.mark.parametrize(
    'function', [weights.normalize, weights.effective_sample_size, weights.entropy]
)
def test_sets_without_meaning_are_errors(function, log_weights):
    with pytest.raises(DegenerateWeightsError, match='finite maximum'):
        function(np.array(log_weights))


def test_one_empty_column_is_an_error_even_beside_good_ones():
    log_weights = np.array([[0.0, -np.inf], [0.0, -np.inf]])
    with pytest.raises(DegenerateWeightsError):
        weights.normalize(log_weights, axis=0)


def test_minus_infinity_means_weight_zero():
    assert np.exp(weights.normalize(np.array([-np.inf, 0.0, 0.0]))).tolist() == [0.0, 0.5, 0.5]


@pytest.mark.parametrize('count', [1, 2, 7, 1000])
def test_sample_size_and_entropy_of_uniform_and_one_hot_weights(count):
    uniform = np.zeros(count)
    one_hot = np.full(count, -np.inf)
    one_hot[count // 2] = -3.0
    # the log of a sum of `count` equal terms is off by its own rounding: 1e-12 is 100 times that
    assert weights.effective_sample_size(uniform) == pytest.approx(count, rel=1e-12)
    assert weights.entropy(uniform) == pytest.approx(np.log(count), abs=1e-12)
    assert weights.effective_sample_size(one_hot) == 1.0
    assert weights.entropy(one_hot) == 0.0


@given(LOGS)
def test_sample_size_is_between_one_and_all(log_weights):
    ess = weights.effective_sample_size(log_weights)
    assert 1.0 - 1e-12 <= ess <= len(log_weights) * (1.0 + 1e-12)  # rounding as above


@given(LOGS)
def test_entropy_is_that_of_the_definition(log_weights):
    w = np.exp(log_weights - log_weights.max())
    w /= w.sum()
    direct = -sum(x * np.log(x) for x in w if x > 0.0)
    assert weights.entropy(log_weights) == pytest.approx(direct, abs=1e-12)  # log 40 < 4


def test_mean_and_covariance_are_those_of_numpy(rng):
    log_w, values = rng.normal(0.0, 2.0, 30), rng.normal(3.0, 2.0, (30, 4))
    w = np.exp(log_w)
    # 30 terms of size 10: 1e-12 leaves a factor of 100 over rounding
    np.testing.assert_allclose(
        weights.mean(log_w, values), np.average(values, axis=0, weights=w), atol=1e-12
    )
    np.testing.assert_allclose(
        weights.covariance(log_w, values), np.cov(values.T, aweights=w, ddof=0), atol=1e-12
    )


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.26, 0.49, 0.51, 0.77, 0.97]),
)
def test_quantile_is_that_of_a_sorted_repetition(counts, probability):
    rng = np.random.default_rng(len(counts))
    values = rng.normal(size=(len(counts), 2))
    total = sum(counts)
    if abs(probability * total - round(probability * total)) < 1e-6:
        return  # on a step of the distribution, rounding decides: either neighbour is right
    repeated = np.sort(np.repeat(values, counts, axis=0), axis=0)
    expected = repeated[int(np.ceil(probability * total)) - 1]
    assert weights.quantile(np.log(counts), values, probability).tolist() == expected.tolist()
