"""Plans: commands at points in time that end at rest."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import PlanError
from emppi_ros.robots import velocity_bounds
from emppi_ros.robots.robot import Robot

_EDGE_S = 1e-3  # duration of the step between held controls: a cycle of fast controllers
MAX_POINTS = 10_000


class Plan(NamedTuple):
    """Commands `values` (n, joints) at `times` (n,) from `start` on [s], linear between them."""

    start: float  # on the clock that stamps measurements
    times: Array  # increasing
    values: Array  # velocity, position or effort of the commanded joints

    def at(self, time: float | Array) -> Array:
        """Return the command (..., joints) at times (...) [s]; end points hold beyond the ends."""
        phase = np.asarray(time) - self.start
        last = len(self.times) - 1
        i = np.minimum(np.maximum(self.times.searchsorted(phase, 'right'), 1), last)
        t0, t1 = self.times[i - 1], self.times[i]
        share = np.minimum(np.maximum((phase - t0) / (t1 - t0), 0.0), 1.0)[..., None]
        return (1.0 - share) * self.values[i - 1] + share * self.values[i]

    @property
    def end(self) -> float:
        """The time of the last point [s]."""
        return self.start + float(self.times[-1])


def make(
    robot: Robot, start: float, applied: Array, controls: Array, step_s: float, kind: str
) -> Plan:
    """
    Return a plan of controls (H, joints) that starts at `applied` and ends at rest.

    At the end velocities ramp to zero with the robot's usable acceleration, efforts become zero
    at once, and positions hold.
    """
    steps = np.arange(1, len(controls) + 1) * step_s
    if kind == 'hold':
        times = np.column_stack([steps - step_s + _EDGE_S, steps]).ravel()
        values = np.repeat(controls, 2, axis=0)
    else:
        times, values = steps, controls
    tail = _EDGE_S
    if robot.command == 'velocity':
        braking = velocity_bounds.usable_acceleration(robot)
        tail = max(_EDGE_S, float((np.abs(values[-1]) / braking).max()))
    rest = values[-1] if robot.command == 'position' else np.zeros(len(applied))
    times = np.concatenate([[0.0], times, [times[-1] + tail]])
    return Plan(start, times, np.concatenate([[applied], values, [rest]]))


def check(
    robot: Robot, joints: Sequence[str], plan: Plan, now: float, reach_s: float = 0.1
) -> Plan:
    """
    Return the plan in the order of the robot's commanded joints, or raise PlanError.

    The joints must be exactly those commanded, in any order. Times must increase, and values must
    be finite and within the robot's limits. The plan must end at rest, must not end before `now`,
    and must start at most `reach_s` after it.
    """
    if sorted(joints) != sorted(robot.commanded):
        raise PlanError(
            f'plan for joints {", ".join(joints) or "none"}; expected exactly '
            f'{", ".join(robot.commanded)}'
        )
    if not 1 < len(plan.times) <= MAX_POINTS:
        raise PlanError(f'plan of {len(plan.times)} points; expected 2 to {MAX_POINTS}')
    if plan.values.shape != (len(plan.times), len(joints)):
        raise PlanError(
            f'plan with values of shape {plan.values.shape}; expected one of {len(joints)} joints '
            f'for each of {len(plan.times)} points'
        )
    if not all(np.isfinite(part).all() for part in plan):
        raise PlanError('plan with values that are not finite')
    if plan.times[0] < 0 or np.any(np.diff(plan.times) <= 0):
        raise PlanError('plan whose times do not increase from 0')
    if plan.end <= now:
        raise PlanError(f'plan that ended {now - plan.end:.3f} s ago')
    if plan.start > now + reach_s:
        raise PlanError(f'plan that starts in {plan.start - now:.3f} s; at most {reach_s:g} s')
    order = [list(joints).index(name) for name in robot.commanded]
    values = plan.values[:, order]
    limits = robot.limits
    if robot.command == 'position':
        low, high = np.array(limits.position.lower), np.array(limits.position.upper)
    else:
        high = np.array(limits.velocity if robot.command == 'velocity' else limits.effort)
        low = -high
    beyond = np.any((values < low - 1e-9) | (values > high + 1e-9), axis=0)
    if beyond.any():
        which = [name for name, b in zip(robot.commanded, beyond, strict=True) if b]
        raise PlanError(f'plan beyond the {robot.command} limits of {", ".join(which)}')
    if robot.command != 'position' and np.any(values[-1] != 0.0):
        raise PlanError('plan that does not end at rest: its last point must be zero')
    return Plan(plan.start, plan.times, values)
