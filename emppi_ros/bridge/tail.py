"""
Short trajectories that begin with what is commanded and always end at rest, by themselves.

Whoever receives one can lose its sender at any moment: it goes on for a moment, then brakes.
All joints brake together, so that the direction of motion stays. Between two points jerk is
constant, so that the quintic which a joint_trajectory_controller puts through position,
velocity and acceleration is exactly the motion meant here.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import clamping
from emppi_ros.tasks import published
from emppi_ros.tasks.robot import Robot

Array = npt.NDArray[np.float64]
_STILL = 1e-9  # rad/s or m/s: slower is rest, and no reason to wait for
_SHORTEST_S = 1e-6  # between two points: messages count nanoseconds
_BETWEEN = np.linspace(0.0, 1.0, 6)  # where on the way between two points it is looked at
_HARDER = 5  # steps from the usable to the robot's full acceleration


class State(NamedTuple):
    """A motion at one moment; each (joints,)."""

    position: Array
    velocity: Array
    acceleration: Array


class Trajectory(NamedTuple):
    """States at points in time, all after the moment at which it begins."""

    times: Array  # (n,) s, increasing
    positions: Array  # (n, joints)
    velocities: Array
    accelerations: Array
    braking: float  # s, when it begins to brake

    def state(self, i: int) -> State:
        """Return the state at a point."""
        return State(self.positions[i], self.velocities[i], self.accelerations[i])

    @property
    def end(self) -> float:
        """When it is at rest [s]."""
        return float(self.times[-1])


def build(robot: Robot, state: State, lead_s: float, hold_s: float) -> Trajectory:
    """
    Return the trajectory that reaches `state` in `lead_s`, goes on until `hold_s`, and brakes.

    Towards an end stop that is too near for this, or where an FR3 must be slower, it brakes at
    once; if that is not enough each joint brakes as hard as it can, and then harder, up to the
    robot's own acceleration.
    """
    a, j = clamping.usable_acceleration(robot), clamping.usable_jerk(robot)
    ramp = float(np.max(a / j))
    start, release = _release(robot, state, ramp, j)
    state = state._replace(acceleration=np.clip(start, -a, a))
    cruise = max(0.0, hold_s - lead_s - ramp)
    made = _integrate(state, lead_s, release, cruise, a, j)
    if _within(robot, made):
        return made
    made = _integrate(state, lead_s, release, 0.0, a, j)
    for factor in np.linspace(1.0, 1.0 / robot.dynamics_factor, _HARDER):
        if _within(robot, made):
            break
        made = _each_alone(state, lead_s, release, a * factor, j)
    return made


def _release(robot: Robot, state: State, ramp: float, jerk: Array) -> tuple[Array, Array]:
    """
    Return accelerations (joints,), and how long it takes to let go of each.

    That changes the velocity, but not past rest or the limit: a joint that is about to get there
    takes less than the time `ramp` of the others.
    """
    v, a = state.velocity, state.acceleration
    most = np.array(robot.limits.velocity)
    room = np.where(a * v < 0.0, np.abs(v), np.where(v == 0.0, 0.0, most - np.abs(v)))
    room = np.maximum(room, 0.0)
    most_a = np.sqrt(2.0 * jerk * room)
    a = np.where(most_a > _SHORTEST_S * jerk, np.clip(a, -most_a, most_a), 0.0)
    with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
        return a, np.where(a == 0.0, ramp, np.minimum(ramp, 2.0 * room / np.abs(a)))


def _within(robot: Robot, made: Trajectory) -> bool:
    """Return whether it ends within the limits of position, and is nowhere too fast."""
    limits, last = robot.limits.position, made.positions[-1]  # on its way it never turns back
    if np.any((last < np.array(limits.lower)) | (last > np.array(limits.upper))):
        return False
    if not published.envelopes(robot.published, robot.commanded):
        return True
    q, v, a = made.positions[:-1, None], made.velocities[:-1, None], made.accelerations[:-1, None]
    duration = np.diff(made.times)[:, None, None]
    jerk = np.diff(made.accelerations, axis=0)[:, None] / duration
    t = duration * _BETWEEN[:, None]
    down, up = published.velocity_envelope(
        robot.published, robot.commanded, q + t * (v + t * (a / 2 + t * jerk / 6))
    )
    speed = v + t * (a + t * jerk / 2)
    return bool(np.all((speed >= down) & (speed <= up)))


def _integrate(
    state: State, lead: float, release: Array, wait: float, most: Array, jerk: Array
) -> Trajectory:
    """Return the points between phases of constant jerk, from a state reached at `lead`."""
    q, v, a = state
    times, rows = [lead], [state]
    ends = np.unique(release)
    spans = np.diff(ends, prepend=0.0)
    phases = [
        (span, np.where(release >= end, -a / release, 0.0))
        for span, end in zip(spans.tolist(), ends.tolist(), strict=True)
    ]
    phases.append((wait, np.zeros_like(a)))
    phases += _brake(v + 0.5 * release * a, most, jerk)
    for duration, change in phases:
        if duration <= _SHORTEST_S:
            continue
        t = duration
        q, v, a = (
            q + t * (v + t * (a / 2 + t * change / 6)),
            v + t * (a + t * change / 2),
            a + t * change,
        )
        times.append(times[-1] + t)
        rows.append(State(q, v, a))
    # what rounding left of velocity and acceleration is rest
    rows[-1] = State(q, np.zeros_like(q), np.zeros_like(q))
    braking = lead + float(ends[-1]) + wait
    return Trajectory(np.array(times), *map(np.array, zip(*rows, strict=True)), braking)


def _brake(velocity: Array, most: Array, jerk: Array) -> list[tuple[float, Array]]:
    """Return (duration, jerk) of the phases that bring all joints to rest together."""
    moving = np.abs(velocity) > _STILL
    if not moving.any():
        return []
    # of the share of `velocity` that is left, from 1 to 0
    speed = np.abs(velocity[moving])
    a, j = float(np.min(most[moving] / speed)), float(np.min(jerk[moving] / speed))
    rise = min(a / j, j**-0.5)  # to the full deceleration, or as far as there is time for
    full = max(0.0, 1.0 / (j * rise) - rise)
    if full <= _SHORTEST_S:  # left out, it would be missed; half of it each way is no harm
        rise, full = j**-0.5, 0.0
    return [(rise, -j * velocity), (full, np.zeros_like(velocity)), (rise, j * velocity)]


def _each_alone(state: State, lead: float, release: Array, most: Array, jerk: Array) -> Trajectory:
    """Return the points where each joint brakes as soon as it can, without waiting for others."""
    rows = [slice(i, i + 1) for i in range(len(most))]
    alone = [
        _integrate(State(*(part[r] for part in state)), lead, release[r], 0.0, most[r], jerk[r])
        for r in rows
    ]
    times = np.unique(np.concatenate([made.times for made in alone]))
    times = times[np.diff(times, append=np.inf) > _SHORTEST_S]
    states = [[sample(made, made.state(0), t) for t in times] for made in alone]
    parts = [np.array([[s[k][0] for s in row] for row in states]).T for k in range(3)]
    for part in parts[1:]:
        part[-1] = 0.0
    return Trajectory(times, *parts, lead + float(np.max(release)))


class Segment(NamedTuple):
    """The way between two points: a quintic of the time from its begin."""

    begin: float  # s
    end: float
    coefficients: Array  # (6, joints), of t^0 .. t^5

    def state(self, time: float) -> State:
        """Return the state at a time."""
        t = time - self.begin
        t2, t3, t4 = t * t, t**3, t**4
        powers = (
            (1.0, t, t2, t3, t4, t2 * t3),
            (0.0, 1.0, 2 * t, 3 * t2, 4 * t3, 5 * t4),
            (0.0, 0.0, 2.0, 6 * t, 12 * t2, 20 * t3),
        )
        return State(*(np.array(powers) @ self.coefficients))


def segment(trajectory: Trajectory, before: State, time: float, taken: float = 0.0) -> Segment:
    """Return where a time lies, if it was in `before` when it was `taken`; rest after its end."""
    i = int(np.searchsorted(trajectory.times, time, side='right'))
    if i == len(trajectory.times):
        last = trajectory.state(-1)
        return Segment(
            trajectory.end, np.inf, np.array([last.position, *np.zeros((5, len(last.position)))])
        )
    begin, end = taken if i == 0 else float(trajectory.times[i - 1]), float(trajectory.times[i])
    first = before if i == 0 else trajectory.state(i - 1)
    return Segment(begin, end, _quintic(first, trajectory.state(i), end - begin))


def sample(trajectory: Trajectory, before: State, time: float, taken: float = 0.0) -> State:
    """Return the state at a time, if it was in `before` when it was `taken`; rest at its end."""
    return segment(trajectory, before, time, taken).state(time)


def _quintic(a: State, b: State, duration: float) -> Array:
    """Return the coefficients (6, joints) of the way from one state to another."""
    T = duration  # noqa: N806
    # what constant acceleration from `a` would miss at the end
    q = (b.position - a.position - T * (a.velocity + T * a.acceleration / 2)) / T**3
    v = (b.velocity - a.velocity - T * a.acceleration) / T**2
    w = (b.acceleration - a.acceleration) / T
    c3, c4, c5 = 10 * q - 4 * v + w / 2, (-15 * q + 7 * v - w) / T, (6 * q - 3 * v + w / 2) / T**2
    return np.array([a.position, a.velocity, a.acceleration / 2, c3, c4, c5])
