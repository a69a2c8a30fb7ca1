"""What of a measured motion is noise: what smoothing takes out, or high differences leave."""

import math

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.signals import Signal

Array = npt.NDArray[np.float64]
_FILTER = 2  # order of the filter
_ENDS = 2.0  # periods of the cutoff, in which the filter forgets
_QUIET = 0.1  # of a noise's variance that smoothing must take out, for it to be read
_LEAST = 1e-4  # noise, of the standard deviation of what was measured: data may have none
_ORDER = 5  # of differences
TELLING = 2 * _ORDER + 1  # samples, at least, to tell noise


def smooth(values: Array, rate_hz: float, cutoff_hz: float) -> Array:
    """
    Return values (n, ...) through a low-pass filter without lag.

    It is a Butterworth filter of second order, forward and then backward. Where the cutoff is not
    below half the rate there is nothing to take out.
    """
    if cutoff_hz >= 0.5 * rate_hz:
        return values.copy()
    b, a = scipy.signal.butter(_FILTER, cutoff_hz, fs=rate_hz)
    return scipy.signal.filtfilt(b, a, values, axis=0)


def smoothed_out(signal: Signal, cutoff_hz: float) -> float | None:
    """
    Return the standard deviation that smoothing takes out, in proportion to white noise.

    The ends do not count where there is more: beyond them the filter guesses how a motion goes
    on. None where samples come too seldom to tell noise from motion.
    """
    rate = 1.0 / signal.period
    blip = np.zeros(len(signal.values))
    blip[len(blip) // 2] = 1.0
    share = float(np.sum((blip - smooth(blip, rate, cutoff_hz)) ** 2))
    if share < _QUIET:
        return None
    left = signal.values - smooth(signal.values, rate, cutoff_hz)
    end = math.ceil(_ENDS * rate / cutoff_hz)
    taken = np.std(left[end:-end] if len(left) > 4 * end else left) / np.sqrt(share)
    return max(float(taken), _LEAST * float(np.std(signal.values)))


def deviation(series: Array) -> Array:
    """
    Return the standard deviation (..., nv) of the noise in series (..., n, nv).

    Fifth differences leave next to nothing of a motion that is sampled 20 times a cycle and more,
    and the noise, if it is white, times a known factor. IdentificationError if it never
    changes, or there are too few samples.
    """
    if series.shape[-2] < TELLING:
        raise IdentificationError(
            f'{series.shape[-2]} samples say nothing of their noise: expected {TELLING}'
        )
    rest = np.diff(series, _ORDER, axis=-2)
    return np.sqrt(np.mean(rest**2, axis=-2) / math.comb(2 * _ORDER, _ORDER))


def deviation_at(time: Array, values: Array) -> float:
    """
    Return that of values (n,) at times (n,) that need not be even, of which n are enough.

    Divided differences leave as little of a motion as differences do at even times.
    """
    windows = np.lib.stride_tricks.sliding_window_view(time, _ORDER + 1)
    places = (windows - windows[:, :1]) / np.median(np.diff(time))
    apart = places[:, :, None] - places[:, None, :] + np.eye(_ORDER + 1)
    weights = 1.0 / np.prod(apart, axis=2)
    rest = np.sum(weights * np.lib.stride_tricks.sliding_window_view(values, _ORDER + 1), axis=1)
    return float(np.sqrt(np.mean(rest**2 / np.sum(weights**2, axis=1))))
