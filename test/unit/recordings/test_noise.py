"""Noise of signals, and the correlation time of residuals."""

import numpy as np
import pytest
import scipy

from emppi_ros.recordings.noise import correlation_time, uneven_difference_noise, white_level

TIME = np.arange(0.0, 20.0, 0.002)
MOTION = 0.5 * np.sin(2.0 * TIME) + 0.1 * np.sin(5.0 * TIME)


@pytest.mark.parametrize('share', [0.5, 0.8, 0.9])
def test_the_correlation_time_of_an_autoregressive_process_is_that_of_theory(share):
    rng, series = np.random.default_rng(0), np.zeros(20_000)
    for k, noise in enumerate(rng.standard_normal(len(series))):
        series[k] = share * series[k - 1] + noise
    expected = (1.0 + share) / (1.0 - share)
    # relative standard error sqrt(2 (2 m + 1) / n) of a window of m = 5 times: 14 % at most
    assert correlation_time(series) == pytest.approx(expected, rel=0.4)


def test_white_residuals_are_not_correlated():
    for seed in range(20):
        white = np.random.default_rng(seed).standard_normal(500)
        assert correlation_time(white) <= 1.0 + 4.0 * np.sqrt(22.0 / 500)  # four standard errors


def test_a_drift_leaves_about_one_independent_residual():
    assert correlation_time(np.linspace(0.5, 1.5, 400)) > 100.0


def test_no_residuals_are_not_correlated():
    assert correlation_time(np.zeros(100)) == 1.0 and correlation_time(np.ones(3)) == 1.0


@pytest.mark.parametrize('sd', [1e-5, 1e-3])
def test_white_noise_is_white_up_to_half_of_the_rate(sd):
    noisy = MOTION + sd * np.random.default_rng(0).standard_normal(len(TIME))
    assert white_level(TIME, noisy) == (uneven_difference_noise(TIME, noisy), pytest.approx(250.0))


def test_a_motion_without_noise_was_not_filtered():
    assert white_level(TIME, MOTION)[1] == pytest.approx(250.0)


def test_motion_that_a_servo_makes_of_noise_is_no_filtered_noise():
    wanted = 1e-3 * np.random.default_rng(0).standard_normal(len(TIME))
    share = 1.0 - np.exp(-2.0 * np.pi * 20.0 * 0.002)  # bandwidth 20 Hz
    followed = scipy.signal.lfilter([share], [1.0, share - 1.0], wanted)
    assert white_level(TIME, MOTION + followed)[1] == pytest.approx(250.0)


@pytest.mark.parametrize('cutoff_hz', [12.0, 50.0])
@pytest.mark.parametrize('kind', ['both ways', 'forward'])
def test_noise_that_a_filter_cut_has_its_density_and_a_band(kind, cutoff_hz):
    levels, bands, differences = [], [], []
    for seed in range(8):
        noise = 1e-4 * np.random.default_rng(seed).standard_normal(len(TIME))
        b, a = scipy.signal.butter(4, cutoff_hz, fs=500.0)
        each = scipy.signal.filtfilt if kind == 'both ways' else scipy.signal.lfilter
        cut = each(b, a, noise)
        level, band_hz = white_level(TIME, MOTION + cut)
        levels.append(level)
        bands.append(band_hz)
        differences.append(uneven_difference_noise(TIME, MOTION + cut))
    # medians of at least 16 squares: within a factor of two, and a filter's edge is not sharp
    assert np.sqrt(np.mean(np.square(levels))) == pytest.approx(1e-4, rel=0.5)
    assert max(bands) <= 1.5 * cutoff_hz
    assert max(differences) < 0.5e-4 or cutoff_hz > 20.0
