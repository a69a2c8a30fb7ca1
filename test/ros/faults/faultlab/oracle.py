"""
What the arm was told to do, millisecond by millisecond, and whether it was told so in limits.

Nothing here comes from the bridge: limits are copied from Franka's documents once more, and
quintics are solved by their six conditions. A joint_trajectory_controller's rule is: from where
the arm is to be when a trajectory arrives, through those of its points that are not past, then
rest.
"""

from typing import NamedTuple

import numpy as np

DT = 1e-3  # s, a cycle of Franka's controllers
STILL = 1e-6  # rad/s: slower is rest


class Limits(NamedTuple):
    """What a robot itself stops at, joints 1 to 7."""

    velocity: np.ndarray  # rad/s
    acceleration: np.ndarray  # rad/s^2
    jerk: np.ndarray  # rad/s^3


# Franka's documentation, control-parameters-joint-fer.csv
PANDA = Limits(
    np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61]),
    np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0]),
    np.array([7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0]),
)
SHARES = Limits(np.array(1.0), np.array(0.5), np.array(0.2))  # of them, that may be used


class Sent(NamedTuple):
    """A trajectory message: when it came [s], and from when its times count."""

    time: float
    start: float
    times: np.ndarray  # (n,) s
    positions: np.ndarray  # (n, joints)
    velocities: np.ndarray
    accelerations: np.ndarray


class Motion(NamedTuple):
    """Commanded velocities on a grid of time."""

    times: np.ndarray  # (n,) s
    velocities: np.ndarray  # (n, joints)


def executed(start: np.ndarray, sent: list[Sent], begin: float, end: float) -> Motion:
    """Return what a controller at 1 kHz makes of trajectories, from rest at `start` (joints,)."""
    zero = np.zeros_like(start)
    times = np.arange(begin, end, DT)
    velocities = np.zeros((len(times), len(start)))
    desired = (start, zero, zero)
    # messages are read at the beginning of a cycle, the first one after they came
    taken = [begin + DT * np.ceil((one.time - begin) / DT - 1e-6) for one in sent]
    for k, one in enumerate(sent):
        until = taken[k + 1] if k + 1 < len(sent) else np.inf
        left = int(np.searchsorted(one.start + one.times, taken[k] + 1e-9))  # not past
        points = list(zip(one.positions, one.velocities, one.accelerations, strict=True))
        knots = np.concatenate([[taken[k]], one.start + one.times[left:]])
        states = [desired, *points[left:]]
        for i in range(len(knots) - 1):
            low, high = knots[i], min(knots[i + 1], until)
            if low >= until:
                break
            ways = _quintic(states[i], states[i + 1], knots[i + 1] - knots[i])
            rows = slice(*np.searchsorted(times, [low, high]))
            velocities[rows] = _at(ways, times[rows] - low, 1)
            if high == until:
                desired = tuple(_at(ways, np.array([until - low]), d)[0] for d in range(3))
        if until >= knots[-1]:
            desired = (one.positions[-1], zero, zero)
    return Motion(times, velocities)


def _quintic(a, b, duration):
    """Return coefficients (6, joints) of s^0 .. s^5, s = t / duration, by their conditions."""
    scale = duration ** np.arange(3)[:, None]
    left, right = np.array(a) * scale, np.array(b) * scale
    return _INVERSE @ np.vstack([left, right]), duration


_INVERSE = np.linalg.inv(
    np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0],
            [0, 0, 2, 0, 0, 0],
            [1, 1, 1, 1, 1, 1],
            [0, 1, 2, 3, 4, 5],
            [0, 0, 2, 6, 12, 20],
        ],
        dtype=float,
    )
)


def _at(way, times, derivative):
    """Return a derivative (n, joints) at times from the beginning of a way."""
    coefficients, duration = way
    for _ in range(derivative):
        coefficients = coefficients[1:] * np.arange(1, len(coefficients))[:, None]
    powers = (times[:, None] / duration) ** np.arange(len(coefficients))
    return powers @ coefficients / duration**derivative


def final_position(start: np.ndarray, sent: list[Sent]) -> np.ndarray:
    """Return where it all ends, (joints,)."""
    return sent[-1].positions[-1] if sent else start


class Peaks(NamedTuple):
    """The largest share of what is allowed, 1 being the most that may be."""

    velocity: float
    acceleration: float
    jerk: float


def peaks(motion: Motion, limits: Limits = PANDA) -> Peaks:
    """
    Return how much of its share of the limits a motion takes, by differences.

    Accelerations are those between two samples, and lie half-way between them: on an even grid
    this is the plain difference, on that of a sender its own intervals count.
    """
    v, t = motion.velocities, motion.times
    if len(t) < 3:
        return Peaks(0.0, 0.0, 0.0)
    steps = np.diff(t)
    acceleration = np.diff(v, axis=0) / steps[:, None]
    jerk = np.diff(acceleration, axis=0) / (0.5 * (steps[1:] + steps[:-1]))[:, None]
    return Peaks(
        *(
            float(np.max(np.abs(values) / (share * limit)))
            for values, share, limit in zip((v, acceleration, jerk), SHARES, limits, strict=True)
        )
    )


def onset(motion: Motion, since: float, gentle: float) -> float:
    """
    Return when braking begins [s]: the first moment a joint slows down by more than `gentle`.

    `gentle` [rad/s^2] is what the plans themselves may ask for; it is passed within a millisecond
    of braking, so that the onset is never given too early. NaN if there is none.
    """
    speed = np.abs(motion.velocities)
    slowing = -np.diff(speed, axis=0) / np.diff(motion.times)[:, None]
    rows = np.flatnonzero((slowing.max(axis=1) > gentle) & (motion.times[:-1] >= since))
    return float(motion.times[rows[0]]) if len(rows) else np.nan


def _speed(motion):
    return np.abs(motion.velocities).max(axis=1, initial=0.0)


def speed(motion: Motion, moment: float) -> float:
    """Return how fast the fastest joint is to be at a moment [rad/s]."""
    row = min(int(np.searchsorted(motion.times, moment)), len(motion.times) - 1)
    return float(_speed(motion)[row])


def first_rest(motion: Motion, since: float) -> float:
    """Return when it is at rest for the first time from a moment on [s]; inf if never."""
    rows = np.flatnonzero((_speed(motion) <= STILL) & (motion.times >= since))
    return float(motion.times[rows[0]]) if len(rows) else np.inf


def moves(motion: Motion, since: float) -> bool:
    """Return whether anything moves from a moment on."""
    return bool(np.any((_speed(motion) > STILL) & (motion.times >= since)))


def reversal(motion: Motion, since: float, until: float) -> float:
    """Return the fastest any joint moves against its own direction at `since` [rad/s]."""
    rows = slice(*np.searchsorted(motion.times, [since, until]))
    if rows.start >= min(rows.stop, len(motion.times)):
        return 0.0
    v = motion.velocities[rows]
    return max(0.0, float(np.max(-np.sign(v[0]) * v)))
