"""What has no effect keeps its prior, and what has one is not changed."""

import numpy as np
import pytest

from emppi_ros.belief import gauge_freedom
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.joint_prior import JointPrior

COUNT = 4000
AXIS, PIVOT = (0, 1, 2), (3, 4, 5)
PARAMETERS = [
    *(Parameter(f'a{i}', 'jnt_articulation', 'j', i, -9.0, 9.0) for i in range(3)),
    *(Parameter(f'p{i}', 'jnt_pos', 'j', i, -1.0, 1.0) for i in range(3)),
]
PRIORS = [
    Prior('normal', mean=1.0, sd=0.6),
    Prior('normal', mean=0.0, sd=0.6),
    Prior('normal', mean=0.0, sd=0.6),
    *[Prior('uniform', lower=-0.1, upper=0.2)] * 3,
]


@pytest.fixture(scope='module')
def prior():
    """Return the prior of a joint with an uncertain axis and pivot."""
    return JointPrior(PARAMETERS, PRIORS)


def _units(axes):
    return axes / np.linalg.norm(axes, axis=1)[:, None]


def _quantiles(values):
    return np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0)


def test_draws_from_the_prior_remain_draws_from_the_prior(prior, rng):
    theta = before = prior.sample(COUNT, rng)
    hinge = rng.random(COUNT) < 0.5
    for _ in range(5):
        theta = gauge_freedom.redraw_length(prior, AXIS, theta, rng)
        theta = gauge_freedom.redraw_pivot(prior, PIVOT, theta, _units(theta[:, :3]), hinge, rng)
    # five standard errors of a quantile: sqrt(q (1 - q) / n) over the density, which is 0.29 in
    # the tails of the normal distributions, and 3.3 of the uniform ones
    error = 5.0 * (0.09 / COUNT) ** 0.5 / 0.29
    np.testing.assert_allclose(_quantiles(theta[:, :3]), _quantiles(before[:, :3]), atol=error)
    np.testing.assert_allclose(
        _quantiles(theta[:, 3:]), _quantiles(before[:, 3:]), atol=5.0 * (0.25 / COUNT) ** 0.5 / 3.3
    )
    assert not np.any(theta == before)


def test_directions_and_lines_of_hinges_stay_as_they_are(prior, rng):
    before = prior.sample(COUNT, rng)
    theta = gauge_freedom.redraw_length(prior, AXIS, before, rng)
    units = _units(before[:, :3])
    np.testing.assert_allclose(_units(theta[:, :3]), units, atol=1e-12)
    moved = gauge_freedom.redraw_pivot(prior, PIVOT, before, units, np.ones(COUNT, bool), rng)
    shift = moved[:, 3:] - before[:, 3:]
    assert np.linalg.norm(shift, axis=1).mean() > 0.01
    np.testing.assert_allclose(np.cross(shift, units), 0.0, atol=1e-12)


def test_the_length_of_one_direction_has_its_conditional_density(prior, rng):
    direction = np.array([0.8, 0.6, 0.0])
    theta = np.tile(np.r_[direction, 0.05, 0.05, 0.05], (COUNT, 1))
    drawn = gauge_freedom.redraw_length(prior, AXIS, theta, rng)
    lengths = np.linalg.norm(drawn[:, :3], axis=1)
    r = np.linspace(1e-4, 6.0, 20_000)
    density = r**2 * np.exp(-0.5 * ((r * 0.8 - 1.0) ** 2 + (r * 0.6) ** 2) / 0.36)
    cumulative = np.cumsum(density) / density.sum()
    expected = np.interp([0.1, 0.5, 0.9], cumulative, r)
    # five standard errors at the density of the tails; the grid is finer
    error = 5.0 * (0.09 / COUNT) ** 0.5 / 0.35
    np.testing.assert_allclose(np.quantile(lengths, [0.1, 0.5, 0.9]), expected, atol=error)


def test_axes_and_pivots_that_the_prior_excludes_stay(prior, rng):
    theta = np.tile(np.array([0.0, 0.0, 0.0, 0.9, 0.9, 0.9]), (9, 1))
    x = np.tile([1.0, 0.0, 0.0], (9, 1))  # this line passes by the range of the prior
    assert np.array_equal(gauge_freedom.redraw_length(prior, AXIS, theta, rng), theta)
    kept = gauge_freedom.redraw_pivot(prior, PIVOT, theta, x, np.ones(9, bool), rng)
    assert np.array_equal(kept, theta)


def test_only_three_uncertain_and_independent_elements_are_free(prior):
    assert gauge_freedom.is_free(prior, AXIS)
    assert not gauge_freedom.is_free(prior, AXIS[:2])
    certain = [Prior('fixed', value=1.0), *PRIORS[1:]]
    assert not gauge_freedom.is_free(JointPrior(PARAMETERS, certain), AXIS)
    together = JointPrior(PARAMETERS, PRIORS, (0,), np.array([[1.0], [2.0]]), np.full(2, 0.5))
    assert not gauge_freedom.is_free(together, AXIS)
    assert gauge_freedom.is_free(together, PIVOT)
