"""
Velocities and accelerations from positions that were sampled evenly, and how noisy they are.

Savitzky and Golay's filter fits a polynomial to a window of samples. It has no lag, and is a sum
of samples with known weights, so that white noise of positions goes into each derivative times
the root of the sum of their squares. Torques go through the same window.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.signal import savgol_coeffs, savgol_filter

from emppi_ros.identify.common.noise import difference_noise
from emppi_ros.identify.rigid_body.recording import Noise, Recording

Array = npt.NDArray[np.float64]
_DEGREE = 4  # of the polynomial: accelerations are parabolas
_SHORTEST = 3  # samples on either side
_SHARE = 10  # windows in a recording, at least
_MOST = 800  # samples that are kept: more take time, and say little
_DERIVATIVES = 0, 1, 2
_STILL = 1e-6  # rad/s or m/s: slower has no sign


class Derived(NamedTuple):
    """Samples that are apart as much as their noise is independent."""

    recording: Recording
    noise: Noise
    signs: Array  # (n, nv) of velocities, through the same window: what dry friction grows with
    window_s: float
    step_s: float  # between samples


def derive(
    position: Array,
    torque: Array,
    step: float,
    half: int | None = None,
    white: tuple[Array, Array] | None = None,
) -> Derived:
    """
    Return states and torques along a motion, without the ends that no window covers.

    Parameters
    ----------
    position, torque : (n, nv) arrays
        Evenly sampled.
    step : float
        Between samples, in s.
    half : int
        Of the window, in samples; else what `choose` says.
    white : two (nv,) arrays
        Standard deviations of positions and torques; else what these show, if nothing was
        interpolated.

    Raises
    ------
    IdentificationError
        If there are too few samples.

    """
    sd, own = white or (difference_noise(position), difference_noise(torque))
    half = half or choose(position, sd, step)
    weights = np.stack([_weights(half, d, step) for d in _DERIVATIVES])
    size = np.sqrt(np.sum(weights**2, axis=1))
    apart = stride(half, len(position))
    kept = slice(half, len(position) - half, apart)
    states = np.stack([_filter(position, half, d, step)[kept] for d in _DERIVATIVES])
    signs = np.tanh(_filter(position, half, 1, step) / np.maximum(size[1] * sd, _STILL))
    return Derived(
        Recording(states, _filter(torque, half, 0, step)[kept]),
        Noise(size[:, None] * sd, size[0] * own),
        _filter(signs, half, 0, step)[kept],
        (2 * half + 1) * step,
        apart * step,
    )


def choose(position: Array, sd: Array, step: float) -> int:
    """
    Return half a window, in samples: the longest that cuts off less than noise hides.

    Windows double as long as the accelerations of a window and of half of it differ by no more
    than noise (nv,) does. What a window cuts off grows with its fourth power, so that of the
    last one's half it is a sixteenth.
    """
    half = _SHORTEST
    while 2 * half * 2 * _SHARE < len(position):
        inner = slice(2 * half, len(position) - 2 * half)
        longer, shorter = (_filter(position, h, 2, step)[inner] for h in (2 * half, half))
        weights = _weights(2 * half, 2, step)
        weights[half:-half] -= _weights(half, 2, step)
        expected = sd**2 * np.sum(weights**2)
        slack = 4.0 * np.sqrt(4.0 * half / len(longer))  # standard errors of such a mean
        if np.any(np.mean((longer - shorter) ** 2, axis=0) > (1.0 + slack) * expected):
            break
        half *= 2
    return max(half // 2, _SHORTEST)


def stride(half: int, samples: int) -> int:
    """Return by how many samples those that are kept are apart."""
    # of white noise a mean of k samples leaves 1 / k of the variance: so far apart they are new
    new = round(1.0 / float(np.sum(_weights(half, 0, 1.0) ** 2)))
    return max(new, -(-samples // _MOST))


def _weights(half: int, derivative: int, step: float) -> Array:
    return savgol_coeffs(2 * half + 1, _DEGREE, deriv=derivative, delta=step, use='dot')


def _filter(values: Array, half: int, derivative: int, step: float) -> Array:
    return savgol_filter(
        values, 2 * half + 1, _DEGREE, deriv=derivative, delta=step, axis=0, mode='nearest'
    )
