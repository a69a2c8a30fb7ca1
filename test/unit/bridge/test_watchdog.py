"""The bridge follows good plans, and only those; else it brakes to rest and says why."""

import numpy as np
import pytest

from emppi_ros.bridge import shaping, watchdog
from emppi_ros.bridge.plan import Plan
from emppi_ros.bridge.watchdog import Bridge, BridgeConfig
from emppi_ros.tasks.robot import JointLimits, PositionLimits, Robot

LIMITS = JointLimits(PositionLimits((-9.0,), (9.0,)), (1.0,), (10.0,))
ROBOT = Robot('r', ('a',), ('a',), 'velocity', (0.0,), LIMITS)
CONFIG = BridgeConfig()
DT = 1.0 / CONFIG.rate_hz
USABLE = 5.0  # half of the acceleration
JERK = USABLE / 0.005  # without a jerk limit full acceleration takes 5 ms


def _plan(start, speed=0.5, duration=1.0):
    times, values = np.array([0.0, duration, duration + 0.1]), np.array([[speed], [speed], [0.0]])
    return Plan(start, times, values)


def _bridge(armed=True):
    return watchdog.arm(Bridge(shaping.at_rest(ROBOT, np.zeros(1))), armed)


def _run(bridge, begin, end, plans=(), age=0.0):
    """Step from `begin` to `end`, handing over (time, plan) when due; return all bridges."""
    waiting, seen = list(plans), []
    for i in range(round((end - begin) / DT)):
        now = begin + i * DT
        while waiting and waiting[0][0] <= now + 1e-9:
            bridge = watchdog.receive(bridge, waiting.pop(0)[1])
        bridge = watchdog.step(CONFIG, ROBOT, bridge, now, np.zeros(1), age, DT)
        seen.append(bridge)
    return seen


def _speeds(seen):
    return np.array([b.command.value[0] for b in seen])


def test_a_stream_of_plans_is_followed():
    plans = [(t, _plan(t)) for t in np.arange(0.0, 1.0, 0.05)]
    seen = _run(_bridge(), 0.0, 1.0, plans)
    # 0.5 m/s at 5 m/s^2 is reached in 0.1 s, and one cycle
    assert np.all(_speeds(seen)[26:] == 0.5)
    assert {b.reason for b in seen} == {''}


def test_without_a_new_plan_the_bridge_brakes_in_the_time_it_takes():
    plans = [(t, _plan(t)) for t in np.arange(0.0, 0.5, 0.05)]  # the last starts at 0.45
    seen = _run(_bridge(), 0.0, 1.0, plans)
    speeds, times = _speeds(seen), np.arange(250) * DT
    stale = 0.45 + CONFIG.plan_timeout_s
    assert np.all(speeds[(times > 0.2) & (times < stale)] == 0.5)
    # braking from 0.5 takes 0.1 s; two cycles for the clock's grid
    assert np.all(speeds[times > stale + 0.5 / USABLE + 2 * DT] == 0.0)
    assert 'the plan is' in seen[-1].reason and 's old' in seen[-1].reason


def test_a_late_plan_is_forgiven_and_a_stopped_bridge_starts_again():
    seen = _run(_bridge(), 0.0, 1.2, [(0.0, _plan(0.0)), (0.09, _plan(0.1)), (0.8, _plan(0.8))])
    reasons = [b.reason for b in seen]
    assert all(r == '' for r in reasons[:49]) and reasons[150] != '' and reasons[205] == ''
    assert _speeds(seen)[205] > 0.0


def test_a_bridge_that_is_not_armed_never_moves():
    plans = [(t, _plan(t)) for t in np.arange(0.0, 1.0, 0.05)]
    seen = _run(_bridge(armed=False), 0.0, 1.0, plans)
    assert not _speeds(seen).any() and seen[-1].reason == 'not armed'


def test_disarming_brakes_and_arming_again_forgets_old_plans():
    moving = _run(_bridge(), 0.0, 0.15, [(0.0, _plan(0.0)), (0.1, _plan(0.1, duration=9.0))])[-1]
    moving = watchdog.receive(moving, _plan(0.3))
    assert moving.command.value[0] == 0.5
    stopping = _run(watchdog.arm(moving, False), 0.15, 0.4)
    assert (
        _speeds(stopping)[0] == pytest.approx(0.5 - 0.5 * JERK * DT**2)
        and _speeds(stopping)[-1] == 0.0
    )
    armed = watchdog.arm(watchdog.arm(moving, False), True)
    assert armed.current is None and armed.upcoming == ()
    again = _run(armed, 0.15, 0.4)
    assert again[-1].reason == 'waiting for a plan' and again[-1].command.value[0] == 0.0


@pytest.mark.parametrize('age', [0.051, 10.0, np.nan, np.inf])
def test_joint_states_that_are_old_stop_the_robot(age):
    moving = _run(_bridge(), 0.0, 0.2, [(0.0, _plan(0.0)), (0.1, _plan(0.1)), (0.2, _plan(0.2))])[
        -1
    ]
    plans = [(t, _plan(t)) for t in np.arange(0.2, 0.5, 0.05)]
    seen = _run(moving, 0.2, 0.5, plans, age)
    assert _speeds(seen)[-1] == 0.0 and 'joint states are' in seen[-1].reason


def test_a_plan_waits_for_its_start_and_replaces_those_that_start_later():
    bridge = _run(_bridge(), 0.0, 0.05, [(0.0, _plan(0.0, 0.1))])[-1]
    for plan in (_plan(0.10, 0.2), _plan(0.20, 0.3), _plan(0.15, 0.4)):
        bridge = watchdog.receive(bridge, plan)
    assert [p.start for p in bridge.upcoming] == [0.10, 0.15]
    seen = _run(bridge, 0.05, 0.2)
    starts = [b.current.start for b in seen]
    assert starts == sorted(starts) and set(starts) == {0.0, 0.10, 0.15}


def test_of_plans_that_are_due_only_the_newest_counts():
    bridge = _bridge()
    for start in (0.0, 0.01, 0.02):
        bridge = watchdog.receive(bridge, _plan(start, speed=10 * start))
    after = watchdog.step(CONFIG, ROBOT, bridge, 0.05, np.zeros(1), 0.0, DT)
    assert after.current.start == 0.02 and after.upcoming == ()


def test_a_step_changes_no_bridge_but_returns_another():
    bridge = watchdog.receive(_bridge(), _plan(0.0))
    kept = bridge.command.value.copy()
    watchdog.step(CONFIG, ROBOT, bridge, 0.1, np.zeros(1), 0.0, DT)
    assert np.array_equal(bridge.command.value, kept) and len(bridge.upcoming) == 1


def test_a_plan_that_was_overtaken_changes_nothing():
    bridge = _run(_bridge(), 0.0, 0.1, [(0.0, _plan(0.0)), (0.04, _plan(0.05))])[-1]
    assert watchdog.receive(bridge, _plan(0.03, speed=-0.5)) == bridge
