"""
Check joint states, and whether the robot moves as commanded.

Pure functions of the messages and the commands, on one monotonic clock. The sender's stamps only
order messages: one that repeats the newest stamp or arrives out of order is not used, so that the
age of the joint states grows.
"""

from bisect import bisect_right
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import faults
from emppi_ros.bridge.faults import Fault
from emppi_ros.core.config import positive
from emppi_ros.robots import continuous_joints
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
NEVER = 1e9  # a threshold that is never reached
_LEAST_SHARE, _ALIKE = 0.05, 0.1  # of a common share of the commands, and deviations from it
REORDERED_S = 1.0  # a stamp that is older by more than this means that the sender's clock was set


@dataclass(frozen=True)
class MonitorConfig:
    """Thresholds of the monitors; for prismatic joints read rad as m."""

    jump_rad: float = positive(
        0.05, doc='tolerated step between joint states, in addition to motion at the limit'
    )
    beyond_limits_rad: float = positive(0.1, doc='tolerated position beyond the limits')
    overspeed_ratio: float = positive(1.5, doc='tolerated ratio of a velocity to its limit')
    frozen_after_s: float = positive(0.05, doc='how long joint states may stay bit-identical')
    frozen_travel_rad: float = positive(
        0.005, doc='commanded travel meanwhile; above the resolution of the encoders'
    )
    residual_rad_per_s: float = positive(
        0.1, doc='tolerated deviation from the commanded velocity, at least'
    )
    residual_ratio: float = positive(0.25, doc='the same as a share of the commanded velocity')
    residual_window_s: float = positive(
        0.06, doc='duration of the commands to compare with, for latency and lag'
    )
    residual_after_s: float = positive(0.1, doc='how long the tolerance may be exceeded')


class Measurement(NamedTuple):
    """A joint state."""

    time: float  # s, arrival, on the monotonic clock
    stamp: float  # s, the sender's clock; 0 if it does not stamp
    position: Array  # (joints,) of the commanded joints
    velocity: Array  # (joints,)


class CommandWindow(NamedTuple):
    """Commands of the last moments, and the velocities that they allow."""

    times: tuple[float, ...]  # s; the first is the one in force when the window begins
    values: Array  # (n, joints) velocities from then on
    lower: Array  # (joints,) that may be measured
    upper: Array


class MonitorState(NamedTuple):
    """State of the monitors between two messages."""

    fault: Fault | None = None  # of the newest measurement only
    used: bool = True  # whether the last measurement counted as new
    last: Measurement | None = None  # that was used
    newest_stamp: float = 0.0  # of the used messages that had one
    set_back: tuple[float, float] = (-math.inf, -math.inf)  # when stamps went far back, last two
    same_since: float = -math.inf  # equal joint states while a motion was commanded
    travel: float = 0.0  # rad or m of the fastest joint, commanded since then
    commanded: CommandWindow | None = None
    off_since: Array | None = None  # (joints,) beyond the residual; infinite for those within
    off_from: Measurement | None = None  # when the present excess of any joint began


def measure(
    config: MonitorConfig, robot: Robot, state: MonitorState, measurement: Measurement
) -> MonitorState:
    """Return the state after a measurement; check its `fault` and `used` every time."""
    time, stamp, last = measurement.time, measurement.stamp, state.last
    if len(robot.continuous):
        position, before = measurement.position, None if last is None else last.position
        position = continuous_joints.unwrap(robot, robot.commanded, position, before)
        measurement = measurement._replace(position=position)
    if stamp != 0.0:
        older = state.newest_stamp - stamp
        if state.newest_stamp != 0.0 and 0.0 <= older <= REORDERED_S:
            return state._replace(used=False)
        if older > REORDERED_S and state.newest_stamp != 0.0:
            state = state._replace(set_back=(state.set_back[1], time))
        state = state._replace(newest_stamp=stamp)
    if last is None or not _equal(last, measurement):
        state = state._replace(same_since=time, travel=0.0)
    off_since = _off_since(state, measurement)
    off_from = None if off_since is None else state.off_from or measurement
    state = state._replace(off_since=off_since, off_from=off_from)
    fault = (
        _check_sources(time - state.set_back[0])
        or _check_bounds(config, robot, measurement)
        or _check_jump(config, robot, last, measurement)
        or _check_frozen(config, robot, state, measurement)
        or _check_residual(config, robot, state, measurement)
    )
    return state._replace(fault=fault, used=True, last=measurement)


def command(
    config: MonitorConfig, robot: Robot, state: MonitorState, now: float, velocity: Array
) -> MonitorState:
    """
    Return the state after a cycle of the bridge; `fault` stays.

    `velocity` (joints,) is in force from now on. Robots commanded by effort have none.
    """
    if robot.command == 'effort':
        return state
    before = state.commanded
    if before is None:
        times: tuple[float, ...] = (now,)
        values = velocity[None].copy()
    else:
        first = max(0, bisect_right(before.times, now - config.residual_window_s) - 1)
        times = (*before.times[first:], now)
        values = np.concatenate((before.values[first:], velocity[None]))
        began = max(before.times[-1], state.same_since)
        travel = state.travel + float(np.abs(before.values[-1]).max()) * max(0.0, now - began)
        if not values.any():
            travel = 0.0  # joint states of a robot at rest may stay equal
        since = now if travel == 0.0 else state.same_since
        state = state._replace(travel=travel, same_since=since)
    lowest, highest = values.min(axis=0), values.max(axis=0)
    allowed = np.maximum(
        config.residual_rad_per_s, config.residual_ratio * np.maximum(-lowest, highest)
    )
    return state._replace(
        commanded=CommandWindow(times, values, lowest - allowed, highest + allowed)
    )


def _equal(a: Measurement, b: Measurement) -> bool:
    """Return whether two joint states are equal bit by bit."""
    return (
        a.position.tobytes() == b.position.tobytes()
        and a.velocity.tobytes() == b.velocity.tobytes()
    )


def _off_since(state: MonitorState, measurement: Measurement) -> Array | None:
    """Return since when each joint is beyond its residual (joints,); None if all are within."""
    if state.commanded is None:
        return None
    velocity = measurement.velocity
    off = (velocity < state.commanded.lower) | (velocity > state.commanded.upper)
    if not off.any():
        return None
    before = math.inf if state.off_since is None else state.off_since
    return np.where(off, np.minimum(before, measurement.time), math.inf)


def _check_sources(elapsed: float) -> Fault | None:
    """Return a fault if stamps went far back twice, the first time `elapsed` [s] ago."""
    if elapsed > REORDERED_S:
        return None
    return Fault(
        faults.STATE_JUMP,
        f'the stamps of joint states went back by more than {REORDERED_S:g} s twice within '
        f'{elapsed:.3f} s: two sources publish them in turn, such as a bag played beside the '
        'robot; run only one of them',
    )


def _check_bounds(config: MonitorConfig, robot: Robot, measurement: Measurement) -> Fault | None:
    """Return a fault if a position or velocity is far outside of the robot's limits."""
    position, velocity = measurement.position, measurement.velocity
    lower, upper = robot.limits.position.lower, robot.limits.position.upper
    margin = config.beyond_limits_rad
    inside = (position >= np.subtract(lower, margin)) & (position <= np.add(upper, margin))
    if not inside.all():  # NaN is not inside
        i = int(np.argmin(inside))
        return Fault(
            faults.STATE_RANGE,
            f'{robot.commanded[i]} is at {position[i]:.3f}, but its limits are {lower[i]:g} to '
            f'{upper[i]:g} (rad or m): is this the configured robot, {robot.name!r}?',
        )
    limit = robot.limits.velocity
    slow = np.abs(velocity) <= np.multiply(limit, config.overspeed_ratio)
    if slow.all():
        return None
    i = int(np.argmin(slow))
    return Fault(
        faults.STATE_RANGE,
        f'{robot.commanded[i]} moves at {velocity[i]:.3f}, but its limit is {limit[i]:g} (rad/s '
        f'or m/s): is this the configured robot, {robot.name!r}?',
    )


def _check_jump(
    config: MonitorConfig, robot: Robot, last: Measurement | None, measurement: Measurement
) -> Fault | None:
    """Return a fault if a joint moved further than its velocity limit allows."""
    if last is None:
        return None
    before, position = last.position, measurement.position
    elapsed = max(0.0, measurement.time - last.time)
    step = np.abs(position - before)
    reach = np.multiply(robot.limits.velocity, elapsed) + config.jump_rad
    beyond = step > reach
    if not beyond.any():
        return None
    i = int(np.argmax(step - reach))
    return Fault(
        faults.STATE_JUMP,
        f'{robot.commanded[i]} jumped from {before[i]:.3f} to {position[i]:.3f} within '
        f'{elapsed:.3f} s; at most {reach[i]:.3f} (rad or m) is possible: do two sources '
        'publish joint states, or was the robot restarted?',
    )


def _check_frozen(
    config: MonitorConfig, robot: Robot, state: MonitorState, measurement: Measurement
) -> Fault | None:
    """
    Return a fault if joint states stay equal while the arm should move.

    Both time and travel must be exceeded: an arm that creeps from one step of its encoders to
    the next would look frozen otherwise; at 0.01 rad/s half a second has to pass.
    """
    duration, travel = measurement.time - state.same_since, state.travel
    if robot.command == 'effort':  # compared with its own velocity instead of a commanded one
        travel = duration * float(np.abs(measurement.velocity).max())
    if duration <= config.frozen_after_s or travel <= config.frozen_travel_rad:
        return None
    return Fault(
        faults.STATE_FROZEN,
        f'joint states have been equal, bit by bit, for {duration:.3f} s, while the arm should '
        f'have moved by {travel:.3f} (rad or m): the driver repeats itself, or the robot ignores '
        'its commands',
    )


def _check_residual(
    config: MonitorConfig, robot: Robot, state: MonitorState, measurement: Measurement
) -> Fault | None:
    """Return a fault if a joint has not followed its commands for too long."""
    commanded, off_since, off_from = state.commanded, state.off_since, state.off_from
    if off_since is None or off_from is None or commanded is None:
        return None
    durations = measurement.time - off_since
    i = int(np.argmax(durations))
    if durations[i] <= config.residual_after_s:
        return None
    moved = (measurement.position[i] - off_from.position[i]) / (measurement.time - off_from.time)
    if commanded.lower[i] <= moved <= commanded.upper[i]:
        return Fault(
            faults.RESIDUAL,
            f'the velocities of the joint states contradict their positions: {robot.commanded[i]} '
            f'has moved at {moved:.3f} by its positions, at {measurement.velocity[i]:.3f} (rad/s '
            'or m/s) by its velocities: does the driver leave them at 0, or use other units?',
        )
    if share := _common_share(commanded, measurement):
        return Fault(
            faults.RESIDUAL,
            f'all joints move at {100.0 * share:.0f} % of their commands: does a speed slider, '
            'speed scaling or a reduced mode slow the robot down? Set it to 100 %',
        )
    return Fault(
        faults.RESIDUAL,
        f'{robot.commanded[i]} has moved at {measurement.velocity[i]:.3f} for {durations[i]:.3f} '
        f's, outside of the commanded range {commanded.lower[i]:.3f} to {commanded.upper[i]:.3f} '
        '(rad/s or m/s): is it pushed or held, or is this another robot?',
    )


def _common_share(commanded: CommandWindow, measurement: Measurement) -> float:
    """Return the share of their commands at which all joints move; 0 if there is no such share."""
    wanted = commanded.values.mean(axis=0)
    square = float(wanted @ wanted)
    moves = np.count_nonzero(np.abs(wanted) > 0.1 * np.max(np.abs(wanted), initial=0.0))
    if square == 0.0 or moves < 2:  # of one joint, any velocity is a share
        return 0.0
    share = float(measurement.velocity @ wanted) / square
    off = np.linalg.norm(measurement.velocity - share * wanted)
    return share if share > _LEAST_SHARE and off < _ALIKE * share * math.sqrt(square) else 0.0
