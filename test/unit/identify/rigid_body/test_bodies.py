"""Bodies from a linear regression: possible ones always, the best ones where data say so."""

import numpy as np
import pytest

from emppi_ros.bench.identify import rigid_body_methods
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import bodies, consistency
from emppi_ros.identify.rigid_body.bodies import Everyday

WEAK = Everyday(weight=1e-9)


def _information(rng, count, rows):
    x = rng.standard_normal((rows, 11 * count))
    return x.T @ x


def test_without_data_a_body_is_an_everyday_one():
    of = Everyday(mass_kg=3.0, radius_m=0.2, friction=0.4)
    found = bodies.fit(np.zeros((22, 22)), np.zeros(22), of)
    np.testing.assert_allclose(found, np.tile(of.parameters(), 2), rtol=1e-6, atol=1e-9)


def test_bodies_that_can_be_are_found(rng):
    true = np.concatenate([Everyday(1.0, 0.3).parameters(), Everyday(5.0, 0.1, 2.0).parameters()])
    information = _information(rng, 2, 60)
    found = bodies.fit(information, information @ true, WEAK)
    # the prior of weight 1e-9 pulls by that over the information, some tens
    np.testing.assert_allclose(found, true, rtol=1e-6, atol=1e-8)


def test_whatever_the_data_say_bodies_are_possible(rng):
    for rows in (3, 10, 60):
        information = _information(rng, 2, rows)
        found = bodies.fit(information, 10.0 * information @ rng.standard_normal(22))
        assert rigid_body_methods.possible(found).all()
        for row in found.reshape(-1, 11):  # strictly
            assert np.linalg.eigvalsh(consistency.pseudo_inertia(row))[0] > 0.0 < row[10]


@pytest.mark.parametrize('scale', [1e6, 1e9, 1e12])
def test_data_of_nothing_that_can_be_end_inside_too(scale, rng):
    """With so little noise that the best body is as near the border as rounding goes."""
    for _ in range(10):
        information = scale * _information(rng, 2, 60)
        unit = 10.0 ** rng.uniform(-2.0, 1.0, 22)
        information *= np.outer(unit, unit)
        found = bodies.fit(information, information @ rng.standard_normal(22))
        assert np.isfinite(found).all() and rigid_body_methods.possible(found).all()


def test_a_weak_prior_is_a_projection(rng):
    """The same convex problem by two solvers: Newton inside, and squares of roots."""
    wanted, information = rng.standard_normal(11), _information(rng, 1, 30)
    near = consistency.project(wanted, information)
    found = bodies.fit(information, information @ wanted, WEAK)
    off = [float((b - wanted) @ information @ (b - wanted)) for b in (near, found)]
    # the prior costs its weight times 5 dimensions; the other solver ends at 1e-6 of a root
    assert off[1] == pytest.approx(off[0], rel=1e-6)
    np.testing.assert_allclose(found, near, atol=1e-4)


def test_more_weight_is_closer_to_everyday(rng):
    wanted, information = rng.standard_normal(11), _information(rng, 1, 30)
    everyday = Everyday().parameters()
    far = [
        np.linalg.norm(
            bodies.fit(information, information @ wanted, Everyday(weight=w)) - everyday
        )
        for w in (1e-3, 1.0, 1e3, 1e6)
    ]
    assert far == sorted(far, reverse=True) and far[-1] < 0.1 * far[0]


def test_what_does_not_fit_is_an_error():
    with pytest.raises(IdentificationError, match='12 parameters .* expected 11 for each body'):
        bodies.fit(np.eye(12), np.ones(12))
    with pytest.raises(IdentificationError, match='not finite'):
        bodies.fit(np.eye(11), np.full(11, np.nan))
