"""Noisy recordings of an arm, and how noisy they are."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common.noise import difference_noise

Array = npt.NDArray[np.float64]
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


def noise_of(recording: Recording) -> Noise:
    """Return the noise that a recording shows."""
    return Noise(difference_noise(recording.states), difference_noise(recording.torque))


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
