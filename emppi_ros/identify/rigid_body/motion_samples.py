"""Noisy recordings of an arm, and how noisy they are."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.signal import savgol_coeffs, savgol_filter

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.noise import MIN_NOISE_SAMPLES, difference_noise
from emppi_ros.identify.common.signals import MIN_SAMPLES

Array = npt.NDArray[np.float64]
POSITION_SHARE = 0.1  # of positions' noise in that of velocities and accelerations
_POLYNOMIAL_DEGREE = 4  # of the polynomial: accelerations are parabolas
_MIN_HALF_WINDOW = 3  # samples on either side
_MIN_WINDOWS = 10  # windows in a recording, at least
_MAX_SAMPLES = 800  # samples that are kept: more take time, and say little
_DERIVATIVES = 0, 1, 2
_MIN_SPEED = 1e-6  # rad/s or m/s: slower has no sign


class MotionSamples(NamedTuple):
    """A motion, and the torques that it took, at n evenly spaced instants."""

    states: Array  # (3, n, nv) positions, velocities, accelerations
    torque: Array  # (n, nv)


class MotionNoise(NamedTuple):
    """Standard deviations, of all samples or of each."""

    states: Array  # (3, nv) or (3, n, nv)
    torque: Array  # (nv,) or (n, nv)

    def of_each(self, n: int) -> 'MotionNoise':
        """Return those of each of n samples."""
        nv = self.torque.shape[-1]
        states = np.broadcast_to(self.states.reshape(3, -1, nv), (3, n, nv))
        return MotionNoise(states, np.broadcast_to(self.torque, (n, nv)))


def estimate_noise(recording: MotionSamples) -> MotionNoise:
    """Return the noise that a recording shows."""
    return MotionNoise(difference_noise(recording.states), difference_noise(recording.torque))


def add_noise(
    clean: MotionSamples, states: float, torque: float, rng: np.random.Generator
) -> tuple[MotionSamples, MotionNoise]:
    """
    Return a recording with noise, and the noise.

    Shares are of each signal's own standard deviation; positions have a tenth of `states`.
    """
    share = states * np.array([POSITION_SHARE, 1.0, 1.0])[:, None]
    noise = MotionNoise(share * clean.states.std(axis=1), torque * clean.torque.std(axis=0))
    seen = MotionSamples(
        clean.states + noise.states[:, None] * rng.standard_normal(clean.states.shape),
        clean.torque + noise.torque * rng.standard_normal(clean.torque.shape),
    )
    return seen, noise


class DifferentiatedMotion(NamedTuple):
    """Samples that are apart as much as their noise is independent."""

    recording: MotionSamples
    noise: MotionNoise
    signs: Array  # (n, nv) of velocities, through the same window: what dry friction grows with
    window_s: float
    step_s: float  # between samples


def differentiate(
    position: Array,
    torque: Array,
    step: float,
    half: int | None = None,
    white: tuple[Array, Array] | None = None,
) -> DifferentiatedMotion:
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
    half = half or choose_window(position, sd, step)
    weights = np.stack([_weights(half, d, step) for d in _DERIVATIVES])
    size = np.sqrt(np.sum(weights**2, axis=1))
    apart = sample_stride(half, len(position))
    kept = slice(half, len(position) - half, apart)
    states = np.stack([_filter(position, half, d, step)[kept] for d in _DERIVATIVES])
    signs = np.tanh(_filter(position, half, 1, step) / np.maximum(size[1] * sd, _MIN_SPEED))
    return DifferentiatedMotion(
        MotionSamples(states, _filter(torque, half, 0, step)[kept]),
        MotionNoise(size[:, None] * sd, size[0] * own),
        _filter(signs, half, 0, step)[kept],
        (2 * half + 1) * step,
        apart * step,
    )


def choose_window(position: Array, sd: Array, step: float) -> int:
    """
    Return half a window, in samples: the longest that cuts off less than noise hides.

    Windows double as long as the accelerations of a window and of half of it differ by no more
    than noise (nv,) does. What a window cuts off grows with its fourth power, so that of the
    last one's half it is a sixteenth.
    """
    half = _MIN_HALF_WINDOW
    while 2 * half * 2 * _MIN_WINDOWS < len(position):
        inner = slice(2 * half, len(position) - 2 * half)
        longer, shorter = (_filter(position, h, 2, step)[inner] for h in (2 * half, half))
        weights = _weights(2 * half, 2, step)
        weights[half:-half] -= _weights(half, 2, step)
        expected = sd**2 * np.sum(weights**2)
        slack = 4.0 * np.sqrt(4.0 * half / len(longer))  # standard errors of such a mean
        if np.any(np.mean((longer - shorter) ** 2, axis=0) > (1.0 + slack) * expected):
            break
        half *= 2
    return max(half // 2, _MIN_HALF_WINDOW)


def sample_stride(half: int, samples: int) -> int:
    """Return by how many samples those that are kept are apart."""
    # of white noise a mean of k samples leaves 1 / k of the variance: so far apart they are new
    new = round(1.0 / float(np.sum(_weights(half, 0, 1.0) ** 2)))
    return max(new, -(-samples // _MAX_SAMPLES))


def _weights(half: int, derivative: int, step: float) -> Array:
    return savgol_coeffs(2 * half + 1, _POLYNOMIAL_DEGREE, deriv=derivative, delta=step, use='dot')


def _filter(values: Array, half: int, derivative: int, step: float) -> Array:
    return savgol_filter(
        values,
        2 * half + 1,
        _POLYNOMIAL_DEGREE,
        deriv=derivative,
        delta=step,
        axis=0,
        mode='nearest',
    )


class SampledSignals(NamedTuple):
    """What was measured at even times, and the noise that sensors show on clocks of their own."""

    position: Array  # (n, nv)
    torque: Array  # (n, nv)
    white: tuple[Array, Array]  # (nv,) and (nv,), standard deviations: to interpolate hides some


def split_samples(
    sample: Callable[[slice], SampledSignals], count: int, step: float, held_out: float
) -> tuple[DifferentiatedMotion, DifferentiatedMotion | None]:
    """
    Return what is learned from of `count` samples, and what is held out, their end.

    Neither knows of the other, but for the window. IdentificationError if one is too short.
    """
    end = count - int(held_out * count)
    if end < MIN_SAMPLES:
        raise IdentificationError(
            f'{end} samples are not held out, expected {MIN_SAMPLES}: hold out less, or record '
            'longer'
        )
    known = sample(slice(end))
    half = choose_window(known.position, known.white[0], step)

    def derived(part: SampledSignals) -> DifferentiatedMotion:
        return differentiate(part.position, part.torque, step, half, part.white)

    if end == count:
        return derived(known), None
    fewest = max(2 * half + 1, MIN_NOISE_SAMPLES)
    if count - end < fewest:
        raise IdentificationError(
            f'{(count - end) * step:.3g} s are held out, less than the window of '
            f'{fewest * step:.3g} s that accelerations need: hold out more, or nothing'
        )
    return derived(known), derived(sample(slice(end, None)))


def concatenate(parts: Sequence[DifferentiatedMotion]) -> tuple[MotionSamples, MotionNoise, Array]:
    """
    Return the samples of R recordings, each with its own noise, and what else torques have.

    That are (n, nv, 1 + R) signs of dry friction, which is the same in all, and an offset each.
    """
    counts = [len(part.recording.torque) for part in parts]
    noises = [part.noise.of_each(count) for part, count in zip(parts, counts, strict=True)]
    signs = np.concatenate([part.signs for part in parts])
    own = np.repeat(np.eye(len(parts)), counts, axis=0)
    offsets = np.broadcast_to(own[:, None], (*signs.shape, len(parts)))
    return (
        MotionSamples(*_concatenate_pairs([part.recording for part in parts])),
        MotionNoise(*_concatenate_pairs(noises)),
        np.concatenate([signs[:, :, None], offsets], axis=2),
    )


def _concatenate_pairs(
    pairs: Sequence[MotionSamples] | Sequence[MotionNoise],
) -> tuple[Array, Array]:
    states, torques = zip(*pairs, strict=True)
    return np.concatenate(states, axis=1), np.concatenate(torques)
