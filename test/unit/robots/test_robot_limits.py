"""Control limits: within bounds, within reach, and idle where nothing is exceeded."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.robots.robot import ControlLimits

LIMITS = ControlLimits(np.array([-1.0, -2.0]), np.array([1.5, 0.5]), np.array([0.3, 0.7]))
JUMPING = LIMITS._replace(rate=np.array([np.inf, np.inf]))


@given(st.integers(0, 999))
def test_clipped_controls_are_within_bounds_and_rate(seed):
    rng = np.random.default_rng(seed)
    previous = rng.uniform(LIMITS.lower, LIMITS.upper)
    clipped = LIMITS.clip(rng.normal(0.0, 2.0, (3, 2, 8, 2)), previous)
    assert np.all(clipped >= LIMITS.lower) and np.all(clipped <= LIMITS.upper)
    before = np.broadcast_to(previous, (3, 2, 1, 2))
    changes = np.diff(np.concatenate([before, clipped], axis=2), axis=2)
    # last + rate is rounded: 2^-52 for numbers below 2
    assert np.all(np.abs(changes) <= LIMITS.rate + 1e-15)


@given(st.integers(0, 999))
def test_clipping_twice_is_clipping_once(seed):
    rng = np.random.default_rng(seed)
    previous = rng.uniform(LIMITS.lower, LIMITS.upper)
    once = LIMITS.clip(rng.normal(0.0, 2.0, (8, 2)), previous)
    assert np.array_equal(LIMITS.clip(once, previous), once)


def test_controls_within_limits_stay_as_they_are_and_the_input_is_not_changed():
    controls = np.array([[0.1, 0.2], [0.2, -0.4]])
    kept = controls.copy()
    assert np.array_equal(LIMITS.clip(controls, np.zeros(2)), controls)
    LIMITS.clip(10.0 * controls, np.zeros(2))
    assert np.array_equal(controls, kept)


def test_without_rates_a_control_may_jump():
    clipped = JUMPING.clip(np.array([[9.0, 9.0], [-9.0, -9.0]]), np.zeros(2))
    assert clipped.tolist() == [[1.5, 0.5], [-1.0, -2.0]]


def test_a_start_outside_of_bounds_returns_as_fast_as_the_rate_allows():
    clipped = LIMITS.clip(np.zeros((4, 2)), np.array([2.0, 0.0]))
    np.testing.assert_allclose(clipped[:, 0], [1.7, 1.4, 1.1, 0.8], rtol=0, atol=1e-15)


@pytest.mark.parametrize('start', [0.9, 1.0, 1.5, -2.0])  # inside, at, and beyond the bounds
@pytest.mark.parametrize('rate', [2.0, 1.9])  # spans the bounds, and does not
def test_a_rate_that_spans_the_bounds_gives_what_step_by_step_limits_give(rng, start, rate):
    limits = ControlLimits(np.array([-1.0]), np.array([1.0]), np.array([rate]))
    controls, last = rng.normal(scale=3.0, size=(40, 6, 1)), np.full((40, 1), start)
    for h, found in enumerate(np.moveaxis(limits.clip(controls, np.array([start])), -2, 0)):
        wanted = np.clip(controls[:, h], -1.0, 1.0)
        last = np.clip(wanted, last - rate, last + rate)
        assert np.array_equal(found, last)  # comparisons only: no rounding
