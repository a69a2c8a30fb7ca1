"""Draws of bodies: from distributions that are known, and never of bodies that cannot be."""

import numpy as np
import pytest

from emppi_ros.bench.identify import rigid_body_methods
from emppi_ros.identify.rigid_body import bodies, posterior
from emppi_ros.identify.rigid_body.bodies import Everyday

COUNT = 2000


def _draw(information, score, everyday, rng, known=None):
    known = known or bodies.nothing(everyday, len(score) // 11)
    return posterior.draw(information, score, everyday, known, COUNT, rng)


def test_draws_are_normal_ones_less_those_that_cannot_be(rng):
    """The same distribution by rejection, about a body whose prior counts 8 observations."""
    everyday = Everyday(weight=8.0)
    found = _draw(np.zeros((11, 11)), np.zeros(11), everyday, rng)
    mode = everyday.parameters()
    covariance = np.linalg.inv(everyday.weight * bodies.slopes(mode)[1])
    tried = rng.multivariate_normal(mode, covariance, 20_000, method='cholesky')
    kept = tried[[rigid_body_methods.possible(row).all() for row in tried]]
    assert 1000 < len(kept) < 19_000
    sd = kept.std(axis=0)
    # 2000 draws: means to 0.022 sd, sd to 1.6 %, and those kept a little better: five of these
    np.testing.assert_allclose((found.mean(axis=0) - kept.mean(axis=0)) / sd, 0.0, atol=0.16)
    np.testing.assert_allclose(found.std(axis=0) / sd, 1.0, atol=0.12)


def test_with_many_data_draws_are_normal(rng):
    x = rng.standard_normal((60, 11))
    true, information = Everyday(3.0, 0.2).parameters(), 1e6 * x.T @ x
    found = _draw(information, information @ true, Everyday(), rng)
    root = np.linalg.cholesky(information)
    white = (found - true) @ root
    # 2000 draws: means to 0.022, variances to 0.032; five of these
    np.testing.assert_allclose(white.mean(axis=0), 0.0, atol=0.12)
    np.testing.assert_allclose(white.var(axis=0), 1.0, atol=0.16)


def test_draws_are_possible_and_keep_what_is_known(rng):
    x = rng.standard_normal((8, 22))
    information = x.T @ x
    like = np.tile(Everyday().parameters(), 2)
    free = np.arange(22) >= 10  # of the first body only friction
    known = bodies.Known(like, 0.1 * like, free)
    score = 10.0 * information @ rng.standard_normal(22)
    found = _draw(information, score, Everyday(), rng, known)
    assert np.all(found[:, ~free] == 1.1 * like[~free])
    assert np.all(found[:, free].std(axis=0) > 0.0)
    for row in found[::50]:
        assert rigid_body_methods.possible(row - known.fixed).all()


def test_what_is_known_spreads_as_it_should_beside_bodies_that_are_not(rng):
    count, sd = 5, 0.001
    information = np.zeros((11 * count, 11 * count))
    information[10, 10] = sd**-2.0  # the first joint's friction, and nothing else
    score = np.zeros(len(information))
    score[10] = 0.1 * sd**-2.0
    found = _draw(information, score, Everyday(weight=0.1), rng)
    # it hangs together with nothing; draws are not all independent: twice five times 1.6 %
    assert found[:, 10].std() == pytest.approx(sd, rel=0.16)
