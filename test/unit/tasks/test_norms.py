"""Norms against NumPy's own, on vectors with any leading axes."""

import numpy as np
import pytest

from emppi_ros.tasks.norms import NORMS

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
