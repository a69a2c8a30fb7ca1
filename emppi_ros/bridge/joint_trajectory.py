"""
Joint trajectories, interpolated as a joint_trajectory_controller does.

Quintics join consecutive points, and the desired state at acceptance with the first future point.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class MotionState(NamedTuple):
    """Position, velocity and acceleration at one moment, each (joints,)."""

    position: Array
    velocity: Array
    acceleration: Array


def at_rest(position: Array) -> MotionState:
    """Return the state of an arm that rests at a position."""
    zero = np.zeros_like(position)
    return MotionState(position.copy(), zero, zero)


class Trajectory(NamedTuple):
    """Points of a trajectory, at times from its start."""

    times: Array  # (n,) s, increasing
    positions: Array  # (n, joints)
    velocities: Array
    accelerations: Array

    def state(self, i: int) -> MotionState:
        """Return the state at a point."""
        return MotionState(self.positions[i], self.velocities[i], self.accelerations[i])

    @property
    def end(self) -> float:
        """When it is at rest [s]."""
        return float(self.times[-1])


class Segment(NamedTuple):
    """The motion between two points: a quintic in the time since `begin`."""

    begin: float  # s
    end: float
    coefficients: Array  # (6, joints), of t^0 .. t^5

    def state(self, time: float) -> MotionState:
        """Return the state at a time."""
        t = time - self.begin
        t2, t3, t4 = t * t, t**3, t**4
        powers = (
            (1.0, t, t2, t3, t4, t2 * t3),
            (0.0, 1.0, 2 * t, 3 * t2, 4 * t3, 5 * t4),
            (0.0, 0.0, 2.0, 6 * t, 12 * t2, 20 * t3),
        )
        return MotionState(*(np.array(powers) @ self.coefficients))


def segment(
    trajectory: Trajectory, before: MotionState, time: float, accepted: float = 0.0
) -> Segment:
    """Return the segment at a time; `before` is the state when the trajectory was `accepted`."""
    i = int(np.searchsorted(trajectory.times, time, side='right'))
    if i == len(trajectory.times):
        last = trajectory.state(-1)
        return Segment(
            trajectory.end, np.inf, np.array([last.position, *np.zeros((5, len(last.position)))])
        )
    begin, end = accepted if i == 0 else float(trajectory.times[i - 1]), float(trajectory.times[i])
    first = before if i == 0 else trajectory.state(i - 1)
    return Segment(begin, end, _quintic(first, trajectory.state(i), end - begin))


def sample(
    trajectory: Trajectory, before: MotionState, time: float, accepted: float = 0.0
) -> MotionState:
    """Return the state at a time; `before` is the state when the trajectory was `accepted`."""
    return segment(trajectory, before, time, accepted).state(time)


def _quintic(a: MotionState, b: MotionState, duration: float) -> Array:
    """Return the coefficients (6, joints) of the quintic from one state to another."""
    T = duration  # noqa: N806
    # the error at the end with constant acceleration from `a`
    q = (b.position - a.position - T * (a.velocity + T * a.acceleration / 2)) / T**3
    v = (b.velocity - a.velocity - T * a.acceleration) / T**2
    w = (b.acceleration - a.acceleration) / T
    c3, c4, c5 = 10 * q - 4 * v + w / 2, (-15 * q + 7 * v - w) / T, (6 * q - 3 * v + w / 2) / T**2
    return np.array([a.position, a.velocity, a.acceleration / 2, c3, c4, c5])
