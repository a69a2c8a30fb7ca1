"""Sums of errors over a window: information is counted once, and shifts in time cancel."""

import numpy as np
import pytest

from emppi_ros.belief import noise
from emppi_ros.belief.measurement_model import Deviation


def sums(errors, window):
    """Return the windowed sums (T, M, N) of errors (T, M, N)."""
    recent, out = None, []
    for one in errors:
        total, recent = noise.sum_recent(recent, window, one)
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize('window', [1, 2, 5])
def test_sums_are_those_of_a_moving_average(window):
    rng = np.random.default_rng(window)
    errors = rng.standard_normal((30, 4, 3))
    kernel = np.full(window, 1.0 / np.sqrt(window))
    for m in range(4):
        for n in range(3):
            expected = np.convolve(errors[:, m, n], kernel)[:30]
            np.testing.assert_allclose(sums(errors, window)[:, m, n], expected, atol=1e-12)


@pytest.mark.parametrize('window', [2, 5])
def test_information_is_counted_once(window):
    """A constant effect of a parameter: only the first W - 1 updates count less."""
    effects = np.ones((200, 1, 1))
    information = (sums(effects, window)[:, 0, 0] ** 2).cumsum() / window
    steady = np.diff(information)[window:]
    np.testing.assert_allclose(steady, 1.0, rtol=1e-12)  # as without a window


def test_errors_of_shifted_impulses_cancel():
    """An impulse that comes an update late is an error, then its negative."""
    errors = np.zeros((40, 1, 1))
    errors[10, 0, 0], errors[11, 0, 0] = -3.0, 3.0
    energy = [float((sums(errors, window) ** 2).sum()) for window in (1, 4, 16)]
    assert energy[0] == pytest.approx(18.0)
    # two sums contain one of the errors alone: the energy is 2 * 9 / W
    assert energy[1:] == pytest.approx([18.0 / 4, 18.0 / 16])


def test_mistimed_impulses_do_not_look_weaker():
    """
    Impulses of size 1, each late by an update with probability 1/2 and predicted too early.

    In expectation the fit per update is p, the share of impulses in time; with sums over W
    updates it is 1 - (1 - p) / W (the share of windows that contain prediction and impulse
    both). 400 impulses: the bound is five standard deviations of the mean, 5 / (2 sqrt(400)).
    """
    rng = np.random.default_rng(5)
    spacing, count = 10, 400
    predicted, measured = np.zeros((2, spacing * count))
    starts = np.arange(count) * spacing + 3
    predicted[starts] = 1.0
    measured[starts + rng.integers(2, size=count)] = 1.0

    def fit(window):
        regressor, response = (
            sums(values[:, None, None], window)[:, 0, 0] for values in (predicted, measured)
        )
        return float(regressor @ response / (regressor @ regressor))

    bound = 5.0 / (2.0 * np.sqrt(count))
    for window in (1, 3, 5):
        assert fit(window) == pytest.approx(1.0 - 0.5 / window, abs=bound / window)


def test_diverged_particles_count_once():
    errors = np.zeros((3, 2, 1))
    errors[0, 1, 0] = np.nan
    total = sums(errors, 2)
    assert np.isnan(total[0, 1, 0])
    assert np.isfinite(total[1:]).all()


def test_the_window_starts_again_with_other_values():
    total, recent = noise.sum_recent(None, 3, np.ones((2, 4)))
    np.testing.assert_allclose(total, 1.0 / np.sqrt(3.0))
    total, recent = noise.sum_recent(recent, 3, np.ones((2, 5)))
    np.testing.assert_allclose(total, 1.0 / np.sqrt(3.0))
    assert recent.shape == (2, 2, 5)


def test_particles_that_jump_start_again():
    _, recent = noise.sum_recent(None, 3, np.ones((4, 2)))
    kept = noise.forget_parents(recent, np.array([1, 3]))
    assert (kept[-1, [0, 2]] == 1.0).all() and (kept[:, [1, 3]] == 0.0).all()
    assert recent[-1].all()  # the argument stays as it was


def test_sums_keep_the_order_of_values():
    deviations = [
        Deviation('a', np.arange(2), np.zeros((3, 2))),
        Deviation('b', 4, np.ones((3, 3))),
    ]
    recent = np.arange(15.0).reshape(1, 3, 5)
    parts, kept = noise.sum_window(deviations, 2, recent)
    assert [part.quantity for part in parts] == ['a', 'b'] and parts[1].dofs == 4
    errors = np.hstack([one.values for one in deviations])
    summed = np.hstack([part.values for part in parts])
    np.testing.assert_allclose(summed, (recent[0] + errors) / np.sqrt(2.0))
    np.testing.assert_array_equal(kept, errors[None])
