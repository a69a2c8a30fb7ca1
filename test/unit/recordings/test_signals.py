"""The mean of a command over a time step, when it changes at any time."""

import numpy as np
import pytest

from emppi_ros.recordings.signals import Signal, hold, triangle_average


@pytest.fixture
def command():
    """Return a command that changes at uneven times."""
    rng = np.random.default_rng(0)
    time = np.cumsum(rng.uniform(0.01, 0.04, 50))
    return Signal('command', 'motor', 'N', time, rng.standard_normal(50), 'here')


def positions(command, time):
    """Return the exact positions (n,) of a unit mass under a piecewise constant force."""
    found = np.zeros(len(time))
    for value, change in zip(np.diff(command.values, prepend=0.0), command.time, strict=True):
        found += 0.5 * value * np.maximum(time - change, 0.0) ** 2
    return found


def test_a_mass_is_accelerated_by_the_triangular_average(command):
    step = 0.03
    time = np.arange(command.time[0] + step, command.time[-1] - step, step)
    away = [positions(command, time + i * step) for i in (-1, 0, 1)]
    accelerations = (away[0] - 2.0 * away[1] + away[2]) / step**2
    # rounding of positions of up to 1 m, over the square of a step
    np.testing.assert_allclose(triangle_average(command, time, step), accelerations, atol=1e-11)


def test_the_average_over_a_short_step_is_the_held_value(command):
    time = 0.5 * (command.time[:-1] + command.time[1:])
    np.testing.assert_allclose(
        triangle_average(command, time, 1e-3), hold(command, time), atol=1e-8
    )


def test_a_command_holds_after_its_last_sample(command):
    late = command.time[-1:] + 0.02
    np.testing.assert_allclose(
        triangle_average(command, late, 0.01), command.values[-1:], atol=1e-9
    )
