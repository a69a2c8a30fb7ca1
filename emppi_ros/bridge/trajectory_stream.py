"""
Stream the commanded motion as trajectories that replace each other, each ending at rest.

Each trajectory repeats the commanded motion of the last moments with a fixed delay, so nothing
has to be predicted. All trajectories lie on one curve in time, so the arrival time of a message
does not matter. For this they are stamped. A trajectory without a stamp starts when it arrives,
from a state that the controller labels with the wrong time (docs/bridge.md).
"""

from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import stop_trajectory
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.joint_trajectory import MotionState, Trajectory, at_rest, sample
from emppi_ros.core.config import positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
_FINE_S = 1e-3  # between points: the usual period of controllers
_MOVED = 0.02  # rad or m: a larger deviation is not a tracking error: the arm was moved
_ARRIVAL_S = 3e-3  # allowed for a message to reach a controller at 1 kHz
_RESTS = 5  # trajectories sent at rest before sending stops, in case some are lost


@dataclass(frozen=True)
class TrajectoryConfig:
    """Settings of the stream of trajectories."""

    trajectory_rate_hz: float = positive(125.0, doc='trajectories per second')
    trajectory_lead_s: float = positive(0.016, doc='delay of the motion behind commands')
    trajectory_hold_s: float = positive(
        0.04, doc='time after sending at which a trajectory brakes'
    )
    trajectory_settle_s: float = positive(
        0.25, doc='time for the controller to settle at the measured position when armed'
    )

    def __post_init__(self) -> None:
        """Check the keys against each other."""
        least = 1.0 / self.trajectory_rate_hz + _ARRIVAL_S
        if self.trajectory_lead_s < least:
            raise ConfigError(
                f'trajectory_lead_s: {self.trajectory_lead_s:g} is shorter than the time between '
                f'trajectories plus their transport, {least:g} s'
            )
        if self.trajectory_hold_s < self.trajectory_lead_s:
            raise ConfigError(
                f'trajectory_hold_s: {self.trajectory_hold_s:g} is below trajectory_lead_s '
                f'{self.trajectory_lead_s:g}'
            )


class StreamState(NamedTuple):
    """The commanded motion and the last trajectory."""

    time: float  # s, of the last command
    reference: MotionState  # at the end of `path`, integrated from commands; not measured
    due: float  # s, by when the next trajectory must be sent: see `is_late`
    engaged: bool = False
    path: tuple[tuple[float, MotionState], ...] = ()  # commanded states by time
    sent: Trajectory | None = None  # the last trajectory
    sent_at: float = -np.inf
    brakes: bool = False  # whether it was sent in order to brake
    before: MotionState | None = None  # desired state when it was sent
    rests: int = _RESTS  # trajectories at rest sent since the last motion


def begin(config: TrajectoryConfig, time: float, position: Array) -> StreamState:
    """Return the initial state, at rest at a position."""
    return StreamState(time, at_rest(position), _due(config, time))


def advance(
    config: TrajectoryConfig,
    robot: Robot,
    state: StreamState,
    time: float,
    command: Command,
    position: Array,
    engaged: bool,
    listens: bool = True,
) -> tuple[StreamState, Trajectory | None]:
    """
    Return the state after a velocity command, and the trajectory to send if one is due.

    While the controller does not listen, none is.
    """
    last = state.reference
    resting = not np.any(last.velocity) and not np.any(command.value)
    if resting and engaged and not state.engaged:
        return _settle(config, state, time, position)
    planned = state.path or ((state.time + config.trajectory_lead_s, last),)
    path = [point for point in planned if point[0] > time + _FINE_S]
    path += _points(config, state.time, time, last, command)
    rests = state.rests if resting else 0
    state = state._replace(
        time=time, reference=path[-1][1], engaged=engaged, path=tuple(path), rests=rests
    )
    if resting and state.rests:  # and rest was sent already
        state = state._replace(due=_due(config, time))
    # half a millisecond early counts as due: cycles are only roughly periodic
    early = time - state.sent_at < 1.0 / config.trajectory_rate_hz - 5e-4
    urgent = command.braking and not state.brakes
    if state.rests >= _RESTS or (early and not urgent) or not listens:
        return state, None
    before = in_force(state, time)
    lead, hold = config.trajectory_lead_s, config.trajectory_hold_s
    made = stop_trajectory.build(robot, state.reference, lead, hold, command.braking)
    made = _preceded([(when - time, motion) for when, motion in path[:-1]], made)
    rests, due = state.rests + resting, _due(config, time)
    state = state._replace(sent=made, sent_at=time, before=before, brakes=command.braking)
    return state._replace(rests=rests, due=due), made


def _settle(
    config: TrajectoryConfig, state: StreamState, time: float, position: Array
) -> tuple[StreamState, Trajectory]:
    """
    Return the state and trajectory when newly armed: settle slowly at the arm's position.

    The controller's desired state may differ from the measured position by tracking errors, or
    because another client used it; correcting that within milliseconds would be a jolt. A known
    desired position is kept unless the arm was moved away from it.
    """
    known = state.reference.position
    moved = state.sent is None or np.max(np.abs(position - known)) > _MOVED
    rest = at_rest(position if moved else known)
    made = Trajectory(np.array([config.trajectory_settle_s]), *(row[None] for row in rest))
    due = _due(config, time)
    settled = StreamState(time, rest, due, True, sent=made, sent_at=time, before=rest)
    return settled, made


def _due(config: TrajectoryConfig, time: float) -> float:
    """Return by when a robot that has the commands up to `time` needs the next trajectory."""
    return time + config.trajectory_lead_s - _ARRIVAL_S


def is_late(state: StreamState, now: float) -> bool:
    """
    Return whether the robot may pass the last command before the next trajectory arrives.

    It then begins to stop on its own, and commands that ignore this would be a jolt.
    """
    return now > state.due


def resume(
    config: TrajectoryConfig, state: StreamState, now: float
) -> tuple[StreamState, Command]:
    """Return the robot's own motion after a late trajectory, to continue from there."""
    times = now + np.arange(_FINE_S, config.trajectory_lead_s, _FINE_S)
    path = [(float(when), in_force(state, float(when))) for when in times]
    end = in_force(state, now + config.trajectory_lead_s)
    path.append((now + config.trajectory_lead_s, end))
    command = Command(end.velocity, np.zeros_like(end.velocity), end.acceleration)
    due = _due(config, now)
    return state._replace(time=now, reference=end, path=tuple(path), due=due), command


def in_force(state: StreamState, now: float) -> MotionState:
    """Return the desired state of the last trajectory."""
    if state.sent is None or state.before is None:
        return at_rest(state.reference.position)
    return sample(state.sent, state.before, now - state.sent_at)


def _points(
    config: TrajectoryConfig, begin_s: float, end_s: float, last: MotionState, command: Command
) -> list[tuple[float, MotionState]]:
    """Return times and states from one command to the next, at most 1.25 ms apart."""
    if command.motion is None:
        raise ValueError('only velocity commands have a motion')
    span = end_s - begin_s
    count = max(1, math.ceil(span / _FINE_S - 0.25))
    points = []
    for share in np.linspace(1.0 / count, 1.0, count).tolist():
        moved, velocity, acceleration = command.motion(share * span)
        state = MotionState(last.position + moved, velocity, acceleration)
        points.append((begin_s + share * span + config.trajectory_lead_s, state))
    return points


def _preceded(path: list[tuple[float, MotionState]], made: Trajectory) -> Trajectory:
    """Return a trajectory with at least one more point before its first one."""
    times, states = zip(*path, strict=True)
    columns = (times, *zip(*states, strict=True))
    return Trajectory(*map(np.concatenate, zip(columns, made, strict=True)))
