"""Pseudo-inertias of bodies."""

import numpy as np

from emppi_ros.identification.rigid_body import physical_consistency


def _possible(rng):
    """Return a random body, of ten point masses, friction and armature."""
    mass, place = rng.uniform(0.1, 1.0, 10), rng.normal(0.2, 0.5, (10, 3))
    square = (mass[:, None] * place).T @ place
    inertia = np.trace(square) * np.eye(3) - square
    return np.array([mass.sum(), *(mass @ place), *inertia[np.triu_indices(3)], *rng.random(2)])


def _moments(actual):
    """Return the moments of inertia (3,) at the centre of mass, ascending, by parallel axes."""
    xx, xy, xz, yy, yz, zz = actual[4:10]
    centre = actual[1:4] / actual[0]
    shift = actual[0] * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift)


def test_pseudo_inertias_convert_back_to_parameters(rng):
    for actual in (_possible(rng), rng.standard_normal(12)):
        full = physical_consistency.pseudo_inertia(actual)
        again = physical_consistency.from_pseudo_inertia(full)
        np.testing.assert_allclose(again, actual[:10], rtol=1e-12, atol=1e-14)  # rounding


def test_the_pseudo_inertia_is_positive_definite_iff_the_triangle_inequality_holds(rng):
    signs = set()
    for _ in range(300):
        actual = _possible(rng)
        actual[4:10] += rng.normal(0.0, 1.0, 6)
        low, middle, high = _moments(actual)
        positive = np.linalg.eigvalsh(physical_consistency.pseudo_inertia(actual))[0] > 0.0
        assert positive == (high < low + middle and low > 0.0)
        signs.add(positive)
    assert signs == {True, False}
