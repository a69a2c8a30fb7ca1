"""
Commanded velocities, cycle by cycle, as trajectories that replace one another.

Each new one has the robot where the command is now one period from now: by then the newest
command is known, so nothing is predicted, and the motion is late by that period.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import tail
from emppi_ros.bridge.tail import State, Trajectory
from emppi_ros.config import positive
from emppi_ros.tasks.robot import Robot

Array = npt.NDArray[np.float64]
_LONGEST_S = 0.02  # between two commands; after a longer hiccup the way between is not made up
_MOVED = 0.02  # rad or m: what is more than tracking error was moved by somebody else
_RESTS = 5  # trajectories at rest before falling silent, in case one is lost


@dataclass(frozen=True)
class TrajectoryConfig:
    """Settings of rolling trajectories."""

    trajectory_rate_hz: float = positive(50.0, doc='trajectories per second')
    trajectory_hold_s: float = positive(0.06, doc='time from sending at which to brake by itself')


class Rolling(NamedTuple):
    """What is commanded, and what was sent last."""

    time: float  # s, of the last command
    reference: State  # integrated from commands, not measured
    engaged: bool = False
    sent: Trajectory | None = None  # while it may move the robot
    sent_at: float = -np.inf
    before: State | None = None  # where the robot was to be when it was sent
    rests: int = _RESTS  # trajectories at rest sent since the last motion


def begin(time: float, position: Array) -> Rolling:
    """Return the start, at rest where the robot is."""
    return Rolling(time, _at_rest(position))


def advance(
    config: TrajectoryConfig,
    robot: Robot,
    rolling: Rolling,
    time: float,
    velocity: Array,
    position: Array,
    engaged: bool,
) -> tuple[Rolling, Trajectory | None]:
    """Return what is commanded after one more velocity, and the trajectory to send if any."""
    dt = min(max(time - rolling.time, 1e-4), _LONGEST_S)
    last = rolling.reference
    resting = not np.any(last.velocity) and not np.any(velocity)
    if resting and engaged and not rolling.engaged:
        # newly armed. A controller that interpolates from its own desired state gets no jump
        # from tracking errors, but must not go back to where the arm was before someone moved it
        moved = np.max(np.abs(position - last.position)) > _MOVED
        last = last._replace(position=position.copy()) if moved else last
    reference = State(
        last.position + 0.5 * dt * (last.velocity + velocity),
        velocity.copy(),
        (velocity - last.velocity) / dt,
    )
    rolling = rolling._replace(time=time, reference=reference, engaged=engaged)
    rests = rolling.rests if resting else 0
    rolling = rolling._replace(rests=rests)
    period = 1.0 / config.trajectory_rate_hz
    # half a millisecond early is in time: cycles come on a grid, more or less
    if rests >= _RESTS or time - rolling.sent_at < period - 5e-4:
        return rolling, None
    before = in_force(rolling, time)
    made = tail.build(robot, reference, period, max(config.trajectory_hold_s, period))
    return rolling._replace(sent=made, sent_at=time, before=before, rests=rests + resting), made


def coast(rolling: Rolling, now: float) -> tuple[Rolling, Array | None]:
    """
    Return the velocity of a robot that brakes by itself, for want of newer trajectories.

    None while it follows us. Once it is at rest, which is told once, the reference is there.
    """
    if rolling.sent is None or not np.any(rolling.sent.velocities):
        return rolling, None
    age = now - rolling.sent_at
    if age <= rolling.sent.braking:
        return rolling, None
    state = in_force(rolling, now)
    if age < rolling.sent.end:
        return rolling._replace(time=now), state.velocity
    return begin(now, state.position)._replace(engaged=rolling.engaged), state.velocity


def in_force(rolling: Rolling, now: float) -> State:
    """Return the state in which the robot is to be by what was sent."""
    if rolling.sent is None:
        return _at_rest(rolling.reference.position)
    return tail.sample(rolling.sent, rolling.before, now - rolling.sent_at)


def _at_rest(position: Array) -> State:
    zero = np.zeros_like(position)
    return State(position.copy(), zero, zero)
