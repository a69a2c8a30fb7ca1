"""Velocities and accelerations from positions: exact for polynomials, with known noise."""

from free_bodies import difference_noise
import mujoco
import numpy as np
import pytest

from emppi_ros.identification.rigid_body import motion_samples
from emppi_ros.identification.rigid_body.recordings import JointDrive
from emppi_ros.recordings.noise import uneven_difference_noise
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal, hold

STEP = 0.001


def differentiate(position, torque):
    """Differentiate signals whose noise is white, in the window that is chosen for it."""
    white = difference_noise(position), difference_noise(torque)
    half, _ = motion_samples.choose_window(position, white[0], STEP, 1.0)
    return motion_samples.differentiate(position, torque, STEP, half, white)


def kept(found, time):
    """Return which samples were kept."""
    half = round((found.window_s / STEP - 1.0) / 2.0)
    return np.arange(half, len(time) - half, motion_samples.sample_stride(half, len(time)))


def test_polynomials_are_differentiated_exactly(rng):
    time = STEP * np.arange(2000)
    position = 0.3 - time + 0.5 * time**2 - 0.7 * time**3
    torque = 2.0 * time + 1e-3 * rng.standard_normal(2000)
    found = differentiate(position[:, None], torque[:, None])
    at = kept(found, time)
    wanted = [position[at], -1.0 + time[at] - 2.1 * time[at] ** 2, 1.0 - 4.2 * time[at]]
    # rounding of 1e-16, over a step squared, in the shortest window
    np.testing.assert_allclose(found.samples.states[:, :, 0], wanted, rtol=1e-7)


def test_estimated_noise_matches_the_errors(rng):
    """For a sine of 1 Hz: the bias of the window is less than the noise."""
    time = STEP * np.arange(20_000)
    rate = 2.0 * np.pi
    clean = np.sin(rate * time)
    for sd in (1e-3, 1e-5):
        seen = (clean + sd * rng.standard_normal(time.shape))[:, None]
        found = differentiate(seen, 0.1 * rng.standard_normal(seen.shape))
        at = time[kept(found, time)]
        wanted = [np.sin(rate * at), rate * np.cos(rate * at), -(rate**2) * np.sin(rate * at)]
        off = found.samples.states[:, :, 0] - wanted
        # at least 60 nearly independent samples: a standard error of the rms of 9 %, times four
        np.testing.assert_allclose(
            np.sqrt(np.mean(off**2, axis=1)), found.noise.states[:, 0], rtol=0.4
        )
        rest = found.samples.torque[:, 0]
        assert np.sqrt(np.mean(rest**2)) == pytest.approx(found.noise.torque[0], rel=0.4)


def test_less_noise_gives_a_shorter_window(rng):
    time = STEP * np.arange(10_000)
    clean, noise = np.sin(6.0 * time)[:, None], rng.standard_normal((10_000, 1))
    halves = []
    for sd in (0.0, 1e-6, 1e-4, 1e-2):
        seen = clean + sd * noise
        halves.append(motion_samples.choose_window(seen, difference_noise(seen), STEP, 1.0)[0])
    assert halves == sorted(halves) and halves[0] < halves[-1]


def test_noise_is_estimated_at_uneven_sample_times():
    rng, time = np.random.default_rng(4), STEP * np.arange(4000)
    uneven = time + 0.1 * STEP * rng.standard_normal(len(time))
    noise = 0.3 * rng.standard_normal(len(time))
    even = uneven_difference_noise(time, np.sin(2.0 * time) + noise)
    # the same sums
    assert even == pytest.approx(difference_noise((np.sin(2.0 * time) + noise)[:, None])[0])
    # 4000 samples have a standard error of 1.1 %, their fifth differences of 2 %; times five
    assert uneven_difference_noise(uneven, np.sin(2.0 * uneven) + noise) == pytest.approx(
        0.3, rel=0.1
    )


def test_commands_count_for_as_long_as_they_are_in_force():
    rng = np.random.default_rng(5)
    held = Signal('command', 'motor', 'N m', 0.01 * np.arange(50), rng.standard_normal(50), '')
    drive = JointDrive(((held, 2.0),), 0.0)
    time, step = np.linspace(0.02, 0.45, 30), 0.013
    found = drive.torque(time, step)
    fine = time[:, None] + step * (np.linspace(-0.5, 0.5, 2001)[:-1] + 0.25e-3)
    expected = 2.0 * hold(held, fine.ravel()).reshape(fine.shape).mean(axis=1)
    # of 2000 points some are on the other side of a change
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_commands_are_clipped_to_the_range_of_the_actuator():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="pivot"/><geom size="0.1"/></body></worldbody>'
        '<actuator><motor name="motor" joint="pivot" gear="3" ctrlrange="-1 2"/></actuator>'
        '</mujoco>'
    )
    time = 0.01 * np.arange(50)
    told = Signal('command', 'motor', 'N m', time, np.linspace(-4.0, 4.0, 50), '')
    seen = Signal('position', 'pivot', 'rad', time, np.zeros(50), '')
    signals = {(signal.kind, signal.of): signal for signal in (told, seen)}
    drive = JointDrive.of(model, Recording(signals, ()), 'pivot')
    short = drive.torque(time[:-1] + 0.005, 1e-3)
    np.testing.assert_allclose(short, 3.0 * np.clip(told.values[:-1], -1.0, 2.0), atol=1e-9)
