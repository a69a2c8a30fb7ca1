"""
The watchdog by itself; superseded by `emppi_ros.bridge.commander.Commander`.

Ages are measured by one clock that never jumps, a plan's from its start. A late plan is bridged:
the arm begins to brake when it must in order to be at rest in time, and goes on if a plan comes
before that is called a fault.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import jerk_limiter, state_machine
from emppi_ros.bridge.commander import (
    BridgeConfig,
    LatePlans,
    PlanQueue,
    check_lateness,
    is_late,
    limit_to_speed,
)
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.state_machine import Machine
from emppi_ros.control.plan import Plan
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]


class Bridge(NamedTuple):
    """State of the bridge from one command to the next."""

    command: Command
    machine: Machine = Machine()
    plans: PlanQueue = PlanQueue()
    late: LatePlans = LatePlans()


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
    return bridge._replace(plans=PlanQueue(), late=bridge.late._replace(start=None))


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
    following = current is not None and current.start != bridge.late.start
    target = current.at(now) if following else None
    if following and is_late(config, robot, bridge.plans, bridge.command, now + dt, dt + delay_s):
        target = limit_to_speed(robot, target, bridge.command)
    command = jerk_limiter.shape(robot, bridge.command, target, position, dt)
    at_rest = jerk_limiter.is_at_rest(robot, command)
    return bridge._replace(
        command=command, machine=state_machine.advance(bridge.machine, following, at_rest)
    )


def _watch(
    config: BridgeConfig, robot: Robot, bridge: Bridge, now: float, delay_s: float
) -> Bridge:
    """Return the bridge with what is late, and with a fault if it is too late."""
    late, fault = check_lateness(
        config, robot, bridge.plans, bridge.late, bridge.command, now, delay_s
    )
    bridge = bridge._replace(late=late)
    return bridge if fault is None else change(bridge, state_machine.trip(bridge.machine, fault))
