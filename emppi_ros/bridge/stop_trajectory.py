"""
Short trajectories that start at the commanded state and always end at rest.

If the sender is lost, the robot continues for a moment and then brakes. All joints brake
together, which keeps the direction of motion; if the robot already brakes, or must brake at once,
each joint stops as quickly as it can. Jerk is constant between two points, so the quintic that a
joint_trajectory_controller fits to positions, velocities and accelerations is exactly this motion.
"""

import math

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge.joint_trajectory import MotionState, Trajectory
from emppi_ros.robots import franka_limits, velocity_bounds
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
JerkPhase = tuple[float, Array]  # duration [s] and jerk (joints,)
Triple = tuple[float, float, float]
_STILL = 1e-9  # rad/s or m/s: slower counts as rest
_SHORTEST_S = 1e-6  # between two points; messages have a resolution of 1 ns
_BETWEEN = np.linspace(0.0, 1.0, 6)  # where the motion between two points is checked
_HARDER = 5  # steps from the usable to the robot's full acceleration


def build(
    robot: Robot, state: MotionState, lead_s: float, hold_s: float, braking: bool = False
) -> Trajectory:
    """
    Return the trajectory that reaches `state` in `lead_s`, continues until `hold_s`, and brakes.

    If the robot is already `braking`, an end stop is too near, or an FR3 must be slower, each
    joint brakes at once with the usable acceleration, or more if that does not suffice, up to
    the robot's own limit.
    """
    a, j = velocity_bounds.usable_acceleration(robot), velocity_bounds.usable_jerk(robot)
    state = state._replace(acceleration=np.clip(state.acceleration, -a, a))
    if not braking:
        ramp = float(np.max(a / j))
        start, release = _release(robot, state, ramp, j)
        gently = state._replace(acceleration=start)
        for cruise in (max(0.0, hold_s - lead_s - ramp), 0.0):
            made = _integrate(gently, lead_s, _together(gently, release, cruise, a, j))
            if _within(robot, made):
                return made
    for factor in np.linspace(1.0, 1.0 / robot.dynamics_factor, _HARDER):
        made = _each_alone(state, lead_s, a * factor, j)
        if _within(robot, made):
            break
    return made


def _release(robot: Robot, state: MotionState, ramp: float, jerk: Array) -> tuple[Array, Array]:
    """
    Return initial accelerations (joints,), and the time to reduce each to zero.

    Reducing an acceleration changes the velocity, which must not pass rest or the limit: joints
    that are close to either take less time than `ramp`.
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
    """Return whether a trajectory stays within position limits and velocity envelopes."""
    limits, last = robot.limits.position, made.positions[-1]  # joints do not reverse before
    if np.any((last < np.array(limits.lower)) | (last > np.array(limits.upper))):
        return False
    if not franka_limits.envelopes(robot.published, robot.commanded):
        return True
    q, v, a = made.positions[:-1, None], made.velocities[:-1, None], made.accelerations[:-1, None]
    duration = np.diff(made.times)[:, None, None]
    jerk = np.diff(made.accelerations, axis=0)[:, None] / duration
    t = duration * _BETWEEN[:, None]
    down, up = franka_limits.velocity_envelope(
        robot.published, robot.commanded, q + t * (v + t * (a / 2 + t * jerk / 6))
    )
    speed = v + t * (a + t * jerk / 2)
    return bool(np.all((speed >= down) & (speed <= up)))


def _integrate(state: MotionState, lead: float, phases: list[JerkPhase]) -> Trajectory:
    """Return the points between phases of constant jerk, from a state at time `lead`."""
    q, v, a = state
    time, times, rows = lead, [lead], [state]
    for t, change in phases:
        q, v, a = (
            q + t * (v + t * (a / 2 + t * change / 6)),
            v + t * (a + t * change / 2),
            a + t * change,
        )
        time += t
        if time - times[-1] > _SHORTEST_S:
            times.append(time)
            rows.append(MotionState(q, v, a))
    # remove the rounding errors of velocity and acceleration
    rows[-1] = MotionState(q, np.zeros_like(q), np.zeros_like(q))
    positions, velocities, accelerations = map(np.array, zip(*rows, strict=True))
    return Trajectory(np.array(times), positions, velocities, accelerations)


def _together(
    state: MotionState, release: Array, wait: float, most: Array, jerk: Array
) -> list[JerkPhase]:
    """Return the phases that end accelerations, wait, and bring all joints to rest."""
    _, v, a = state
    ends = np.unique(release)
    spans = np.diff(ends, prepend=0.0)
    phases = [
        (span, np.where(release >= end, -a / release, 0.0))
        for span, end in zip(spans.tolist(), ends.tolist(), strict=True)
    ]
    phases.append((wait, np.zeros_like(a)))
    return phases + _brake(v + 0.5 * release * a, most, jerk)


def _brake(velocity: Array, most: Array, jerk: Array) -> list[JerkPhase]:
    """Return the phases that bring all joints to rest together."""
    moving = np.abs(velocity) > _STILL
    if not moving.any():
        return []
    # in units of the initial velocity, which falls from 1 to 0
    speed = np.abs(velocity[moving])
    a, j = float(np.min(most[moving] / speed)), float(np.min(jerk[moving] / speed))
    rise = min(a / j, j**-0.5)  # time to the full deceleration, or to the peak that can be reached
    full = max(0.0, 1.0 / (j * rise) - rise)
    if full <= _SHORTEST_S:  # too short for a point: fold it into both ramps
        rise, full = j**-0.5, 0.0
    return [(rise, -j * velocity), (full, np.zeros_like(velocity)), (rise, j * velocity)]


def _each_alone(state: MotionState, lead: float, most: Array, jerk: Array) -> Trajectory:
    """Return the trajectory in which each joint brakes at once, without synchronization."""
    alone = map(_stop, *(part.tolist() for part in (*state[1:], most, jerk)))
    acceleration, durations, jerks = map(np.array, zip(*alone, strict=True))
    ends = np.cumsum(durations, axis=1)  # of the phases of each joint (joints, 3)
    moments = np.unique(ends)
    spans = np.diff(moments, prepend=0.0)
    phase = np.sum((moments - spans / 2)[:, None, None] >= ends, axis=2)  # (moments, joints)
    changes = np.pad(jerks, ((0, 0), (0, 1)))[np.arange(len(jerk)), phase]
    first = state._replace(acceleration=acceleration)
    return _integrate(first, lead, list(zip(spans.tolist(), changes, strict=True)))


def _stop(v: float, a: float, most: float, jerk: float) -> tuple[float, Triple, Triple]:
    """
    Return the initial acceleration of one joint, and durations and jerks of three phases.

    This is its time-optimal stop: deceleration rises to a peak, stays there, and falls to zero at
    rest. An initial deceleration that would reverse the joint is reduced.
    """
    sign = 1.0 if v > 0.0 or (v == 0.0 and a > 0.0) else -1.0
    speed, along = sign * v, sign * a
    if speed <= _STILL and along <= 0.0:
        return 0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    along = max(along, -math.sqrt(2.0 * jerk * speed))
    peak = min(most, math.sqrt(jerk * speed + 0.5 * along**2))
    rise, fall = max(0.0, (along + peak) / jerk), peak / jerk
    full = max(0.0, (speed + 0.5 * along**2 / jerk) / peak - fall)
    return sign * along, (rise, full, fall), (-sign * jerk, 0.0, sign * jerk)
