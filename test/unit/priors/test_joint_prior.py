"""A joint prior: particles as often as they weigh, all else from priors of its own."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import scipy.stats

from emppi_ros.core import weights
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import distributions
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief, uniform

BOUNDED = Parameter('friction', 'geom_friction', 'g', lower=0.1, upper=1.5)
PARAMETERS = (
    Parameter('mass', 'body_mass', 'b', lower=0.0),
    BOUNDED,
    Parameter('offset', 'body_ipos', 'b'),
)
OWN = (Prior('normal', mean=1.0, sd=0.2), Prior('fixed', value=0.4), Prior('fixed', value=7.0))
COUNT = 1000


@pytest.fixture
def drawn(rng):
    """Return particles of mass and offset, which hang together, with unlike weights."""
    mass = rng.uniform(0.5, 1.5, 30)
    values = np.stack([2.0 - mass, mass], axis=1)
    raw = rng.exponential(size=30)
    return JointPrior(PARAMETERS, OWN, (2, 0), values, raw / raw.sum())


def test_without_particles_it_draws_what_independent_priors_draw():
    first = JointPrior(PARAMETERS, OWN).sample(50, np.random.default_rng(1))
    again = distributions.sample(PARAMETERS, OWN, 50, np.random.default_rng(1))
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize(
    ('own', 'expected'),
    [
        (Prior('normal', mean=0.3, sd=0.4), scipy.stats.norm(0.3, 0.4)),
        (Prior('lognormal', mean=0.5, sd=0.8), scipy.stats.lognorm(s=0.8, scale=0.5)),
        (Prior('uniform', lower=0.0, upper=2.0), scipy.stats.uniform(0.0, 2.0)),
    ],
    ids=['normal', 'log', 'uniform'],
)
def test_mean_and_range_are_those_of_the_truncated_distribution(own, expected):
    found = JointPrior((BOUNDED,), (own,))
    low, high = expected.cdf([BOUNDED.lower, BOUNDED.upper])
    inside = expected.expect(lambda x: x, lb=BOUNDED.lower, ub=BOUNDED.upper) / (high - low)
    # 10 000 draws of a distribution within bounds: five standard errors of its largest sd
    assert found.mean()[0] == pytest.approx(inside, abs=5 * 0.5 * 1.4 / 100)
    outside = [expected.cdf(x) for x in found.range[:, 0]]
    # a thousandth at either end; of 10 000 draws 10 lie there, give or take 4 sd of sqrt(10)
    np.testing.assert_allclose(
        (np.array(outside) - low) / (high - low), [0.001, 0.999], atol=4 * 3.2e-4
    )


def test_every_draw_is_a_particle_of_the_file_as_often_as_it_weighs(drawn, rng):
    theta = drawn.sample(COUNT, rng)
    rows, counts = np.unique(theta[:, [2, 0]], axis=0, return_counts=True)
    found = {tuple(row): count for row, count in zip(rows, counts, strict=True)}
    for row, weight in zip(drawn.values, drawn.weights, strict=True):
        # systematic resampling is never more than one off
        assert abs(found.pop(tuple(row), 0) - COUNT * weight) <= 1.0
    assert not found and np.all(theta[:, 1] == 0.4)


def test_moments_of_the_draws_are_those_of_the_particles(drawn, rng):
    theta = drawn.sample(COUNT, rng)[:, [2, 0]]
    log_weights = np.log(drawn.weights)
    # each of 30 particles is at most one draw in 1000 off, of values that differ by less than 1
    bound = 30 / COUNT
    mean = weights.mean(log_weights, drawn.values)
    np.testing.assert_allclose(theta.mean(axis=0), mean, atol=bound)
    np.testing.assert_allclose(drawn.mean()[[2, 0]], mean, atol=bound)
    covariance = weights.covariance(log_weights, drawn.values)
    np.testing.assert_allclose(np.cov(theta.T), covariance, atol=2 * bound)


def test_what_hangs_together_stays_together(drawn, rng):
    theta = drawn.sample(COUNT, rng)
    # the very numbers of the particles: no rounding
    assert np.all(theta[:, 2] == 2.0 - theta[:, 0])


def test_a_particle_without_weight_is_never_drawn(drawn, rng):
    some = drawn.weights.copy()
    some[::2] = 0.0
    found = JointPrior(PARAMETERS, OWN, (2, 0), drawn.values, some / some.sum())
    assert not np.isin(found.sample(COUNT, rng)[:, 0], drawn.values[::2, 1]).any()


NORMAL = JointPrior((Parameter('m', 'body_ipos', 'b'),), (Prior('normal', mean=3.0, sd=0.5),))


@given(shift=st.floats(-4.0, 4.0))
def test_the_distance_of_a_shifted_prior_is_the_shift(shift):
    theta = scipy.stats.norm.ppf((np.arange(500) + 0.5) / 500, 3.0 + 0.5 * shift, 0.5)
    # 10 000 draws: their mean and quantiles err by a few hundredths of the sd at the ends
    found = NORMAL.distance(uniform(theta[:, None]))
    assert found[0] == pytest.approx(abs(shift), abs=0.03)


def test_the_distance_of_a_certain_belief_is_the_mean_distance_to_the_prior():
    for value in (0.0, 3.0, 5.0):
        expected = np.abs(NORMAL.draws - value).mean() / NORMAL.draws.std()
        found = NORMAL.distance(uniform(np.full((7, 1), value)))
        assert found[0] == pytest.approx(expected, abs=2e-3)  # 500 quantiles for 10 000 draws


def test_weights_count_in_the_distance_like_copies(rng):
    theta, counts = rng.normal(3.0, 1.0, (4, 1)), np.array([1, 5, 2, 8])
    weighted = Belief(theta, np.log(counts / counts.sum()))
    copies = uniform(np.repeat(theta, counts, axis=0))
    np.testing.assert_allclose(NORMAL.distance(weighted), NORMAL.distance(copies), rtol=1e-12)


def test_a_certain_prior_is_at_no_distance_or_at_any():
    prior = JointPrior(NORMAL.parameters, (Prior('fixed', value=2.0),))
    assert prior.distance(uniform(np.full((3, 1), 2.0))) == 0.0
    assert prior.distance(uniform(np.full((3, 1), 2.1))) == np.inf


def test_the_tail_is_the_share_of_the_prior_beyond():
    for deviations in (-2.0, -1.0, 0.5, 2.0):
        found = NORMAL.tail_probability(np.array([3.0 + 0.5 * deviations]))[0]
        expected = scipy.stats.norm.sf(abs(deviations))
        # a share of 10 000 draws errs by half a percent at most; three of these
        assert found == pytest.approx(expected, abs=0.015)
    assert (
        NORMAL.tail_probability(np.array([100.0]))
        == NORMAL.tail_probability(np.array([-100.0]))
        == 0.0
    )


def test_what_comes_together_is_correlated_and_what_is_certain_is_not(rng):
    names = ('a', 'b', 'c', 'd')
    parameters = tuple(Parameter(name, 'body_ipos', 'b') for name in names)
    values = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 4.0]], 5000)
    priors = (Prior('fixed', value=1.0), *(Prior('normal', mean=0.0, sd=3.0),) * 3)
    prior = JointPrior(parameters, priors, (1, 2), values, np.full(5000, 1.0 / 5000))
    # 5000 and 10 000 draws err by a few percent of an sd at most
    np.testing.assert_allclose(prior.spread, [0.0, 1.0, 2.0, 3.0], atol=0.1)
    expected = np.eye(4)
    expected[1, 2] = expected[2, 1] = 0.4
    np.testing.assert_allclose(prior.correlation, expected, atol=0.06)
