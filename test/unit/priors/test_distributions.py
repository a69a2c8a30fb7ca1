"""Priors stay within bounds and follow their distribution; transforms invert each other."""

import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import scipy.stats

from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import distributions
from emppi_ros.priors.distributions import Prior, to_bounded, to_unbounded

FREE = Parameter('free', 'body_ipos', 'b')
ABOVE = Parameter('above', 'body_mass', 'b', lower=0.2)
BELOW = Parameter('below', 'body_ipos', 'b', upper=3.0)
BOTH = Parameter('both', 'geom_friction', 'g', lower=0.1, upper=1.5)
PARAMETERS = (FREE, ABOVE, BELOW, BOTH)
DRAWS = 4000


def _truncated(dist, parameter):
    """Return the cumulative distribution of `dist` given that it is within bounds."""
    low, high = dist.cdf(parameter.lower), dist.cdf(parameter.upper)
    return lambda x: (dist.cdf(x) - low) / (high - low)


CASES = [
    (Prior('normal', mean=0.3, sd=0.4), scipy.stats.norm(0.3, 0.4)),
    (Prior('lognormal', mean=0.5, sd=0.8), scipy.stats.lognorm(s=0.8, scale=0.5)),
    (Prior('uniform', lower=0.0, upper=2.0), scipy.stats.uniform(0.0, 2.0)),
]


@pytest.mark.parametrize('parameter', PARAMETERS, ids=lambda p: p.name)
@pytest.mark.parametrize(('distribution', 'expected'), CASES, ids=['normal', 'log', 'uniform'])
def test_draws_follow_the_truncated_distribution(distribution, expected, parameter, rng):
    draws = distribution.sample(parameter, DRAWS, rng)
    assert draws.shape == (DRAWS,)
    assert np.all((draws > parameter.lower) & (draws < parameter.upper))
    # twelve comparisons with a fixed seed; by chance one in 1e4 would fail
    assert scipy.stats.kstest(draws, _truncated(expected, parameter)).pvalue > 1e-4


@pytest.mark.filterwarnings('error')
def test_a_prior_as_wide_as_numbers_go_has_no_mass_within_bounds(rng):
    wide = Prior('lognormal', mean=0.3, sd=7e299)  # draws are 0 or infinite
    bounded = Parameter('damping', 'dof_damping', 'joint', 0.01, 5.0)
    with pytest.raises(ConfigError, match=r"'damping': its prior has almost no probability"):
        wide.sample(bounded, 100, rng)


def test_a_fixed_value_is_always_drawn_and_must_lie_within_bounds(rng):
    assert Prior('fixed', value=0.4).sample(BOTH, 3, rng).tolist() == [0.4] * 3
    with pytest.raises(ConfigError, match='almost no probability'):
        Prior('fixed', value=BOTH.upper + 1.0).sample(BOTH, 3, rng)
    with pytest.raises(ConfigError, match='value: a fixed prior needs this key'):
        Prior('fixed')
    with pytest.raises(ConfigError, match='value: a normal prior has no such key'):
        Prior('normal', mean=0.0, sd=1.0, value=2.0)


def test_parameters_are_drawn_independently_and_repeatably():
    priors = (CASES[0][0], CASES[1][0], CASES[2][0], CASES[2][0])
    draws = distributions.sample(PARAMETERS, priors, DRAWS, np.random.default_rng(5))
    again = distributions.sample(PARAMETERS, priors, DRAWS, np.random.default_rng(5))
    assert draws.tobytes() == again.tobytes() and draws.shape == (DRAWS, 4)
    off_diagonal = np.corrcoef(draws.T)[np.triu_indices(4, 1)]
    # a correlation of independent draws has a standard deviation of 1 / sqrt(n)
    assert np.all(np.abs(off_diagonal) < 4.0 / math.sqrt(DRAWS))


def test_no_parameters_give_rows_without_columns(rng):
    assert distributions.sample((), (), 5, rng).shape == (5, 0)


def test_a_prior_without_mass_within_bounds_is_an_error_that_names_the_parameter(rng):
    with pytest.raises(ConfigError, match=r"parameter 'both': .*probability within \[0.1, 1.5\]"):
        Prior('uniform', lower=2.0, upper=3.0).sample(BOTH, 10, rng)


@pytest.mark.parametrize(
    ('keys', 'match'),
    [
        ({'distribution': 'normal', 'mean': 1.0}, 'sd: a normal prior needs this key'),
        ({'distribution': 'normal', 'sd': 1.0}, 'mean: a normal prior needs this key'),
        ({'distribution': 'uniform', 'lower': 1.0}, 'upper: a uniform prior needs this key'),
        (
            {'distribution': 'uniform', 'lower': 0.0, 'upper': 1.0, 'mean': 0.5},
            r'mean: a uniform prior has no such key \(its keys: lower, upper\)',
        ),
        (
            {'distribution': 'lognormal', 'mean': 1.0, 'sd': 1.0, 'lower': 0.0},
            'lower: a lognormal prior has no such key',
        ),
        ({'distribution': 'uniform', 'lower': 1.0, 'upper': 1.0}, 'lower: found 1.0, which is no'),
        ({'distribution': 'normal', 'mean': 1.0, 'sd': 0.0}, 'sd: found 0.0'),
        ({'distribution': 'lognormal', 'mean': 0.0, 'sd': 1.0}, 'mean: found 0.0; a lognormal'),
    ],
    ids=str,
)
def test_keys_that_contradict_one_another_are_errors(keys, match):
    with pytest.raises(ConfigError, match=match):
        Prior(**keys)


@given(st.lists(st.floats(-15.0, 15.0), min_size=4, max_size=4))
def test_to_bounded_and_to_unbounded_invert_each_other(z):
    z = np.array([z])
    theta = to_bounded(PARAMETERS, z)
    # exp(15) leaves 3e-7 of a bounded width, whose last digits weigh 2^-53 / 3e-7 = 4e-10
    np.testing.assert_allclose(to_unbounded(PARAMETERS, theta), z, rtol=0, atol=1e-8)


@given(st.floats(-700.0, 700.0))  # beyond, exp itself overflows
def test_however_far_a_particle_wanders_it_stays_strictly_within_bounds(z):
    theta = to_bounded(PARAMETERS, np.full((1, 4), z))
    for value, p in zip(theta[0], PARAMETERS, strict=True):
        assert p.lower < value < p.upper, p.name
    assert np.isfinite(to_unbounded(PARAMETERS, theta)).all()


def test_transforms_leave_their_input_alone_and_the_free_parameter_as_it_is():
    z = np.zeros((2, 4))
    theta = to_bounded(PARAMETERS, z)
    assert not z.any()
    assert theta[0, 0] == 0.0 and theta[0, 1] == pytest.approx(1.2)
    assert theta[0, 2] == pytest.approx(2.0) and theta[0, 3] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ('given', 'dist'),
    [
        (Prior('normal', mean=0.6, sd=0.3), scipy.stats.norm(0.6, 0.3)),
        (Prior('lognormal', mean=0.6, sd=0.5), scipy.stats.lognorm(0.5, scale=0.6)),
        (Prior('uniform', lower=0.3, upper=1.2), scipy.stats.uniform(0.3, 0.9)),
    ],
)
def test_log_densities_are_those_of_scipy_within_bounds(given, dist):
    values = np.array([0.05, 0.2, 0.4, 0.8, 1.1, 1.3, 1.6])
    found = given.log_density(BOTH, values)
    inside = (values > BOTH.lower) & (values < BOTH.upper)
    expected = np.where(inside, dist.logpdf(values), -np.inf)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))
    there = np.isfinite(found)
    # up to a constant; rounding of a few operations
    np.testing.assert_allclose(np.diff(found[there]), np.diff(expected[there]), atol=1e-12)


def test_what_is_certain_has_density_at_its_value_alone():
    found = Prior('fixed', value=0.4).log_density(BOTH, np.array([0.4, 0.5]))
    assert found.tolist() == [0.0, -np.inf]
    theta = np.array([[0.4, 0.6], [0.4, 5.0]])
    both = distributions.log_density(
        (BOTH, BOTH), (Prior('fixed', value=0.4), Prior('uniform', lower=0.3, upper=1.2)), theta
    )
    assert both.tolist() == [0.0, -np.inf]
