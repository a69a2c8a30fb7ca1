"""
The watchdog by itself; superseded by `emppi_ros.bridge.commander.Commander`.

Ages are measured by one clock that never jumps, a plan's from its start. A late plan is bridged:
the arm begins to brake when it must in order to be at rest in time, and goes on if a plan comes
before that is called a fault.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import faults, jerk_limiter, state_machine
from emppi_ros.bridge.commander import BridgeConfig, PlanQueue
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.state_machine import Machine
from emppi_ros.control.plan import Plan
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
_SOONEST_S = 0.051  # planners at 20 Hz are not late before
_NEXT_S = 0.06  # from one plan's start to the next: one that is here already is not late
_RESUMED_S = 60.0  # in which late plans are counted


class Bridge(NamedTuple):
    """State of the bridge from one command to the next."""

    command: Command
    machine: Machine = Machine()
    plans: PlanQueue = PlanQueue()
    overdue: float | None = None  # start of the plan that is followed no more, for its age
    resumed: tuple[float, ...] = ()  # s, when motion went on after a late plan


def receive(bridge: Bridge, plan: Plan) -> Bridge:
    """Return the bridge with a checked plan; while it is not engaged, none counts."""
    if not bridge.machine.engaged:
        return bridge
    return bridge._replace(plans=bridge.plans.add(plan))


def change(bridge: Bridge, changed: Machine) -> Bridge:
    """Return the bridge in another state; plans from before an interruption count no more."""
    if changed.engaged == bridge.machine.engaged:
        return bridge._replace(machine=changed)
    return forget(bridge)._replace(machine=changed)


def forget(bridge: Bridge) -> Bridge:
    """Return the bridge without any plan."""
    return bridge._replace(plans=PlanQueue(), overdue=None)


def step(
    config: BridgeConfig,
    robot: Robot,
    bridge: Bridge,
    now: float,
    position: Array,
    dt: float,
    delay_s: float,
) -> Bridge:
    """
    Return the bridge with its next command, `dt` after the last one.

    `position` (joints,) was measured last; the robot moves `delay_s` after it is commanded to.
    """
    bridge = bridge._replace(plans=bridge.plans.advance(now))
    bridge = _watch(config, robot, bridge, now, dt + delay_s)
    current = bridge.plans.current  # none after a fault
    following = current is not None and current.start != bridge.overdue
    target = current.at(now) if following else None
    if following and _is_late(config, robot, bridge, now + dt, dt + delay_s):
        target = _no_faster(robot, target, bridge.command)
    command = jerk_limiter.shape(robot, bridge.command, target, position, dt)
    at_rest = jerk_limiter.is_at_rest(robot, command)
    return bridge._replace(
        command=command, machine=state_machine.advance(bridge.machine, following, at_rest)
    )


def _watch(
    config: BridgeConfig, robot: Robot, bridge: Bridge, now: float, delay_s: float
) -> Bridge:
    """Return the bridge with what is late, and with a fault if it is too late."""
    current = bridge.plans.current  # none unless engaged
    if current is None:
        return bridge
    age = now - current.start
    if age > config.plan_lost_s:
        return trip(bridge, faults.PLAN_LATE, f'the plan is {age:.3f} s old')
    if current.start == bridge.overdue:
        return bridge  # braking, whatever time is left: it began when it had to
    if _is_late(config, robot, bridge, now, delay_s):
        return bridge._replace(overdue=current.start)
    if bridge.overdue is None:
        return bridge
    resumed = (*(t for t in bridge.resumed if t > now - _RESUMED_S), now)
    if len(resumed) > config.late_plans:
        text = f'plans came too late {len(resumed)} times in a minute: is the planner overloaded?'
        return trip(bridge, faults.PLANNER_SLOW, text)
    return bridge._replace(overdue=None, resumed=resumed)


def trip(bridge: Bridge, code: str, text: str) -> Bridge:
    """Return the bridge with a fault: it brakes, and then holds."""
    return change(bridge, state_machine.trip(bridge.machine, Fault(code, text)))


def _is_late(
    config: BridgeConfig, robot: Robot, bridge: Bridge, now: float, delay_s: float
) -> bool:
    """Return whether it is time to brake at a time, in order to be at rest in time."""
    current = bridge.plans.current
    next_start = min((plan.start for plan in bridge.plans.upcoming), default=np.inf)
    age = now - current.start
    if age <= _SOONEST_S or next_start <= current.start + _NEXT_S:
        return False
    rest = config.rest_within_s - jerk_limiter.braking_time(robot, bridge.command)
    return age > min(config.plan_timeout_s, rest) - delay_s


def _no_faster(robot: Robot, target: Array, command: Command) -> Array:
    """
    Return a target that is no faster than a command, joint by joint.

    An arm that speeds up in the very cycle before it has to brake takes up to 9 ms longer.
    """
    if robot.command != 'velocity':
        return target
    zero = np.zeros_like(target)
    return np.clip(target, np.minimum(command.value, zero), np.maximum(command.value, zero))
