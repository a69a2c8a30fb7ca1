"""Whether what reached the arm is gentle: commands of 1 kHz, differentiated."""

import numpy as np

from emppi_ros.robots.robot import load_robot

ROUNDING = 1.001  # commands are doubles, but limits are met exactly


def derivatives(rows):
    """
    Return acceleration and jerk (n, 7) of commands, backwards, where none was lost near by.

    What the robot makes up for a command that came late is not ours; nor is its return to ours.
    """
    velocity, ids = rows['dq_c'], rows['id']
    steady = np.concatenate([[False], np.diff(ids) == 1]) & (rows['extrapolated'] == 0)
    near = np.convolve(~steady, np.ones(41), 'same') > 0  # 20 ms before and after
    acceleration = np.diff(velocity, axis=0) / 1e-3
    jerk = np.diff(acceleration, axis=0) / 1e-3
    return acceleration[~near[1:]], jerk[~near[2:]]


def assert_gentle(rows):
    """Assert half the acceleration and a fifth of the jerk."""
    limits = load_robot('fr3').limits
    acceleration, jerk = derivatives(rows)
    assert len(jerk) > 0.5 * len(rows)
    assert np.all(np.abs(acceleration) <= ROUNDING * 0.5 * np.array(limits.acceleration))
    assert np.all(np.abs(jerk) <= ROUNDING * 0.2 * np.array(limits.jerk))
