"""Which inputs say anything: redundant ones, irrelevant ones, and data that are none."""

import numpy as np
import pytest

from emppi_ros.bench.identify import regression_inputs
from emppi_ros.core.errors import IdentificationError


def test_standardized_data_have_mean_0_and_variance_1_and_coefficients_come_back(rng):
    x = rng.normal(5.0, [1.0, 10.0, 0.1], (100, 3))
    b = np.array([1.0, -2.0, 3.0])
    scaled = regression_inputs.standardize(x, x @ b)
    np.testing.assert_allclose(scaled.x.mean(axis=0), 0.0, atol=1e-12)  # rounding, x / sd is 50
    np.testing.assert_allclose(scaled.x.std(axis=0), 1.0, rtol=1e-12)
    found = np.linalg.lstsq(scaled.x, scaled.y, rcond=None)[0] * scaled.unit
    np.testing.assert_allclose(found, b, rtol=1e-9)  # no noise: rounding of a solve


def test_the_base_has_full_rank_and_spans_all(rng):
    x = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 9))
    columns = regression_inputs.base(x)
    assert len(columns) == 4
    moving = x - x.mean(axis=0)
    rest = moving - moving[:, columns] @ np.linalg.lstsq(moving[:, columns], moving)[0]
    assert np.abs(rest).max() < 1e-10  # rounding


def test_the_base_of_convex_combinations_are_what_they_combine(rng):
    vertices = rng.standard_normal((200, 5))
    mixed = vertices @ rng.dirichlet(np.ones(5), size=20).T
    order = rng.permutation(25)
    x = np.hstack([vertices, mixed])[:, order]
    assert sorted(order[regression_inputs.base(x)]) == [0, 1, 2, 3, 4]


def test_an_input_that_correlates_with_nothing_is_left_out(rng):
    n = 2000
    t = rng.standard_normal((n, 2))
    noise = rng.standard_normal((n, 20))
    x = np.column_stack([noise, t[:, 0], t[:, 0] + t[:, 1]])
    scaled = regression_inputs.standardize(x, t[:, 1] + rng.standard_normal(n))
    # by chance one data set in a hundred has one more, this seed has none
    assert regression_inputs.related(scaled).tolist() == [20, 21]


def test_of_inputs_that_are_all_noise_one_data_set_in_a_hundred_keeps_some(rng):
    kept = 0
    for _ in range(400):
        x = rng.standard_normal((100, 6))
        kept += (
            len(
                regression_inputs.related(
                    regression_inputs.standardize(x, rng.standard_normal(100))
                )
            )
            < 6
        )
    # all six are returned where none is related; 4 of 400 expected, binomial: 12 is 4 sd more
    assert kept <= 12


@pytest.mark.parametrize(
    ('x', 'y', 'match'),
    [
        (np.zeros((3, 2)), np.zeros(2), r'inputs \(3, 2\) and output \(2,\) do not match'),
        (np.zeros((0, 2)), np.zeros(0), 'do not match'),
        ([[1.0], [np.nan], [2.0]], [1.0, 2.0, 3.0], 'inputs: row 1 is not finite'),
        ([[1.0], [3.0], [2.0]], [1.0, 2.0, np.inf], 'output: row 2 is not finite'),
        ([[1.0], [3.0], [2.0]], [1.0, 1.0, 1.0], 'output: it never changes'),
        ([[1.0, 5.0], [3.0, 5.0]], [1.0, 2.0], r'inputs: columns \[1\] never change'),
    ],
)
def test_data_that_are_none_are_errors(x, y, match):
    with pytest.raises(IdentificationError, match=match):
        regression_inputs.standardize(np.array(x), np.array(y))


def test_inputs_that_never_change_have_no_base():
    with pytest.raises(IdentificationError, match='none of them changes: record more motion'):
        regression_inputs.base(np.ones((5, 2)))
