"""
Limit the velocity, acceleration and jerk of commands, with room to brake.

Pure functions of the last command: for any target, the next command lies on the time-optimal
motion (by `ruckig`) from the last one, within the robot's usable acceleration and jerk. A joint
reverses only through rest, so that braking never has to reverse it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import ruckig

from emppi_ros.robots import velocity_bounds
from emppi_ros.robots.robot import Robot
from emppi_ros.robots.velocity_bounds import MARGIN

Array = npt.NDArray[np.float64]
_ARRIVED_S = 1e-9  # a motion this close to its end differs from it by rounding only
_SLOWEST = 1e-3  # rad/s: ruckig requires a velocity limit, even if there is no room to move
_STILL = 1e-14  # rad/s or m/s: rounding errors, which an FR3 may refuse at an end stop
_OVERSHOOT = 1e-9  # rad or m: braking that ends this close behind its goal ends on it


class Command(NamedTuple):
    """A command and its motion."""

    value: Array  # (joints,) velocity, position or effort
    rate: Array  # (joints,) of a position command, its velocity; else zero
    acceleration: Array  # (joints,) of the commanded motion; zero for efforts
    # of a velocity command: maps the time since the last command [s] to displacement, velocity
    # and acceleration, each (joints,)
    motion: Callable[[float], tuple[Array, Array, Array]] | None = None
    braking: bool = False  # whether it brakes to rest


def at_rest(robot: Robot, position: Array) -> Command:
    """Return the command that keeps the robot where it is."""
    zero = np.zeros(len(robot.commanded))
    return Command(position.copy() if robot.command == 'position' else zero, zero, zero)


def is_at_rest(robot: Robot, command: Command) -> bool:
    """Return whether the command moves nothing."""
    moving = command.rate if robot.command == 'position' else command.value
    return not np.any(moving)


def braking_time(robot: Robot, command: Command) -> float:
    """Return the time from a command to rest [s]; zero for efforts."""
    if robot.command == 'effort':
        return 0.0
    velocity = command.rate if robot.command == 'position' else command.value
    zero = np.zeros_like(velocity)
    return _RuckigMotion(robot, zero, velocity, command.acceleration).to_velocity(zero).duration


def shape(
    robot: Robot, last: Command, target: Array | None, position: Array, dt: float
) -> Command:
    """
    Return the command `dt` after `last` towards a target; None brakes to rest.

    `position` (joints,) is measured: velocities towards an end stop are limited to what can
    still be braked before it. A target that is not finite brakes too.
    """
    if target is not None and not np.isfinite(target).all():
        target = None
    if robot.command == 'velocity':
        return _shape_velocity(robot, last, target, position, dt)
    if robot.command == 'position':
        return _shape_position(robot, last, target, dt)
    zero = np.zeros_like(last.value)
    limit = np.array(robot.limits.effort)
    return Command(zero if target is None else np.clip(target, -limit, limit), zero, zero)


def _shape_velocity(
    robot: Robot, last: Command, target: Array | None, position: Array, dt: float
) -> Command:
    """Return the next velocity, in the direction of the target if possible."""
    zero = np.zeros_like(last.value)
    goal = zero
    if target is not None:
        goal = velocity_bounds.clamp(target, *velocity_bounds.velocity_bounds(robot, position, dt))
        goal = np.where(goal * last.value < 0.0, 0.0, goal)  # reverse through rest
    motion = _RuckigMotion(robot, zero, last.value, last.acceleration)
    _, velocity, acceleration = motion.to_velocity(goal).after(dt)
    moving = np.abs(velocity) > _STILL
    velocity, acceleration = (np.where(moving, row, 0.0) for row in (velocity, acceleration))
    return Command(velocity, zero, acceleration, motion.after, braking=target is None)


def _shape_position(robot: Robot, last: Command, target: Array | None, dt: float) -> Command:
    """Return the next position; joints that cannot stop before their target brake first."""
    motion = _RuckigMotion(robot, last.value, last.rate, last.acceleration)
    braking = motion.to_velocity(np.zeros_like(last.rate))
    if target is None:
        return Command(*braking.after(dt))
    limits = robot.limits.position
    goal = np.clip(target, np.array(limits.lower) + MARGIN, np.array(limits.upper) - MARGIN)
    past = np.sign(last.rate) * (goal - braking.end) < -_OVERSHOOT
    bounds = velocity_bounds.velocity_bounds(robot, last.value, dt)
    return Command(*motion.to_position(goal, past, *bounds).after(dt))


class _RuckigMotion:
    """The time-optimal motion of each joint from a position, velocity and acceleration."""

    def __init__(
        self, robot: Robot, position: Array, velocity: Array, acceleration: Array
    ) -> None:
        """Set the start; joints are not synchronized, so that each brakes when it must."""
        self._start = position, velocity
        self._acceleration = velocity_bounds.usable_acceleration(robot)
        self._solver = ruckig.Ruckig(len(position))
        self._input = ruckig.InputParameter(len(position))
        self._trajectory = ruckig.Trajectory(len(position))
        self._input.synchronization = ruckig.Synchronization.No
        self._input.current_position = position
        self._input.current_velocity = velocity
        self._input.current_acceleration = acceleration
        self._input.max_velocity = robot.limits.velocity
        self._input.max_acceleration = self._acceleration
        self._input.max_jerk = velocity_bounds.usable_jerk(robot)

    def to_velocity(self, target: Array) -> '_RuckigMotion':
        """Solve for a velocity (joints,)."""
        self._input.control_interface = ruckig.ControlInterface.Velocity
        self._input.target_velocity = target
        self._velocity, self._braking = target, np.ones(len(target), dtype=bool)
        return self._solve()

    def to_position(
        self, goal: Array, brake: npt.NDArray[np.bool_], lower: Array, upper: Array
    ) -> '_RuckigMotion':
        """Solve for rest at a position (joints,); joints in `brake` rest as soon as they can."""
        kinds = ruckig.ControlInterface
        self._input.per_dof_control_interface = [
            kinds.Velocity if b else kinds.Position for b in brake
        ]
        self._input.target_position = goal
        self._input.target_velocity = self._velocity = np.zeros_like(goal)
        self._input.max_velocity = np.maximum(upper, _SLOWEST)
        self._input.min_velocity = np.minimum(lower, -_SLOWEST)
        self._goal, self._braking = goal, brake
        return self._solve()

    def _solve(self) -> '_RuckigMotion':
        try:
            self._solver.calculate(self._input, self._trajectory)
            self._solved = True
        except ruckig.RuckigError:  # not seen so far; `after` then brakes without it
            self._solved = False
        return self

    @property
    def duration(self) -> float:
        """Duration [s]."""
        if not self._solved:
            return float(np.max(np.abs(self._start[1]) / self._acceleration))
        return float(self._trajectory.duration)

    @property
    def end(self) -> Array:
        """Final position (joints,)."""
        if not self._solved:
            return self._start[0]
        return np.array(self._trajectory.at_time(self._trajectory.duration)[0])

    def after(self, dt: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration (joints,) after `dt`."""
        if not self._solved:
            return self._braked(dt)
        position, velocity, acceleration = (np.array(v) for v in self._trajectory.at_time(dt))
        # joints that have arrived are exactly at their goal: rounding errors would add up
        there = np.array(self._trajectory.independent_min_durations) <= dt + _ARRIVED_S
        if not self._braking.all():
            position = np.where(there & ~self._braking, self._goal, position)
        velocity = np.where(there, self._velocity, velocity)
        return position, velocity, np.where(there, 0.0, acceleration)

    def _braked(self, dt: float) -> tuple[Array, Array, Array]:
        """Return the start after braking without a jerk limit, if there is no solution."""
        position, velocity = self._start
        slower = np.maximum(np.abs(velocity) - self._acceleration * dt, 0.0) * np.sign(velocity)
        return position + slower * dt, slower, np.zeros_like(velocity)
