"""Checks of joints that move little or slowly, and of their measured velocities."""

import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings import matching
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal

TIME = 1e-3 * np.arange(10_000)


def look(size, rate=2.0, noise=1e-2, factor=1.0, rows=slice(None)):
    """Check a joint that swings by `size`, measured by an encoder and a tachometer."""
    rng = np.random.default_rng(0)
    position = size * np.sin(rate * TIME) + 1e-4 * rng.standard_normal(len(TIME))
    velocity = factor * size * rate * np.cos(rate * TIME) + noise * rng.standard_normal(len(TIME))
    signals = {
        'position': Signal('position', 'hinge', 'rad', TIME, position, 'position/hinge'),
        'velocity': Signal('velocity', 'hinge', 'rad/s', TIME[rows], velocity[rows], 'velocity'),
    }
    recording = Recording({(kind, 'hinge'): one for kind, one in signals.items()}, ())
    matching.check_motion(recording, signals['position'])


@pytest.mark.parametrize('size', [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize('noise', [1e-3, 1e-2, 3e-2])
def test_slow_joints_are_accepted(size, noise):
    look(size, noise=noise)


def test_fast_joints_are_not_taken_for_noise():
    look(0.02, rate=2.0 * np.pi * 20.0)


def test_velocities_of_pure_noise_are_not_compared():
    look(0.0)


def test_velocities_are_compared_where_they_were_measured():
    look(0.5, rows=slice(5000, None))
    with pytest.raises(IdentificationError, match=r'57.* times the velocity .*\(degrees\?\)'):
        look(0.5, factor=180.0 / np.pi, rows=slice(5000, None))
    look(0.5, factor=180.0 / np.pi, rows=slice(50))  # too few samples to compare
