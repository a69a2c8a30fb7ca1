"""Intervals of means: exact small cases, and their coverage."""

import numpy as np
import pytest

from benchmarks.means import mean


def test_a_mean_in_words():
    one, two = mean([1.5]), mean([1.5, 1.5])
    assert (str(one), f'{one}', f'{one:.3g}') == ('+1.50', '+1.50', '1.5')
    assert (str(two), f'{two:.0f}') == ('+1.50 (+1.50 to +1.50)', '2 (2 to 2)')


def test_a_mean_moves_and_stretches_with_its_values(rng):
    values = rng.exponential(1.0, 15)
    plain, other = mean(values), mean(3.0 * values - 2.0)
    # the draws are the same; rounding of a mean of 15, and of its percentiles' ranks
    assert other[:3] == pytest.approx([3.0 * x - 2.0 for x in plain[:3]], rel=1e-9)
    assert plain.low < plain.mean < plain.high and plain == mean(values)


def test_the_bootstrap_covers_the_mean(rng):
    hits = [
        found.low <= 0.3 <= found.high
        for found in (mean(rng.normal(0.3, 2.0, 20)) for _ in range(200))
    ]
    # of 20 normal values it covers 0.93 (95 % needs Student's factor, 7 % more width than it
    # has); 200 draws have a standard error of 0.018: four of these
    assert abs(np.mean(hits) - 0.93) < 4 * 0.018


def test_one_value_has_no_interval_and_equal_values_have_one_without_width():
    assert mean([2.0]) == (2.0, None, None, 1)
    assert str(mean([2.0])) == '+2.00'
    assert mean([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0, 3)
    assert str(mean([2.0, 2.0])) == '+2.00 (+2.00 to +2.00)'


def test_two_different_values_have_an_interval():
    found = mean([1.0, 2.0])
    assert found.low <= 1.5 <= found.high and np.isfinite(found[:3]).all()
