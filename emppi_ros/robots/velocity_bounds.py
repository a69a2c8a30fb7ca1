"""
How fast the joints may go where they are, and a clamp that keeps the direction of motion.

Clipping each joint by itself would bend the way of the hand; here the fastest joint slows
down all others with it.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.robots import franka_limits
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
MARGIN = 0.02  # rad or m kept free before a joint's end stop
JERK_FACTOR = 0.2  # share of the jerk limit that is used
_KEPT = 0.98  # of both; points between which a controller interpolates add 1.2 % to the jerk
_USUAL_RAMP_S = 5e-3  # from rest to full acceleration, as of Franka's arms
# rad/s below FR3's envelope, as libfranka does (kLimitEps), and more than commands that are summed
# up from accelerations are rounded by: the last of a million cycles was above it by 4e-16
_EPSILON = 1e-3 + 1e-9
# From full acceleration to full braking takes 2 a / j. With the ramp at the end, and following a
# bound that falls, braking comes 3.5 a / j later than with a step of acceleration, at most.
_RAMPS = 3.5


def usable_acceleration(robot: Robot) -> Array:
    """Return the acceleration (joints,) that commands keep to."""
    return _KEPT * robot.dynamics_factor * np.array(robot.limits.acceleration)


def usable_jerk(robot: Robot) -> Array:
    """Return the jerk (joints,) that commands keep to: an arm's, where the robot names none."""
    if not robot.limits.jerk:
        return usable_acceleration(robot) / _USUAL_RAMP_S
    return _KEPT * JERK_FACTOR * np.array(robot.limits.jerk)


def velocity_bounds(robot: Robot, position: Array, dt: float) -> tuple[Array, Array]:
    """
    Return the lowest and highest velocity (joints,) at a position.

    From there the usable acceleration and jerk can still brake before the end stop's margin,
    and within FR3's envelope all the way.
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
    """Return the longest vector (joints,) along `target` within bounds: no longer than it."""
    bound = np.where(target < 0.0, -lower, upper)
    size = np.abs(target)
    beyond = size > bound
    if not beyond.any():
        return target
    share = float(np.min(bound[beyond] / size[beyond]))
    return np.clip(share * target, lower, upper)  # share times size may round up


def _brakeable(room: Array, acceleration: Array, delay: Array) -> Array:
    """Return the largest v with v delay + v^2 / 2a <= room: none if there is no room."""
    reach = acceleration * delay
    return np.sqrt(reach**2 + 2.0 * acceleration * np.maximum(room, 0.0)) - reach


def _enveloped(
    envelope: franka_limits.Columns, room: Array, acceleration: Array, delay: Array
) -> Array:
    """
    Return the largest speed from which braking stays below an envelope.

    The envelope falls faster than `acceleration` brakes where its own deceleration is larger
    and the speed above offset a / (deceleration - a): there the parabola of braking that touches
    the envelope at this speed is the bound.
    """
    offset, deceleration = envelope.offset, envelope.deceleration
    reach = offset + deceleration * delay
    inside = np.maximum(reach**2 - offset**2 + 2.0 * deceleration * room, 0.0)
    speed = np.maximum(np.sqrt(inside) - reach, 0.0)
    excess = np.maximum(deceleration - acceleration, 1e-9)  # none: touches at no finite speed
    touching = _brakeable(room - offset**2 / (2.0 * excess), acceleration, delay)
    return np.where(speed > offset * acceleration / excess, touching, speed)
