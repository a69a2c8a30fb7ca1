"""Which plan is in force: each from its start on, until a later one starts."""

from typing import NamedTuple

from emppi_ros.control.plan import Plan


class Schedule(NamedTuple):
    """The plan that is followed, and those that start later."""

    current: Plan | None = None
    upcoming: tuple[Plan, ...] = ()  # by start


def add(schedule: Schedule, plan: Plan) -> Schedule:
    """
    Return the schedule with a plan from its start on, in place of those that start later.

    A plan that starts before the one that is followed already was overtaken: it changes nothing.
    """
    if schedule.current is not None and plan.start < schedule.current.start:
        return schedule
    earlier = tuple(p for p in schedule.upcoming if p.start < plan.start)
    return schedule._replace(upcoming=(*earlier, plan))


def advance(schedule: Schedule, now: float) -> Schedule:
    """Return the schedule with the newest plan that has started by now in force."""
    current, upcoming = schedule
    while upcoming and upcoming[0].start <= now:
        current, upcoming = upcoming[0], upcoming[1:]
    return Schedule(current, upcoming)
