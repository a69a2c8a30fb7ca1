"""Joint states that cannot be: each check by itself, and what it says to people."""

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import faults
from emppi_ros.bridge.faults import Fault
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]


def sources(elapsed: float, window_s: float) -> Fault | None:
    """Return a fault if stamps went far back twice, the first time `elapsed` [s] ago."""
    if elapsed > window_s:
        return None
    return Fault(
        faults.STATE_JUMP,
        f'the stamps of joint states went back by more than {window_s:g} s twice within '
        f'{elapsed:.3f} s: two sources publish them in turn, such as a replayed bag beside the '
        'robot; let only one of them run',
    )


def bounds(
    robot: Robot, position: Array, velocity: Array, margin: float, ratio: float
) -> Fault | None:
    """Return a fault if a joint (joints,) is where, or as fast as, this robot's cannot be."""
    lower, upper = robot.limits.position.lower, robot.limits.position.upper
    inside = (position >= np.subtract(lower, margin)) & (position <= np.add(upper, margin))
    if not inside.all():  # NaN is not inside
        i = int(np.argmin(inside))
        return Fault(
            faults.STATE_RANGE,
            f'{robot.commanded[i]} is at {position[i]:.3f}, but its limits are {lower[i]:g} to '
            f'{upper[i]:g} (rad or m): is this the robot that the configuration describes, '
            f'{robot.name!r}?',
        )
    limit = robot.limits.velocity
    slow = np.abs(velocity) <= np.multiply(limit, ratio)
    if slow.all():
        return None
    i = int(np.argmin(slow))
    return Fault(
        faults.STATE_RANGE,
        f'{robot.commanded[i]} moves at {velocity[i]:.3f}, but its limit is {limit[i]:g} (rad/s '
        f'or m/s): is this the robot that the configuration describes, {robot.name!r}?',
    )


def jump(
    robot: Robot, before: Array, position: Array, elapsed: float, allowed: float
) -> Fault | None:
    """Return a fault if joints (joints,) moved further than `allowed` and their limits say."""
    step = np.abs(position - before)
    reach = np.multiply(robot.limits.velocity, max(0.0, elapsed)) + allowed
    beyond = step > reach
    if not beyond.any():
        return None
    i = int(np.argmax(step - reach))
    return Fault(
        faults.STATE_JUMP,
        f'{robot.commanded[i]} jumped from {before[i]:.3f} to {position[i]:.3f} within '
        f'{max(0.0, elapsed):.3f} s; at most {reach[i]:.3f} (rad or m) is possible: do two '
        'sources publish joint states, or was the robot restarted?',
    )


def frozen(duration: float, travel: float) -> Fault:
    """
    Return the fault of joint states that were equal for `duration` [s].

    It takes both time and travel, for otherwise an arm that creeps from one step of its encoders
    to the next would look frozen: at 0.01 rad/s half a second has to pass.
    """
    return Fault(
        faults.STATE_FROZEN,
        f'joint states have been equal, bit by bit, for {duration:.3f} s, in which the arm was '
        f'to move by {travel:.3f} (rad or m): their source repeats itself, or the robot does '
        'not listen',
    )


def residual(
    robot: Robot, velocity: Array, lower: Array, upper: Array, durations: Array, after_s: float
) -> Fault | None:
    """Return a fault if a joint (joints,) has been off its commands for more than `after_s`."""
    i = int(np.argmax(durations))
    if durations[i] <= after_s:
        return None
    return Fault(
        faults.RESIDUAL,
        f'{robot.commanded[i]} moves at {velocity[i]:.3f}, but by what was commanded it may at '
        f'{lower[i]:.3f} to {upper[i]:.3f} (rad/s or m/s), for {durations[i]:.3f} s now: is it '
        'pushed or held, or is this another robot?',
    )
