"""Noisy recordings of an arm, and how noisy they are."""

from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.errors import IdentificationError

Array = npt.NDArray[np.float64]
_ORDER = 5  # of differences
TELLING = 2 * _ORDER + 1  # samples, at least, to tell noise
POSITION_SHARE = 0.1  # of positions' noise in that of velocities and accelerations


class Recording(NamedTuple):
    """A motion, and the torques that it took, at n evenly spaced instants."""

    states: Array  # (3, n, nv) positions, velocities, accelerations
    torque: Array  # (n, nv)


class Noise(NamedTuple):
    """Standard deviations, of all samples or of each."""

    states: Array  # (3, nv) or (3, n, nv)
    torque: Array  # (nv,) or (n, nv)

    def of_each(self, n: int) -> 'Noise':
        """Return those of each of n samples."""
        nv = self.torque.shape[-1]
        states = np.broadcast_to(self.states.reshape(3, -1, nv), (3, n, nv))
        return Noise(states, np.broadcast_to(self.torque, (n, nv)))


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
    return np.sqrt(np.mean(rest**2, axis=-2) / comb(2 * _ORDER, _ORDER))


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


def noise_of(recording: Recording) -> Noise:
    """Return the noise that a recording shows."""
    return Noise(deviation(recording.states), deviation(recording.torque))


def add_noise(
    clean: Recording, states: float, torque: float, rng: np.random.Generator
) -> tuple[Recording, Noise]:
    """
    Return a recording with noise, and the noise.

    Shares are of each signal's own standard deviation; positions have a tenth of `states`.
    """
    share = states * np.array([POSITION_SHARE, 1.0, 1.0])[:, None]
    noise = Noise(share * clean.states.std(axis=1), torque * clean.torque.std(axis=0))
    seen = Recording(
        clean.states + noise.states[:, None] * rng.standard_normal(clean.states.shape),
        clean.torque + noise.torque * rng.standard_normal(clean.torque.shape),
    )
    return seen, noise
