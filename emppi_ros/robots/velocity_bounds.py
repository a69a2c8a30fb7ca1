"""Velocity bounds at a position, and a clamp that keeps the direction of motion."""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.robots import franka_limits
from emppi_ros.robots.franka_limits import Envelope
from emppi_ros.robots.robot import Robot

MARGIN = 0.02  # rad or m, before a joint's end stop
JERK_FACTOR = 0.2  # share of the jerk limit that is used
_KEPT = 0.98  # share of both; interpolation by a controller adds 1.2 % to the jerk
_USUAL_RAMP_S = 5e-3  # from zero to full acceleration, as for Franka's arms
# rad/s below FR3's envelope: libfranka's margin (kLimitEps), plus the rounding error of commands
# integrated from accelerations, which exceeded the margin by 4e-16 once in a million cycles
_EPSILON = 1e-3 + 1e-9
# From full acceleration to full braking takes 2 a / j. With the final ramp, and along a falling
# bound, braking is delayed by at most 3.5 a / j compared with a step of acceleration.
_RAMPS = 3.5


def usable_acceleration(robot: Robot) -> Array:
    """Return the largest acceleration of commands (joints,)."""
    return _KEPT * robot.dynamics_factor * np.array(robot.limits.acceleration)


def usable_jerk(robot: Robot) -> Array:
    """Return the largest jerk of commands (joints,); a typical value if the robot has none."""
    if not robot.limits.jerk:
        return usable_acceleration(robot) / _USUAL_RAMP_S
    return _KEPT * JERK_FACTOR * np.array(robot.limits.jerk)


def velocity_bounds(robot: Robot, position: Array, dt: float) -> tuple[Array, Array]:
    """
    Return the lowest and highest velocity (joints,) at a position.

    With the usable acceleration and jerk the joints can then still brake before the margin of
    the end stop, and inside of the velocity envelope of an FR3 all the way.
    """
    acceleration = usable_acceleration(robot)
    delay = dt + _RAMPS * acceleration / usable_jerk(robot)
    upper = np.array(robot.limits.position.upper) - MARGIN
    lower = np.array(robot.limits.position.lower) + MARGIN
    up = np.minimum(robot.limits.velocity, _brakeable(upper - position, acceleration, delay))
    down = np.minimum(robot.limits.velocity, _brakeable(position - lower, acceleration, delay))
    for envelope in franka_limits.envelopes(robot.published, robot.commanded):
        for speed, room in ((up, envelope.upper - position), (down, position - envelope.lower)):
            allowed = _enveloped(envelope, room, acceleration, delay)
            np.minimum(speed, np.minimum(robot.limits.velocity, allowed) - _EPSILON, out=speed)
            np.maximum(speed, 0.0, out=speed)
    return -down, up


def clamp(target: Array, lower: Array, upper: Array) -> Array:
    """Return `target` (joints,), scaled down if necessary to lie within the bounds."""
    bound = np.where(target < 0.0, -lower, upper)
    size = np.abs(target)
    beyond = size > bound
    if not beyond.any():
        return target
    share = float(np.min(bound[beyond] / size[beyond]))
    return np.clip(share * target, lower, upper)  # rounding may exceed the bound


def _brakeable(room: Array, acceleration: Array, delay: Array) -> Array:
    """Return the largest v with v delay + v^2 / 2a <= room; zero without room."""
    reach = acceleration * delay
    return np.sqrt(reach**2 + 2.0 * acceleration * np.maximum(room, 0.0)) - reach


def _enveloped(envelope: Envelope, room: Array, acceleration: Array, delay: Array) -> Array:
    """
    Return the largest speed from which braking stays below an envelope.

    The envelope falls faster than `acceleration` brakes if its own deceleration is larger and the
    speed is above offset a / (deceleration - a). There the bound is the braking parabola that is
    tangent to the envelope at this speed.
    """
    offset, deceleration = envelope.offset, envelope.deceleration
    reach = offset + deceleration * delay
    inside = np.maximum(reach**2 - offset**2 + 2.0 * deceleration * room, 0.0)
    speed = np.maximum(np.sqrt(inside) - reach, 0.0)
    excess = np.maximum(deceleration - acceleration, 1e-9)  # zero: no tangent
    touching = _brakeable(room - offset**2 / (2.0 * excess), acceleration, delay)
    return np.where(speed > offset * acceleration / excess, touching, speed)
