"""
Limits on what leaves the bridge: velocity, acceleration, and room to brake before a stop.

Pure functions of the last command; whatever the target, each command is reachable from the
one before it within the robot's usable acceleration.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.robot import Robot

Array = npt.NDArray[np.float64]
_MARGIN = 0.02  # rad or m kept free before a joint's end stop


class Command(NamedTuple):
    """What is being commanded: the value sent, and its rate of change."""

    value: Array  # (joints,) velocity, position or effort
    rate: Array  # (joints,) of a position command, its velocity; else zero


def at_rest(robot: Robot, position: Array) -> Command:
    """Return the command that keeps the robot where it is."""
    zero = np.zeros(len(robot.commanded))
    return Command(position.copy() if robot.command == 'position' else zero, zero)


def is_at_rest(robot: Robot, command: Command) -> bool:
    """Return whether the command moves nothing."""
    moving = command.rate if robot.command == 'position' else command.value
    return not np.any(moving)


def shape(
    robot: Robot, last: Command, target: Array | None, position: Array, dt: float
) -> Command:
    """
    Return the command that follows `last` by `dt` towards a target; None brakes to rest.

    `position` (joints,) is measured: velocities towards an end stop are limited to what can
    still be braked before it.
    """
    if robot.command == 'effort':
        limit = np.array(robot.limits.effort)
        value = np.zeros_like(last.value) if target is None else np.clip(target, -limit, limit)
        return Command(value, np.zeros_like(value))
    acceleration = robot.dynamics_factor * np.array(robot.limits.acceleration)
    if robot.command == 'velocity':
        wanted = np.zeros_like(last.value) if target is None else target
        value = _limit(robot, last.value, wanted, position, acceleration, dt)
        return Command(value, np.zeros_like(value))
    way = np.zeros_like(last.rate) if target is None else target - last.value
    wanted = np.sign(way) * _brakeable(np.abs(way), acceleration, dt)  # stop on it, not past it
    rate = _limit(robot, last.rate, wanted, last.value, acceleration, dt)
    return Command(last.value + dt * rate, rate)


def _limit(
    robot: Robot, last: Array, wanted: Array, position: Array, acceleration: Array, dt: float
) -> Array:
    """Return the velocity nearest to `wanted` within all limits."""
    fastest = np.array(robot.limits.velocity)
    room_up = np.array(robot.limits.position.upper) - _MARGIN - position
    room_down = position - np.array(robot.limits.position.lower) - _MARGIN
    # v + a dt / 2 brakes within v^2 / 2a + v dt: the second term is this cycle's travel
    up = np.minimum(fastest, _brakeable(room_up, acceleration, dt))
    down = np.minimum(fastest, _brakeable(room_down, acceleration, dt))
    velocity = np.clip(wanted, -down, up)
    return np.clip(velocity, last - acceleration * dt, last + acceleration * dt)


def _brakeable(room: Array, acceleration: Array, dt: float) -> Array:
    """Return the largest v with v dt + v^2 / 2a <= room: none if there is no room."""
    reach = acceleration * dt
    return np.sqrt(reach**2 + 2.0 * acceleration * np.maximum(room, 0.0)) - reach
