"""Which plan counts, when several are at hand."""

import numpy as np

from emppi_ros.bridge import plan_queue
from emppi_ros.bridge.plan_queue import Schedule
from emppi_ros.control.plan import Plan


def _plan(start):
    return Plan(start, np.array([0.0, 1.0]), np.zeros((2, 1)))


def _starts(plans):
    return [plan.start for plan in plans]


def test_a_plan_waits_for_its_start_and_replaces_those_that_start_later():
    plans = plan_queue.advance(plan_queue.add(Schedule(), _plan(0.0)), 0.05)
    for start in (0.10, 0.20, 0.15):
        plans = plan_queue.add(plans, _plan(start))
    assert plans.current.start == 0.0 and _starts(plans.upcoming) == [0.10, 0.15]
    assert plan_queue.advance(plans, 0.09) == plans
    assert plan_queue.advance(plans, 0.10) == Schedule(plans.upcoming[0], plans.upcoming[1:])
    assert plan_queue.advance(plans, 0.30) == Schedule(plans.upcoming[1])


def test_a_plan_with_the_same_start_replaces_the_one_before():
    first, second = _plan(0.1), _plan(0.1)
    assert plan_queue.add(plan_queue.add(Schedule(), first), second).upcoming == (second,)


def test_a_plan_that_was_overtaken_changes_nothing():
    plans = Schedule(_plan(0.05))
    assert plan_queue.add(plans, _plan(0.03)) is plans
    assert _starts(plan_queue.add(plans, _plan(0.05)).upcoming) == [0.05]


def test_of_plans_that_are_due_only_the_newest_counts():
    plans = Schedule()
    for start in (0.0, 0.01, 0.02):
        plans = plan_queue.add(plans, _plan(start))
    assert _starts(plans.upcoming) == [0.0, 0.01, 0.02]
    due = plan_queue.advance(plans, 0.05)
    assert due.current.start == 0.02 and due.upcoming == ()
