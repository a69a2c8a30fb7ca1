"""Velocities and accelerations from positions: exact for parabolas, and as noisy as they say."""

import numpy as np
import pytest

from emppi_ros.errors import IdentificationError
from emppi_ros.identify.rigid import derivatives

STEP = 0.001


def kept(found, time):
    """Return which samples were kept."""
    half = round((found.window_s / STEP - 1.0) / 2.0)
    return np.arange(half, len(time) - half, derivatives.stride(half, len(time)))


def test_polynomials_are_differentiated_exactly(rng):
    time = STEP * np.arange(2000)
    position = 0.3 - time + 0.5 * time**2 - 0.7 * time**3
    torque = 2.0 * time + 1e-3 * rng.standard_normal(2000)
    found = derivatives.derive(position[:, None], torque[:, None], STEP)
    at = kept(found, time)
    wanted = [position[at], -1.0 + time[at] - 2.1 * time[at] ** 2, 1.0 - 4.2 * time[at]]
    # rounding of 1e-16, over a step squared, in the shortest window
    np.testing.assert_allclose(found.recording.states[:, :, 0], wanted, rtol=1e-7)


def test_noise_is_what_it_is_said_to_be(rng):
    """Of a sine of 1 Hz: also, what the window cuts off is less than what noise leaves."""
    time = STEP * np.arange(20_000)
    rate = 2.0 * np.pi
    clean = np.sin(rate * time)
    for sd in (1e-3, 1e-5):
        seen = (clean + sd * rng.standard_normal(time.shape))[:, None]
        found = derivatives.derive(seen, 0.1 * rng.standard_normal(seen.shape), STEP)
        at = time[kept(found, time)]
        wanted = [np.sin(rate * at), rate * np.cos(rate * at), -(rate**2) * np.sin(rate * at)]
        off = found.recording.states[:, :, 0] - wanted
        # at least 60 samples that are nearly independent: their rms is known to 9 %; of that, four
        np.testing.assert_allclose(
            np.sqrt(np.mean(off**2, axis=1)), found.noise.states[:, 0], rtol=0.4
        )
        rest = found.recording.torque[:, 0]
        assert np.sqrt(np.mean(rest**2)) == pytest.approx(found.noise.torque[0], rel=0.4)


def test_what_is_less_noisy_gets_a_shorter_window(rng):
    time = STEP * np.arange(10_000)
    clean, noise = np.sin(6.0 * time)[:, None], rng.standard_normal((10_000, 1))
    halves = []
    for sd in (0.0, 1e-6, 1e-4, 1e-2):
        seen = clean + sd * noise
        halves.append(derivatives.choose(seen, derivatives.deviation(seen), STEP))
    assert halves == sorted(halves) and halves[0] < halves[-1]


def test_too_few_samples_are_an_error():
    with pytest.raises(IdentificationError, match='8 samples say nothing'):
        derivatives.derive(np.zeros((8, 1)), np.zeros((8, 1)), STEP)
