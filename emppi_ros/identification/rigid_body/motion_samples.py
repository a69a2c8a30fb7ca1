"""
Samples of motion and torque, with velocities and accelerations by differentiating positions.

A Savitzky-Golay filter fits a polynomial to a window of samples, for torques the same. It has no
lag, and white noise of positions enters each derivative times the norm of its weights.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.signal import savgol_coeffs, savgol_filter

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings.noise import MIN_NOISE_SAMPLES
from emppi_ros.recordings.signals import MIN_SAMPLES

_POLYNOMIAL_DEGREE = 4  # accelerations are parabolas
_MIN_HALF_WINDOW = 3  # samples on either side
_MIN_WINDOWS = 10  # per recording
_MAX_SAMPLES = 800  # more samples cost time and add little information
_DERIVATIVES = 0, 1, 2
_MIN_SPEED = 1e-6  # rad/s or m/s: scale below which velocities have no sign


class MotionSamples(NamedTuple):
    """Motion and torques of an arm at n evenly spaced instants, or their standard deviations."""

    states: Array  # (3, n, nv) positions, velocities, accelerations; (3, nv) if all are equal
    torque: Array  # (n, nv) or (nv,)

    def of_each(self, n: int) -> 'MotionSamples':
        """Return the standard deviations of each of n samples."""
        nv = self.torque.shape[-1]
        states = np.broadcast_to(self.states.reshape(3, -1, nv), (3, n, nv))
        return MotionSamples(states, np.broadcast_to(self.torque, (n, nv)))


class DifferentiatedMotion(NamedTuple):
    """Samples far enough apart for their noise to be independent."""

    samples: MotionSamples
    noise: MotionSamples  # standard deviations
    signs: Array  # (n, nv) filtered signs of velocities: the shape of dry friction
    window_s: float
    step_s: float  # between samples


def differentiate(
    position: Array, torque: Array, step: float, half: int, white: tuple[Array, Array]
) -> DifferentiatedMotion:
    """
    Return states and torques along a motion, without the ends that no window covers.

    Samples of `position` and `torque` (n, nv), with standard deviations `white` (nv,), are `step`
    seconds apart; `half` is half the window in samples.
    """
    sd, torque_sd = white
    weights = np.stack([_weights(half, d, step) for d in _DERIVATIVES])
    size = np.sqrt(np.sum(weights**2, axis=1))
    stride = sample_stride(half, len(position))
    kept = slice(half, len(position) - half, stride)
    states = np.stack([_filter(position, half, d, step)[kept] for d in _DERIVATIVES])
    signs = np.tanh(_filter(position, half, 1, step) / np.maximum(size[1] * sd, _MIN_SPEED))
    return DifferentiatedMotion(
        MotionSamples(states, _filter(torque, half, 0, step)[kept]),
        MotionSamples(size[:, None] * sd, size[0] * torque_sd),
        _filter(signs, half, 0, step)[kept],
        (2 * half + 1) * step,
        stride * step,
    )


def choose_window(
    position: Array, sd: Array, step: float, tolerance: Array | float
) -> tuple[int, Array]:
    """
    Return half the window, in samples: the longest with a bias below the noise; and factors (nv,).

    The window doubles while the slow part of the difference of accelerations between a window and
    half of it, which is bias, is no more than their noise times a `tolerance`. The result is half
    of the last window, with a sixteenth of its bias. The factors, at least 1, are those by which
    noise at the frequencies of the window exceeds white noise with the standard deviations `sd`.
    """
    half, factors = _MIN_HALF_WINDOW, {0: np.ones_like(sd)}
    while 2 * half * 2 * _MIN_WINDOWS < len(position):
        inner = slice(2 * half, len(position) - 2 * half)
        longer, shorter = (_filter(position, h, 2, step)[inner] for h in (2 * half, half))
        weights = _weights(2 * half, 2, step)
        weights[half:-half] -= _weights(half, 2, step)
        expected, most = (x**2 * np.sum(weights**2) for x in (sd, tolerance * sd))
        slack = 4.0 * np.sqrt(4.0 * half / len(longer))  # four standard errors of the mean
        change = longer - shorter
        variance = np.mean(change**2, axis=0)
        slow = np.mean(uniform_filter1d(change, 4 * half + 1, axis=0) ** 2, axis=0)
        excess = variance / np.maximum(expected, np.finfo(float).tiny)
        factors[half] = np.where(excess > 1.0 + slack, np.sqrt(excess), 1.0)
        if np.any(slow > slack * most):
            break
        half *= 2
    chosen = max(half // 2, _MIN_HALF_WINDOW)
    shorter_ones = [factor for length, factor in factors.items() if length <= chosen]
    return chosen, np.max(shorter_ones[-2:], axis=0)


def sample_stride(half: int, samples: int) -> int:
    """Return the distance, in samples, of those that are kept."""
    # a mean of k samples has 1 / k of the variance of white noise; samples k apart are independent
    new = round(1.0 / float(np.sum(_weights(half, 0, 1.0) ** 2)))
    return max(new, -(-samples // _MAX_SAMPLES))


def _weights(half: int, derivative: int, step: float) -> Array:
    return savgol_coeffs(2 * half + 1, _POLYNOMIAL_DEGREE, deriv=derivative, delta=step, use='dot')


def _filter(values: Array, half: int, derivative: int, step: float) -> Array:
    window, degree = 2 * half + 1, _POLYNOMIAL_DEGREE
    return savgol_filter(values, window, degree, derivative, step, axis=0, mode='nearest')


class SampledSignals(NamedTuple):
    """Evenly sampled signals, and the noise of sensors before interpolation."""

    position: Array  # (n, nv)
    torque: Array  # (n, nv)
    white: tuple[Array, Array]  # (nv,) and (nv,) standard deviations: interpolation hides some


def split_samples(
    sample: Callable[[slice], SampledSignals],
    count: int,
    step: float,
    held_out: float,
    tolerance: Array | float,
) -> tuple[DifferentiatedMotion, DifferentiatedMotion | None]:
    """
    Return the training part of `count` samples, and the held-out end (None without one).

    The bias of the window may be as large as the noise, times a `tolerance` of each joint (nv,).
    The end has a window for forecasts. IdentificationError if a part is too short.
    """
    end = count - int(held_out * count)
    if end < MIN_SAMPLES:
        raise IdentificationError(
            f'{end} samples are not held out, expected {MIN_SAMPLES}: hold out less, or record '
            'longer'
        )
    training = sample(slice(end))
    half, factors = choose_window(training.position, training.white[0], step, tolerance)
    noise = factors * training.white[0], training.white[1]
    motion = differentiate(training.position, training.torque, step, half, noise)
    if end == count:
        return motion, None
    fewest = max(2 * half + 1, MIN_NOISE_SAMPLES)
    if count - end < fewest:
        raise IdentificationError(
            f'{(count - end) * step:.3g} s are held out, less than the window of '
            f'{fewest * step:.3g} s for accelerations: hold out more, or nothing'
        )
    later = sample(slice(end, None))
    noise = factors * later.white[0], later.white[1]
    longer, bias = forecast_window(later.position, noise[0], step, half)
    held = differentiate(later.position, later.torque, step, longer, noise)
    states = held.noise.states
    states[2] = np.hypot(states[2], bias)
    return motion, held


def forecast_window(position: Array, sd: Array, step: float, least: int) -> tuple[int, Array]:
    """
    Return half the window with the smallest error of accelerations, at least `least`; and biases.

    Forecasts, unlike estimates, do not average over noise: the sum of noise and bias counts,
    relative to the accelerations of each joint. The bias (nv,) of a window is at most the average
    change from one of half the length.
    """
    half, bias = least, np.zeros_like(sd)
    smallest, best = np.inf, (half, bias)
    while 2 * half * _MIN_WINDOWS < len(position):
        variance = _filter(position, half, 2, step)[half:-half].var(axis=0)
        noise = sd * np.linalg.norm(_weights(half, 2, step))
        error = float(np.mean((noise**2 + bias**2) / np.maximum(variance, noise**2)))
        if error < smallest:
            smallest, best = error, (half, bias)
        half *= 2
        change = _filter(position, half, 2, step) - _filter(position, half // 2, 2, step)
        slow = uniform_filter1d(change[half:-half], 2 * half + 1, axis=0)
        bias = np.sqrt(np.mean(slow**2, axis=0))
    return best


def concatenate(parts: Sequence[DifferentiatedMotion]) -> tuple[MotionSamples, MotionSamples]:
    """Return the samples of several recordings, and the standard deviations of each."""
    noises = [part.noise.of_each(len(part.samples.torque)) for part in parts]
    samples, noise = (
        MotionSamples(
            np.concatenate([part.states for part in of], axis=1),
            np.concatenate([part.torque for part in of]),
        )
        for of in ([part.samples for part in parts], noises)
    )
    return samples, noise
