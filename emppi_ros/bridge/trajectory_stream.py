"""
Commanded motion as trajectories that replace one another, each ending at rest.

Each holds the commanded motion of the last moments, a little later than it was commanded: by
then the newest command is known, so nothing is predicted. All lie on one curve in time, so that
it does not matter when a message arrives; a trajectory that starts when it arrives has only the
curve's newest point, and reaches it within the time that remains.
"""

from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import stop_trajectory
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.joint_trajectory import State, Trajectory, sample
from emppi_ros.core.config import key, positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
_FINE_S = 1e-3  # between points: at this rate controllers follow them
# who arrives d later than the one before has v d to make up for in this time: at 0.5 rad/s and
# 1 ms that takes 1.8 rad/s^2 and 470 rad/s^3, an eighth of what the slowest joint can
_UNSTAMPED_LEAD_S = 0.04
_MOVED = 0.02  # rad or m: what is more than tracking error was moved by somebody else
_ARRIVAL_S = 3e-3  # to a controller that looks once in a millisecond
_RESTS = 5  # trajectories at rest before falling silent, in case one is lost


@dataclass(frozen=True)
class TrajectoryConfig:
    """Settings of rolling trajectories."""

    trajectory_rate_hz: float = positive(125.0, doc='trajectories per second')
    trajectory_lead_s: float = positive(0.016, doc='how much later than commanded the robot moves')
    trajectory_hold_s: float = positive(0.04, doc='time from sending at which to brake by itself')
    trajectory_settle_s: float = positive(
        0.25, doc='time, when armed, in which the controller goes to where the arm is measured'
    )
    trajectory_stamped: bool = key(
        True, doc="stamp trajectories; this computer's clock must agree with the controller's"
    )

    def __post_init__(self) -> None:
        """Check one against the other."""
        least = 1.0 / self.trajectory_rate_hz + _ARRIVAL_S
        if self.trajectory_lead_s < least:
            raise ConfigError(
                f'trajectory_lead_s: {self.trajectory_lead_s:g} is shorter than the time between '
                f'trajectories and until they arrive, {least:g} s'
            )
        if not self.trajectory_stamped and self.trajectory_lead_s < _UNSTAMPED_LEAD_S:
            raise ConfigError(
                f'trajectory_lead_s: {self.trajectory_lead_s:g}; unstamped trajectories, which '
                f'start when they arrive, need {_UNSTAMPED_LEAD_S:g} s to make up for delays'
            )
        if self.trajectory_hold_s < self.trajectory_lead_s:
            raise ConfigError(
                f'trajectory_hold_s: {self.trajectory_hold_s:g} is below trajectory_lead_s '
                f'{self.trajectory_lead_s:g}'
            )


class Rolling(NamedTuple):
    """What is commanded, and what was sent last."""

    time: float  # s, of the last command
    reference: State  # where it leads, integrated from commands; not measured
    due: float  # s, until when the next trajectory is in time: see `is_late`
    engaged: bool = False
    path: tuple[tuple[float, State], ...] = ()  # when it is to be there
    sent: Trajectory | None = None  # while it may move the robot
    sent_at: float = -np.inf
    brakes: bool = False  # whether that was sent because of a reason to brake
    before: State | None = None  # where the robot was to be when it was sent
    rests: int = _RESTS  # trajectories at rest sent since the last motion


def begin(config: TrajectoryConfig, time: float, position: Array) -> Rolling:
    """Return the start, at rest where the robot is."""
    return Rolling(time, _at_rest(position), _due(config, time))


def advance(
    config: TrajectoryConfig,
    robot: Robot,
    rolling: Rolling,
    time: float,
    command: Command,
    position: Array,
    engaged: bool,
) -> tuple[Rolling, Trajectory | None]:
    """Return what is commanded after one more velocity, and the trajectory to send if any."""
    last = rolling.reference
    resting = not np.any(last.velocity) and not np.any(command.value)
    if resting and engaged and not rolling.engaged:
        return _settle(config, rolling, time, position)
    planned = rolling.path or ((rolling.time + config.trajectory_lead_s, last),)
    path = [point for point in planned if point[0] > time + _FINE_S]
    path += _points(config, rolling.time, time, last, command)
    rolling = rolling._replace(
        time=time,
        reference=path[-1][1],
        engaged=engaged,
        path=tuple(path),
        rests=rolling.rests if resting else 0,
    )
    if resting and rolling.rests:  # and it knows that: nothing was left unsaid until now
        rolling = rolling._replace(due=_due(config, time))
    # half a millisecond early is in time: cycles come on a grid, more or less
    early = time - rolling.sent_at < 1.0 / config.trajectory_rate_hz - 5e-4
    urgent = command.braking and not rolling.brakes
    if rolling.rests >= _RESTS or (early and not urgent):
        return rolling, None
    before = in_force(rolling, time)
    lead, hold = config.trajectory_lead_s, config.trajectory_hold_s
    made = stop_trajectory.build(robot, rolling.reference, lead, hold, command.braking)
    if config.trajectory_stamped:
        made = _preceded([(when - time, state) for when, state in path[:-1]], made)
    rests, due = rolling.rests + resting, _due(config, time)
    told = rolling._replace(sent=made, sent_at=time, before=before, brakes=command.braking)
    return told._replace(rests=rests, due=due), made


def _settle(
    config: TrajectoryConfig, rolling: Rolling, time: float, position: Array
) -> tuple[Rolling, Trajectory]:
    """
    Return what is commanded when newly armed: to go gently to where the arm is.

    The controller's own desired state may differ from what is measured, by tracking errors or
    because somebody else used it; made up for within milliseconds, that would be a jolt. Where it
    is known it is kept, but not where the arm was before someone moved it.
    """
    known = rolling.reference.position
    moved = rolling.sent is None or np.max(np.abs(position - known)) > _MOVED
    state = _at_rest(position if moved else known)
    position, velocity, acceleration = (row[None] for row in state)
    settle = config.trajectory_settle_s
    made = Trajectory(np.array([settle]), position, velocity, acceleration, settle)
    settled = Rolling(
        time, state, _due(config, time), engaged=True, sent=made, sent_at=time, before=state
    )
    return settled, made


def _due(config: TrajectoryConfig, told: float) -> float:
    """Return until when a robot that was told everything up to a time needs news."""
    return told + config.trajectory_lead_s - _ARRIVAL_S


def is_late(rolling: Rolling, now: float) -> bool:
    """
    Return whether the robot may go beyond the last command that it was sent before news arrive.

    Then it begins to stop by itself, and commands that know nothing of it would be a jerk.
    """
    return now > rolling.due


def resume(config: TrajectoryConfig, rolling: Rolling, now: float) -> tuple[Rolling, Command]:
    """Return what a robot does by itself that had no news for a while: go on from there."""
    times = now + np.arange(_FINE_S, config.trajectory_lead_s, _FINE_S)
    path = [(float(when), in_force(rolling, float(when))) for when in times]
    state = in_force(rolling, now + config.trajectory_lead_s)
    path.append((now + config.trajectory_lead_s, state))
    command = Command(state.velocity, np.zeros_like(state.velocity), state.acceleration)
    due = _due(config, now)
    return rolling._replace(time=now, reference=state, path=tuple(path), due=due), command


def in_force(rolling: Rolling, now: float) -> State:
    """Return the state in which the robot is to be by what was sent."""
    if rolling.sent is None or rolling.before is None:
        return _at_rest(rolling.reference.position)
    return sample(rolling.sent, rolling.before, now - rolling.sent_at)


def _points(
    config: TrajectoryConfig, begin_s: float, end_s: float, last: State, command: Command
) -> list[tuple[float, State]]:
    """Return when and how the robot is to come from one command to the next, point by point."""
    if command.way is None:
        raise ValueError('only velocity commands have a way')
    span = end_s - begin_s
    count = max(1, math.ceil(span / _FINE_S - 0.25))  # at most 1.25 ms from point to point
    points = []
    for share in np.linspace(1.0 / count, 1.0, count).tolist():
        moved, velocity, acceleration = command.way(share * span)
        state = State(last.position + moved, velocity, acceleration)
        points.append((begin_s + share * span + config.trajectory_lead_s, state))
    return points


def _preceded(path: list[tuple[float, State]], made: Trajectory) -> Trajectory:
    """Return a trajectory with points, one at least, before its first one."""
    times, states = zip(*path, strict=True)
    rows = [np.vstack(part) for part in zip(*states, strict=True)]
    columns = (made.positions, made.velocities, made.accelerations)
    positions, velocities, accelerations = (
        np.vstack(pair) for pair in zip(rows, columns, strict=True)
    )
    all_times = np.concatenate([times, made.times])
    return Trajectory(all_times, positions, velocities, accelerations, made.braking)


def _at_rest(position: Array) -> State:
    zero = np.zeros_like(position)
    return State(position.copy(), zero, zero)
