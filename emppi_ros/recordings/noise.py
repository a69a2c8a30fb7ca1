"""Measurement noise of a recorded motion, from smoothing or from high-order differences."""

import math

import numpy as np
import scipy

from emppi_ros.core.arrays import Array
from emppi_ros.recordings.signals import Signal

SMOOTHING_CUTOFF_HZ = 10.0
_FILTER_ORDER = 2
_SETTLING_PERIODS = 2.0  # of the cutoff, at either end
_MIN_REMOVED = 0.1  # share of a noise's variance that smoothing must remove to measure it
MIN_NOISE = 1e-4  # of the standard deviation of the signal: data may have no noise at all
_ORDER = 5  # of differences
MIN_NOISE_SAMPLES = 2 * _ORDER + 1
_LEAST_CYCLES = 16  # of the lowest frequencies whose noise is measured
_FLAT, _CUT = 3.0, 30.0  # ratio of densities an octave apart in a band, and beyond its end
_MOTION = 1e-4  # share of a signal's variance
_GROWN = 2.0  # times the differences of neighbours: noise was cut
_NORMAL_MEDIAN = 0.6745  # of absolute values, in standard deviations
_GRID = 0.1  # deviation, in steps, of values on a grid
_ON_GRID, _MIN_STEPS = 0.9, 20  # share of the small differences, and their number
_WINDOW = 5.0  # correlation times, beyond which the estimate of a correlation is only noise


def resolution(values: Array) -> float:
    """Return the step of the grid on which values (n,) were logged, 0 if none is found."""
    steps = np.abs(np.diff(values))
    rounding = 4.0 * np.finfo(float).eps * float(np.max(np.abs(values), initial=0.0))
    steps = steps[steps > rounding]
    if len(steps) < _MIN_STEPS:
        return 0.0
    step = float(np.quantile(steps, 0.01))
    small = steps[steps < 5.5 * step]
    if len(small) < _MIN_STEPS:
        return 0.0
    step = float(np.median(small / np.maximum(np.round(small / step), 1.0)))
    on_grid = np.abs(small / step - np.round(small / step)) < _GRID
    return step if np.mean(on_grid) > _ON_GRID else 0.0


def rounding_noise(values: Array) -> float:
    """Return the standard deviation of the rounding of values (n,) to their grid."""
    return resolution(values) / math.sqrt(12.0)


def smooth(values: Array, rate_hz: float, cutoff_hz: float) -> Array:
    """Return values (n, ...) after a second-order Butterworth filter, forward and backward."""
    if cutoff_hz >= 0.5 * rate_hz:
        return values.copy()
    b, a = scipy.signal.butter(_FILTER_ORDER, cutoff_hz, fs=rate_hz)
    return scipy.signal.filtfilt(b, a, values, axis=0)


def smoothing_noise(signal: Signal, cutoff_hz: float) -> float | None:
    """
    Return the standard deviation of the white noise in a signal, from what smoothing removes.

    It is at least that of the signal's resolution. The ends of long signals, where the filter
    extrapolates, are left out. None if the sampling rate is too low to tell noise from motion.
    """
    rate = 1.0 / signal.period
    blip = np.zeros(len(signal.values))
    blip[len(blip) // 2] = 1.0
    share = float(np.sum((blip - smooth(blip, rate, cutoff_hz)) ** 2))
    if share < _MIN_REMOVED:
        return None
    removed = signal.values - smooth(signal.values, rate, cutoff_hz)
    end = math.ceil(_SETTLING_PERIODS * rate / cutoff_hz)
    taken = np.std(removed[end:-end] if len(removed) > 4 * end else removed) / np.sqrt(share)
    least = max(MIN_NOISE * float(np.std(signal.values)), rounding_noise(signal.values))
    return max(float(taken), least)


def uneven_difference_noise(time: Array, values: Array) -> float:
    """
    Return the standard deviation of the noise in enough values (n,) at uneven times (n,).

    Fifth divided differences remove a motion that is sampled 20 or more times per cycle, and scale
    white noise by a known factor.
    """
    return float(np.sqrt(np.mean(_squared_differences(time, values, 1))))


def filtered_noise(time: Array, values: Array, band_hz: float) -> float:
    """
    Return the standard deviation of white noise with the density of that of values (n,).

    The noise is perhaps cut beyond a band: then its differences grow up to samples that are half a
    period of the band apart. Their median leaves jumps of friction out.
    """
    near = uneven_difference_noise(time, values)
    period = float(np.median(np.diff(time)))
    stride = min(round(0.5 / (band_hz * period)), len(time) // (2 * _ORDER))
    if stride <= 1:
        return near
    far = float(np.sqrt(np.median(_squared_differences(time, values, stride)))) / _NORMAL_MEDIAN
    return math.sqrt(stride) * far if far > _GROWN * near else near


def _squared_differences(time: Array, values: Array, stride: int) -> Array:
    """Return squares of fifth differences of values that are `stride` apart, as of white noise."""
    period = float(np.median(np.diff(time)))
    size = _ORDER * stride + 1
    windows = np.lib.stride_tricks.sliding_window_view(time, size)[:, ::stride]
    places = (windows - windows[:, :1]) / (stride * period)
    differences = places[:, :, None] - places[:, None, :] + np.eye(_ORDER + 1)
    weights = 1.0 / np.prod(differences, axis=2)
    kept = np.lib.stride_tricks.sliding_window_view(values, size)[:, ::stride]
    return np.asarray(np.sum(weights * kept, axis=1) ** 2 / np.sum(weights**2, axis=1))


def white_level(time: Array, values: Array) -> tuple[float, float]:
    """
    Return the standard deviation of a signal's noise (n,), and the band [Hz] in which it is white.

    The band is half of the sampling rate, unless a low-pass filter cut the noise: then the
    spectrum falls, from the motion down to the noise, is flat for an octave, then steep. The
    standard deviation is that of white noise of the same density, which says how uncertain
    averages over more than a period of the band are. Flat parts with more than 1e-4 of the
    variance are the motion's.
    """
    period, noise = float(np.median(np.diff(time))), uneven_difference_noise(time, values)
    even = np.interp(np.arange(time[0], time[-1], period), time, values)
    even = scipy.signal.detrend(even) * scipy.signal.windows.blackmanharris(len(even))
    power = np.abs(np.fft.rfft(even)) ** 2
    share = np.fft.rfftfreq(len(even))  # of the sampling rate
    edges = 0.5 * 2.0 ** -np.arange(0.0, np.log2(len(even) / _LEAST_CYCLES), 0.5)
    levels = np.array(
        [np.median(power[(share > 2.0**-0.5 * e) & (share <= e)]) for e in edges[:-1]]
    )
    half, octave = levels[1:] / levels[:-1], levels[2:] / levels[:-2]  # to lower frequencies
    flat = np.maximum(half[1:], 1.0 / half[1:]) < _FLAT
    flat &= (octave < _FLAT) & (octave > 1.0 / _FLAT)
    flat &= [np.max(octave[max(i - 4, 0) : i], initial=0.0) > _CUT for i in range(len(flat))]
    flat &= 2.0 * levels[2:] * edges[:-3] * len(power) < _MOTION * np.sum(power)
    if not flat.any():
        return noise, 0.5 / period
    best = int(np.argmax(np.where(flat, levels[2:], 0.0)))
    density = levels[best + 2] / np.log(2.0)  # the median of squares is less than their mean
    window = np.mean(scipy.signal.windows.blackmanharris(len(even)) ** 2)
    beyond = np.flatnonzero(levels[:best] < levels[best + 2] / _CUT)
    band = edges[beyond[-1] + 1] if len(beyond) else edges[best]
    return max(noise, float(np.sqrt(density / len(even) / window))), float(band / period)


def correlation_time(residuals: Array) -> float:
    """
    Return the integrated autocorrelation time of residuals (n,), in samples; at least 1.

    The mean of n residuals is as uncertain as that of n / time white ones. The sum of
    autocorrelations ends where the window exceeds five times itself (Sokal 1997): for white
    residuals it is 1 with a standard error of sqrt(22 / n).
    """
    n = len(residuals)
    squares = float(np.sum(residuals**2))
    if n < MIN_NOISE_SAMPLES or not squares > 0.0:
        return 1.0
    spectrum = np.abs(np.fft.rfft(residuals, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum, 2 * n)[: n // 2] / squares
    times = 2.0 * np.cumsum(correlation) - 1.0
    ended = np.arange(len(times)) >= _WINDOW * times
    return max(float(times[np.argmax(ended)] if ended.any() else times[-1]), 1.0)
