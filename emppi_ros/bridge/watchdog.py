"""
Which plan the bridge follows, and when it stops following: the watchdog.

Ages are measured by one clock that never jumps. A plan is good for `timeout_s` from its
start (so that one late plan is forgiven); without a good plan the command brakes to rest and
stays there until a new plan arrives.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import shaping
from emppi_ros.bridge.plan import Plan
from emppi_ros.bridge.shaping import Command
from emppi_ros.config import positive
from emppi_ros.tasks.robot import Robot

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BridgeConfig:
    """Settings of the bridge."""

    rate_hz: float = positive(250.0, doc='commands per second')
    plan_timeout_s: float = positive(0.1, doc='age of a plan, from its start, at which to brake')
    state_timeout_s: float = positive(0.05, doc='age of the joint states at which to brake')


class Bridge(NamedTuple):
    """State of the bridge from one command to the next."""

    command: Command
    armed: bool = False
    current: Plan | None = None
    upcoming: tuple[Plan, ...] = ()  # by start
    reason: str = 'not armed'  # why it is not moving; '' while it follows a plan


def receive(bridge: Bridge, plan: Plan) -> Bridge:
    """
    Return the bridge with a plan to follow from the plan's start on, in place of later ones.

    A plan that starts before the one that is followed already was overtaken: it changes nothing.
    """
    if bridge.current is not None and plan.start < bridge.current.start:
        return bridge
    earlier = tuple(p for p in bridge.upcoming if p.start < plan.start)
    return bridge._replace(upcoming=(*earlier, plan))


def arm(bridge: Bridge, armed: bool) -> Bridge:
    """Return the bridge armed, or not; either way plans from before count no more."""
    reason = 'waiting for a plan' if armed else 'not armed'
    return bridge._replace(armed=armed, current=None, upcoming=(), reason=reason)


def step(
    config: BridgeConfig,
    robot: Robot,
    bridge: Bridge,
    now: float,
    position: Array,
    state_age_s: float,
    dt: float,
) -> Bridge:
    """Return the bridge with its next command, `dt` after the last one."""
    current, upcoming = bridge.current, bridge.upcoming
    while upcoming and upcoming[0].start <= now:
        current, upcoming = upcoming[0], upcoming[1:]
    target, reason = None, ''
    if not bridge.armed:
        reason = 'not armed'
    elif not state_age_s <= config.state_timeout_s:
        reason = f'joint states are {state_age_s:.3f} s old'
    elif current is None:
        reason = 'waiting for a plan'
    elif now - current.start > config.plan_timeout_s:
        reason = f'the plan is {now - current.start:.3f} s old'
    else:
        target = current.at(now)
    command = shaping.shape(robot, bridge.command, target, position, dt)
    return bridge._replace(command=command, current=current, upcoming=upcoming, reason=reason)
