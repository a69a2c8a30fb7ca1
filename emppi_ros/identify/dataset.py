"""Recorded runs."""

import numpy as np
import numpy.typing as npt
import scipy.signal

Array = npt.NDArray[np.float64]
_ORDER = 2


def smooth(values: Array, rate_hz: float, cutoff_hz: float) -> Array:
    """
    Return values (n, ...) through a low-pass filter without lag.

    It is a Butterworth filter of second order, forward and then backward. Where the cutoff is not
    below half the rate there is nothing to take out.
    """
    if cutoff_hz >= 0.5 * rate_hz:
        return values.copy()
    b, a = scipy.signal.butter(_ORDER, cutoff_hz, fs=rate_hz)
    return scipy.signal.filtfilt(b, a, values, axis=0)
