"""
Whether to believe the joint states, and whether the arm does as it is told.

Pure functions of what arrives and what is commanded, on one clock that never jumps. Stamps of
the sender say only which message is newer: no age is ever taken from them.

A message that repeats the newest or comes after it was overtaken is not used, so that the age
of the joint states grows. What is used is held against the robot's limits, against the message
before it, and against the commands of the last few hundredths of a second.
"""

from bisect import bisect_right
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import state_checks
from emppi_ros.bridge.faults import Fault
from emppi_ros.core.config import positive
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
REORDERED_S = 1.0  # a stamp that is older by more means that the sender's clock was set


@dataclass(frozen=True)
class MonitorConfig:
    """What is taken for a fault. Of joints that slide, rad is to be read as m."""

    jump_rad: float = positive(
        0.05, doc='step between joint states beyond what the velocity limits allow'
    )
    beyond_limits_rad: float = positive(0.1, doc='position beyond the limits: another robot')
    overspeed_ratio: float = positive(1.5, doc='measured velocity over its limit: another robot')
    frozen_after_s: float = positive(0.05, doc='how long joint states may stay bit by bit equal')
    frozen_travel_rad: float = positive(
        0.005, doc='commanded travel meanwhile; above the step of the encoders'
    )
    residual_rad_per_s: float = positive(0.1, doc='measured beyond commanded velocity, at least')
    residual_ratio: float = positive(0.25, doc='the same as a share of the commanded velocity')
    residual_window_s: float = positive(0.06, doc='commands to compare with: latency and lag')
    residual_after_s: float = positive(0.1, doc='how long on end the residual may be exceeded')


class Measurement(NamedTuple):
    """A joint state."""

    time: float  # s, arrival, on the clock that never jumps
    stamp: float  # s, the sender's clock; 0 if it does not stamp
    position: Array  # (joints,) of the commanded joints
    velocity: Array  # (joints,)


class Commanded(NamedTuple):
    """What was commanded, as long as it matters."""

    times: tuple[float, ...]  # s; the first may be older: it was in force when the window began
    values: Array  # (n, joints) velocities from then on
    lower: Array  # (joints,) that may be measured
    upper: Array


class Monitor(NamedTuple):
    """What the monitors know from one message to the next."""

    fault: Fault | None = None  # of the newest measurement, alone
    used: bool = True  # whether the last measurement counted as new
    last: Measurement | None = None  # that was used
    newest_stamp: float = 0.0  # of those used that had one
    set_back: tuple[float, float] = (-math.inf, -math.inf)  # when stamps last went back
    same_since: float = -math.inf  # equal joint states while a motion was commanded
    travel: float = 0.0  # rad or m of the fastest joint, commanded since then
    commanded: Commanded | None = None
    off_since: Array | None = None  # (joints,) beyond the residual; infinite for those within


def begin() -> Monitor:
    """Return what is known before the first message."""
    return Monitor()


def measure(
    config: MonitorConfig, robot: Robot, monitor: Monitor, measurement: Measurement
) -> Monitor:
    """Return the monitor after a joint state; look at `fault` and `used` each time."""
    time, stamp, last = measurement.time, measurement.stamp, monitor.last
    if stamp != 0.0:
        older = monitor.newest_stamp - stamp
        if monitor.newest_stamp != 0.0 and 0.0 <= older <= REORDERED_S:
            return monitor._replace(used=False)
        if older > REORDERED_S and monitor.newest_stamp != 0.0:
            monitor = monitor._replace(set_back=(monitor.set_back[1], time))
        monitor = monitor._replace(newest_stamp=stamp)
    if last is None or not _equal(last, measurement):
        monitor = monitor._replace(same_since=time, travel=0.0)
    off_since = _off_since(monitor, measurement)
    fault = state_checks.sources(time - monitor.set_back[0], REORDERED_S)
    fault = fault or state_checks.bounds(
        robot, measurement.position, measurement.velocity,
        config.beyond_limits_rad, config.overspeed_ratio,
    )  # fmt: skip
    if fault is None and last is not None:
        fault = state_checks.jump(
            robot, last.position, measurement.position, time - last.time, config.jump_rad
        )
    duration, travel = time - monitor.same_since, monitor.travel
    if robot.command == 'effort':  # held against its own word: velocity without motion
        travel = duration * float(np.abs(measurement.velocity).max())
    if fault is None and duration > config.frozen_after_s and travel > config.frozen_travel_rad:
        fault = state_checks.frozen(duration, travel)
    if fault is None and off_since is not None:
        fault = state_checks.residual(
            robot, measurement.velocity, *monitor.commanded[2:], time - off_since,
            config.residual_after_s,
        )  # fmt: skip
    return monitor._replace(fault=fault, used=True, last=measurement, off_since=off_since)


def command(
    config: MonitorConfig, robot: Robot, monitor: Monitor, now: float, velocity: Array
) -> Monitor:
    """
    Return the monitor after a cycle of the bridge; `fault` stays.

    `velocity` (joints,) is what the robot follows from now on, zeros at rest. A robot that is
    commanded by effort follows no velocity: there is nothing to compare with.
    """
    if robot.command == 'effort':
        return monitor
    before = monitor.commanded
    if before is None:
        times, values = (now,), velocity[None].copy()
    else:
        first = max(0, bisect_right(before.times, now - config.residual_window_s) - 1)
        times = (*before.times[first:], now)
        values = np.concatenate((before.values[first:], velocity[None]))
        began = max(before.times[-1], monitor.same_since)
        travel = monitor.travel + float(np.abs(before.values[-1]).max()) * max(0.0, now - began)
        if not values.any():
            travel = 0.0  # a robot at rest may look the same for ever
        since = now if travel == 0.0 else monitor.same_since
        monitor = monitor._replace(travel=travel, same_since=since)
    lowest, highest = values.min(axis=0), values.max(axis=0)
    allowed = np.maximum(
        config.residual_rad_per_s, config.residual_ratio * np.maximum(-lowest, highest)
    )
    commanded = Commanded(times, values, lowest - allowed, highest + allowed)
    return monitor._replace(commanded=commanded)


def _equal(a: Measurement, b: Measurement) -> bool:
    """Return whether two joint states are equal bit by bit."""
    return (
        a.position.tobytes() == b.position.tobytes()
        and a.velocity.tobytes() == b.velocity.tobytes()
    )


def _off_since(monitor: Monitor, measurement: Measurement) -> Array | None:
    """Return since when each joint is beyond its residual (joints,); None if all are within."""
    if monitor.commanded is None:
        return None
    velocity = measurement.velocity
    off = (velocity < monitor.commanded.lower) | (velocity > monitor.commanded.upper)
    if not off.any():
        return None
    before = math.inf if monitor.off_since is None else monitor.off_since
    return np.where(off, np.minimum(before, measurement.time), math.inf)
