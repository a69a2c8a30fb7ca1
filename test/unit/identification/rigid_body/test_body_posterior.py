"""Bodies from a linear regression: always physically consistent, and as the data determine."""

from free_bodies import fit_bodies, unconstrained
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import arm, body_posterior
from emppi_ros.identification.rigid_body.body_posterior import InertialPrior

WEAK = InertialPrior(weight=1e-9)
COUNT = 2000


def _information(rng, count, rows):
    x = rng.standard_normal((rows, 12 * count))
    return x.T @ x


def test_without_data_the_estimate_is_the_prior():
    of = InertialPrior(mass_kg=3.0, radius_m=0.2, friction=0.4, armature=0.2)
    found = fit_bodies(np.zeros((24, 24)), np.zeros(24), of)
    np.testing.assert_allclose(found, np.tile(of.parameters(), 2), rtol=1e-6, atol=1e-9)


def test_consistent_bodies_are_recovered(rng):
    true = np.concatenate(
        [InertialPrior(1.0, 0.3).parameters(), InertialPrior(5.0, 0.1, 2.0, 0.3).parameters()]
    )
    information = _information(rng, 2, 60)
    found = fit_bodies(information, information @ true, WEAK)
    # a prior of weight 1e-9 shifts the estimate by that over the information, about tens
    np.testing.assert_allclose(found, true, rtol=1e-6, atol=1e-8)


def test_estimates_are_physically_consistent_for_any_data(rng, are_consistent):
    for rows in (3, 10, 60):
        information = _information(rng, 2, rows)
        found = fit_bodies(information, 10.0 * information @ rng.standard_normal(24))
        assert are_consistent(found).all()
        for row in found.reshape(-1, 12):  # strictly
            assert np.linalg.eigvalsh(arm.pseudo_inertia(row))[0] > 0.0 < row[10]


@pytest.mark.parametrize('scale', [1e6, pytest.param(1e9, marks=pytest.mark.slow), 1e12])
def test_inconsistent_data_with_little_noise_give_consistent_estimates(scale, rng, are_consistent):
    """With so little noise that the best body is at the boundary up to rounding."""
    for _ in range(10):
        information = scale * _information(rng, 2, 60)
        unit = 10.0 ** rng.uniform(-2.0, 1.0, 24)
        information *= np.outer(unit, unit)
        found = fit_bodies(information, information @ rng.standard_normal(24))
        assert np.isfinite(found).all() and are_consistent(found).all()


def test_with_a_weak_prior_the_estimate_is_the_closest_consistent_body(rng):
    wanted, information = rng.standard_normal(12), _information(rng, 1, 30)
    found = fit_bodies(information, information @ wanted, WEAK)
    # bodies form a convex set, which lies on one side of the plane through the closest point
    pull = information @ (found - wanted)
    for _ in range(500):
        root = rng.standard_normal((4, 4))
        inertia = arm.from_pseudo_inertia(root @ root.T)
        other = rng.uniform(0.0, 10.0) * np.append(inertia, rng.random(2))
        away = other - found
        # the prior adds about its weight times the size of the other body
        assert away @ pull > -1e-5 * np.linalg.norm(pull) * np.linalg.norm(away)


def test_more_weight_moves_the_estimate_towards_the_prior(rng):
    wanted, information = rng.standard_normal(12), _information(rng, 1, 30)
    everyday = InertialPrior().parameters()
    far = [
        np.linalg.norm(
            fit_bodies(information, information @ wanted, InertialPrior(weight=w)) - everyday
        )
        for w in (1e-3, 1.0, 1e3, 1e6)
    ]
    assert far == sorted(far, reverse=True) and far[-1] < 0.1 * far[0]


def test_non_finite_values_are_errors():
    with pytest.raises(IdentificationError, match='not finite'):
        fit_bodies(np.eye(12), np.full(12, np.nan))


def _draw(information, score, everyday, rng, known=None):
    known = known or unconstrained(everyday, len(score) // 12)
    return body_posterior.sample_bodies(information, score, everyday, known, COUNT, rng)


@pytest.mark.slow
def test_draws_follow_the_normal_distribution_restricted_to_consistent_bodies(rng, are_consistent):
    """The same distribution by rejection, about a body whose prior counts 8 observations."""
    everyday = InertialPrior(weight=8.0)
    found = _draw(np.zeros((12, 12)), np.zeros(12), everyday, rng)
    mode = everyday.parameters()
    covariance = np.linalg.inv(everyday.weight * body_posterior.log_det_derivatives(mode)[1])
    tried = rng.multivariate_normal(mode, covariance, 20_000, method='cholesky')
    kept = tried[[are_consistent(row).all() for row in tried]]
    assert 1000 < len(kept) < 19_000
    sd = kept.std(axis=0)
    # 2000 draws: standard errors of 0.022 sd and 1.6 %, of those kept a little less; times five
    np.testing.assert_allclose((found.mean(axis=0) - kept.mean(axis=0)) / sd, 0.0, atol=0.16)
    np.testing.assert_allclose(found.std(axis=0) / sd, 1.0, atol=0.12)


def test_draws_are_normal_with_much_data(rng):
    x = rng.standard_normal((60, 12))
    true, information = InertialPrior(3.0, 0.2).parameters(), 1e6 * x.T @ x
    found = _draw(information, information @ true, InertialPrior(), rng)
    root = np.linalg.cholesky(information)
    white = (found - true) @ root
    # 2000 draws: standard errors of means 0.022, of variances 0.032; times five
    np.testing.assert_allclose(white.mean(axis=0), 0.0, atol=0.12)
    np.testing.assert_allclose(white.var(axis=0), 1.0, atol=0.16)


@pytest.mark.slow
def test_draws_are_consistent_and_keep_known_parameters(rng, are_consistent):
    x = rng.standard_normal((8, 24))
    information = x.T @ x
    like = np.tile(InertialPrior().parameters(), 2)
    free = np.arange(24) >= 10  # of the first body only friction and armature
    known = body_posterior.BodyConstraints(like, 0.1 * like, free)
    score = 10.0 * information @ rng.standard_normal(24)
    found = _draw(information, score, InertialPrior(), rng, known)
    assert np.all(found[:, ~free] == 1.1 * like[~free])
    assert np.all(found[:, free].std(axis=0) > 0.0)
    for row in found[::50]:
        assert are_consistent(row - known.fixed).all()


@pytest.mark.slow
def test_a_parameter_known_from_data_has_its_spread_beside_unknown_bodies(rng):
    count, sd = 5, 0.001
    information = np.zeros((12 * count, 12 * count))
    information[10, 10] = sd**-2.0  # the first joint's friction, and nothing else
    score = np.zeros(len(information))
    score[10] = 0.1 * sd**-2.0
    found = _draw(information, score, InertialPrior(weight=0.1), rng)
    # it is not correlated; draws are not all independent: twice five times 1.6 %
    assert found[:, 10].std() == pytest.approx(sd, rel=0.16)
