"""Interpolation of plans: upsample, sample and shift describe one and the same curve."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.planning.interpolation import sample, shift, upsample

KINDS = ('hold', 'linear')
STEP = 0.05
# knots are of order 1; a phase t / step of at most 12 is rounded to 12 * 2^-53, twice
ROUNDING = 1e-14


def _plan(seed=0, horizon=6, nu=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(horizon, nu)), rng.normal(size=nu)


@pytest.mark.parametrize('kind', KINDS)
@given(st.integers(1, 12), st.integers(1, 8), st.integers(0, 99))
def test_upsampled_controls_are_samples_at_the_middle_of_substeps(kind, horizon, substeps, seed):
    controls, previous = _plan(seed, horizon)
    fine = upsample(controls, previous, substeps, kind)
    times = (np.arange(horizon * substeps) + 0.5) * STEP / substeps
    assert fine.shape == (horizon * substeps + 1, 2)
    np.testing.assert_allclose(
        fine[:-1], sample(controls, previous, times, STEP, kind), rtol=0, atol=10 * ROUNDING
    )
    assert fine[-1].tolist() == controls[-1].tolist()


@pytest.mark.parametrize('kind', KINDS)
def test_upsampling_many_rollouts_is_upsampling_each(kind, rng):
    controls, previous = rng.normal(size=(3, 2, 6, 2)), rng.normal(size=2)
    fine = upsample(controls, previous, 4, kind)
    for m in range(3):
        for k in range(2):
            assert np.array_equal(fine[m, k], upsample(controls[m, k], previous, 4, kind))


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('steps', [0, 1, 2, 5, 6, 9])
def test_shift_by_whole_steps_moves_knots(kind, steps):
    controls, previous = _plan()
    shifted = shift(controls, previous, steps * STEP, STEP, kind)
    expected = controls[np.minimum(np.arange(6) + steps, 5)]
    np.testing.assert_allclose(shifted, expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize('kind', KINDS)
@given(st.floats(0.0, 0.5))
def test_shifted_plan_goes_through_its_knots_at_the_same_times(kind, elapsed):
    controls, previous = _plan()
    first = 0 if kind == 'hold' else 1
    times = elapsed + (first + np.arange(6)) * STEP
    np.testing.assert_allclose(
        shift(controls, previous, elapsed, STEP, kind),
        sample(controls, previous, times, STEP, kind),
        rtol=0,
        atol=ROUNDING,
    )


def test_hold_keeps_a_knot_for_its_whole_step_and_linear_ramps_to_its_end():
    controls, previous = np.array([[1.0], [3.0]]), np.array([0.0])
    times = np.array([0.0, 0.025, 0.0499, 0.05, 0.075, 0.0999])
    held = sample(controls, previous, times, STEP, 'hold')[:, 0]
    assert held.tolist() == [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    ramped = sample(controls, previous, times, STEP, 'linear')[:, 0]
    np.testing.assert_allclose(ramped, [0.0, 0.5, 0.998, 1.0, 2.0, 2.996], atol=ROUNDING)


@pytest.mark.parametrize('kind', KINDS)
def test_before_the_start_is_the_previous_control_and_after_the_end_the_last(kind):
    controls, previous = _plan()
    times = np.array([-1.0, -0.01, 6 * STEP + 0.01, 100.0])
    rows = sample(controls, previous, times, STEP, kind)
    assert rows[:2].tolist() == [previous.tolist()] * 2
    assert rows[2:].tolist() == [controls[-1].tolist()] * 2


def test_ramps_keep_their_mean_when_sampled_mid_step():
    controls, previous = _plan()
    fine = upsample(controls, previous, 7, 'linear')[:-1].reshape(6, 7, 2)
    ends = 0.5 * (np.vstack([previous, controls[:-1]]) + controls)
    np.testing.assert_allclose(fine.mean(axis=1), ends, rtol=0, atol=ROUNDING)
