"""Norms against NumPy's own, on vectors with any leading axes."""

import numpy as np
import pytest

from emppi_ros.tasks.norms import NORMS, l2, shorten, soften, squared

EXPECTED = {
    'l1': lambda v: np.linalg.norm(v, 1),
    'l2': np.linalg.norm,
    'squared': lambda v: float(v @ v),
    'positive': lambda v: sum(x for x in v if x > 0.0),
}


def test_every_norm_is_tested():
    assert set(EXPECTED) == set(NORMS)


@pytest.mark.parametrize('name', NORMS)
def test_a_norm_is_that_of_its_definition(name, rng):
    residual = rng.normal(size=(3, 2, 5, 4))
    values = NORMS[name](residual)
    assert values.shape == (3, 2, 5)
    for index in np.ndindex(values.shape):
        # sums of four terms of order 1, in another order
        assert values[index] == pytest.approx(EXPECTED[name](residual[index]), rel=1e-14)


@pytest.mark.parametrize('name', NORMS)
def test_zero_costs_nothing_and_nan_stays_nan(name):
    assert NORMS[name](np.zeros(3)) == 0.0
    assert np.isnan(NORMS[name](np.array([1.0, np.nan])))


@pytest.mark.parametrize('deadzone', [1.5, 2.0])
def test_a_residual_is_shortened_by_the_dead_zone_and_keeps_its_direction(deadzone, rng):
    residual = rng.normal(size=(3, 2, 5, 4))
    rest, before = shorten(residual, deadzone), l2(residual)
    beyond = np.maximum(before - deadzone, 0.0)
    assert 0 < np.count_nonzero(beyond) < beyond.size  # both kinds are tested
    # a product and a quotient of numbers of order 1
    np.testing.assert_allclose(l2(rest), beyond, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(squared(rest), beyond**2, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(
        np.einsum('...i,...i->...', rest, residual), beyond * before, rtol=1e-14, atol=1e-15
    )


def test_a_dead_zone_is_closed_convex_and_keeps_nan():
    assert not shorten(np.array([[0.0, 0.0], [3.0, 4.0]]), 5.0).any()  # its border is free
    assert np.isnan(shorten(np.array([1.0, np.nan]), 0.5)).all()
    line = np.linspace(-2.0, 2.0, 41)[:, None] * np.array([3.0, 4.0])  # through the zone
    assert np.all(np.diff(l2(shorten(line, 3.0)), 2) > -1e-14)  # rounding of numbers up to 10


def test_smoothing_gives_the_pseudo_huber_length_and_keeps_the_direction(rng):
    residual, p = rng.normal(size=(3, 2, 5, 4)), 0.7
    soft, before = soften(residual, p), l2(residual)
    # the difference of numbers of order 1, where p is not small
    np.testing.assert_allclose(l2(soft), np.sqrt(before**2 + p**2) - p, rtol=1e-13)
    np.testing.assert_allclose(
        np.einsum('...i,...i->...', soft, residual), l2(soft) * before, rtol=1e-13
    )
    assert not soften(np.zeros((2, 3)), p).any()
    assert np.isnan(soften(np.array([1.0, np.nan]), p)).all()


def test_a_smoothed_length_is_quadratic_near_zero_and_linear_far_away():
    r, p = np.array([1e-6, 1e6]), 0.5
    # relative errors (r / p)^2 / 4 near zero, and p / r far away
    np.testing.assert_allclose(l2(soften(r[:, None], p)), [0.5 * r[0] ** 2 / p, r[1]], rtol=1e-6)
