"""The commander follows valid plans, obeys the operator, brakes in time, and holds."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from emppi_ros.bridge import commander as commanders
from emppi_ros.bridge import faults, jerk_limiter
from emppi_ros.bridge.commander import BridgeConfig, Commander, LatePlans, PlanQueue
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.monitors import Measurement, MonitorConfig
from emppi_ros.bridge.state_machine import Machine, Phase
from emppi_ros.core.errors import ArmError, ConfigError
from emppi_ros.robots.plan import Plan
from emppi_ros.robots.robot import JointLimits, PositionLimits, Robot, load_robot

ROBOT = load_robot('panda')
HOME = np.array(ROBOT.home)
DT = 0.004
PUSHED = Fault(faults.EXTERNAL_TORQUE, 'somebody pushes')


class Arm:
    """Measures and plans in virtual time, until `measures` or `plans` is unset."""

    def __init__(self, config=None, robot=ROBOT, **settings):
        self.commander = Commander(config or BridgeConfig(), robot, **settings)
        self.now, self.measures, self.plans = 0.0, True, True
        self.position, self.rows, self.enabled = HOME, [], None
        self.follows = robot.command == 'velocity'

    def measure(self):
        if self.follows and self.rows:
            self.position = self.position + DT * self.rows[-1]
        speed = self.rows[-1] if self.follows and self.rows else np.zeros(7)
        self.commander.measure(Measurement(self.now, self.now, self.position, speed))

    def run(self, seconds):
        for _ in range(round(seconds / DT)):
            self.now += DT
            if self.measures:
                self.measure()
            if self.enabled is not None:
                self.commander.enable(self.now, self.enabled)
            if self.plans:
                rows = np.outer([0.3, 0.3, 0.0], np.ones(7))
                self.commander.receive(Plan(self.now, np.array([0.0, 1.0, 1.2]), rows))
            self.rows.append(self.commander.step(self.now)[0].value)
            self.commander.follow(self.now, self.rows[-1])
        return self

    def moving(self):
        self.run(0.1)
        self.commander.arm(self.now)
        self.run(0.3)
        assert np.all(self.rows[-1] == 0.3) and self.commander.reason == ''
        return self


@pytest.fixture
def arm():
    return Arm()


def test_before_any_measurement_arming_and_pausing_are_errors():
    commander = Commander(BridgeConfig(), ROBOT)
    assert not commander.ready and commander.resting and commander.machine == Machine()
    for act in (lambda: commander.arm(0.0), lambda: commander.pause(True)):
        with pytest.raises(ArmError, match='no joint state received yet'):
            act()
    commander.disarm()
    commander.trip(PUSHED)
    commander.receive(Plan(0.0, np.array([0.0, 1.0]), np.zeros((2, 7))))
    assert commander.machine == Machine()


def test_the_reason_names_what_motion_waits_for(arm):
    arm.plans = False
    arm.run(0.1)
    assert arm.commander.reason == 'not armed'
    arm.commander.arm(arm.now)
    arm.run(0.1)
    assert arm.commander.reason == 'waiting for a plan'
    arm.commander.pause(True)
    assert arm.commander.reason == 'paused'


def test_a_pause_brakes_and_motion_continues_afterwards(arm):
    arm.moving().commander.pause(True)
    arm.run(0.5)
    assert not np.any(arm.rows[-1]) and arm.commander.machine.phase is Phase.ARMED
    arm.commander.pause(False)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_a_late_plan_is_reported_and_then_a_fault(arm):
    arm.moving().plans = False
    arm.run(0.112)
    assert arm.commander.reason == 'the plan is late'
    arm.run(0.024)
    assert arm.commander.reason.startswith('stopping: the plan is 0.13')
    arm.run(0.2)
    assert arm.commander.reason.startswith('held: the plan is 0.13')


def test_timeouts_that_are_set_later_act_as_if_given_at_the_start():
    config = BridgeConfig(plan_timeout_s=0.05, plan_lost_s=0.06)
    arms = [Arm(config), Arm()]
    arms[1].commander.configure(config)
    for arm in arms:
        arm.moving().plans = False
        arm.run(0.3)
        assert arm.commander.machine.fault.code == faults.PLAN_LATE
    assert np.array_equal(arms[0].rows, arms[1].rows)


def test_a_robot_with_a_longer_delay_is_braked_earlier():
    braked = []
    for delay in (0.0, 0.02):
        arm = Arm(delay_s=delay).moving()
        arm.plans = False
        rows = np.array(arm.run(0.112).rows[-28:])
        braked.append(int(np.argmax(rows[:, 0] < 0.3)))
    assert braked[0] - braked[1] == 5  # cycles of 4 ms


def test_late_joint_states_are_a_fault_and_prevent_arming(arm):
    arm.moving().measures = False
    arm.run(0.048)
    assert np.all(arm.rows[-1] == 0.3)
    arm.run(0.012)
    assert arm.commander.machine.fault.code == faults.STATE_LATE
    assert np.all(arm.rows[-1] < 0.3)
    arm.run(0.3)
    arm.commander.disarm()
    with pytest.raises(ArmError, match=r'joint states are 0\.\d+ s old'):
        arm.commander.arm(arm.now)
    arm.measures = True
    arm.run(0.1)
    arm.commander.arm(arm.now)


def test_an_external_fault_stops_and_holds(arm):
    arm.moving().commander.trip(PUSHED)
    arm.run(0.5)
    assert arm.commander.reason == 'held: somebody pushes' and not np.any(arm.rows[-1])
    with pytest.raises(ArmError, match='somebody pushes. Disarm to acknowledge'):
        arm.commander.arm(arm.now)


@pytest.mark.parametrize('let_go', [False, None])
def test_the_enabling_switch_must_be_held(let_go):
    arm = Arm(BridgeConfig(enable_timeout_s=0.15))
    arm.run(0.1)
    words = r'^the enabling switch \(topic emppi/enable\) is not held'
    with pytest.raises(ArmError, match=words):
        arm.commander.arm(arm.now)
    arm.enabled = True
    arm.moving().enabled = let_go
    arm.run(0.5)
    assert arm.commander.machine.fault.code == faults.ENABLE_LOST and not np.any(arm.rows[-1])


def test_arming_again_starts_from_the_measured_position():
    robot = dataclasses.replace(ROBOT, command='position')
    arm = Arm(robot=robot)
    arm.plans = False
    arm.run(0.1)
    arm.position = HOME + 0.02  # moved by hand
    arm.run(0.1)
    assert np.array_equal(arm.rows[-1], HOME)
    arm.commander.arm(arm.now)
    arm.run(0.1)
    assert np.array_equal(arm.rows[-1], arm.position)


def test_a_robot_in_motion_at_startup_is_braked_from_its_velocity():
    commander = Commander(BridgeConfig(), ROBOT)
    commander.measure(Measurement(0.0, 0.0, HOME, np.full(7, 0.4)))
    first = commander.step(DT)[0].value
    assert np.all((first > 0.3) & (first < 0.4)) and not commander.resting
    assert commander.machine.phase is Phase.STOPPING
    start = Command(np.full(7, 0.4), np.zeros(7), np.zeros(7))
    np.testing.assert_allclose(first, jerk_limiter.shape(ROBOT, start, None, HOME, DT).value)
    for sign in (1.0, -1.0):  # any velocity may be measured; commands are within limits
        wild = Commander(BridgeConfig(), ROBOT)
        wild.measure(Measurement(0.0, 0.0, HOME, np.full(7, sign * 99.0)))
        rate = wild.step(DT)[0].value
        assert np.all(np.abs(rate) <= np.array(ROBOT.limits.velocity)) and np.all(sign * rate > 0)
    still = Commander(BridgeConfig(), ROBOT)
    still.measure(Measurement(0.0, 0.0, HOME, np.full(7, 0.04)))  # noise
    assert not np.any(still.step(DT)[0].value)


def test_a_missed_cycle_does_not_allow_a_larger_step(arm):
    arm.moving().plans = False
    arm.commander.pause(True)
    before, arm.now = arm.rows[-1], arm.now + 0.03
    arm.run(DT)
    fastest = 0.5 * np.array(ROBOT.limits.acceleration) * 2 * DT
    assert np.all(before - arm.rows[-1] <= fastest)


def test_after_a_missed_cycle_it_resumes_from_the_given_command(arm):
    commander = arm.commander
    assert not commander.is_behind(9.0)  # nothing was commanded yet
    arm.moving()
    assert not commander.is_behind(arm.now + 2 * DT - 1e-9)
    assert commander.is_behind(arm.now + 2 * DT + 1e-9)
    zero = np.zeros(7)
    arm.now += 0.05
    commander.resume(arm.now, Command(np.full(7, 0.1), zero, zero))
    assert not commander.resting and commander.position is arm.position
    arm.run(DT)
    assert np.all((arm.rows[-1] > 0.1) & (arm.rows[-1] < 0.12))


def test_an_arm_that_does_not_follow_its_commands_is_stopped(arm):
    arm.moving().follows = False
    arm.position = arm.position + 1e-3 * np.arange(7)  # shaken, so that it is not frozen
    arm.run(0.2)
    assert arm.commander.machine.fault.code in (faults.RESIDUAL, faults.STATE_FROZEN)
    arm.run(0.3)
    assert not np.any(arm.rows[-1])


def test_a_jump_of_joint_states_is_a_fault_and_repeated_states_are_ignored(arm):
    arm.moving().position = arm.position + 0.3
    arm.run(DT)
    assert arm.commander.machine.fault.code == faults.STATE_JUMP
    repeated = Arm().moving()
    before = repeated.commander.position
    repeated.commander.measure(Measurement(repeated.now + DT, repeated.now, HOME, np.zeros(7)))
    assert repeated.commander.position is before and repeated.commander.machine.fault is None


def test_positions_beyond_the_limits_prevent_arming(arm):
    arm.plans = False
    arm.position = np.array(ROBOT.limits.position.upper) + 0.2
    arm.run(0.1)
    with pytest.raises(ArmError, match='panda_joint1'):
        arm.commander.arm(arm.now)


def test_from_rest_plans_are_followed_after_the_settling_time():
    arm = Arm(settle_s=0.1).run(0.1)
    arm.commander.arm(arm.now)
    assert arm.commander.reason == 'settling at the measured position'
    arm.run(0.1 - DT)
    assert not np.any(arm.rows) and arm.commander.reason == 'settling at the measured position'
    arm.run(2 * DT)
    assert np.any(arm.rows[-1]) and arm.commander.reason == ''
    # while it moves there is nothing to settle
    arm.run(0.3)
    arm.commander.pause(True)
    arm.run(DT)
    arm.commander.pause(False)
    arm.run(2 * DT)
    assert arm.commander.reason == ''


def test_for_a_task_switch_it_brakes_waits_and_continues(arm):
    arm.moving().commander.swap(arm.now, True)
    assert not arm.commander.still
    arm.run(0.5)
    assert arm.commander.still and not np.any(arm.rows[-1])
    assert arm.commander.machine.armed and arm.commander.reason == 'at rest for a task switch'
    assert_smooth(arm)
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_the_end_of_a_task_switch_does_not_end_a_pause(arm):
    arm.moving().commander.pause(True)
    arm.commander.swap(arm.now, True)
    arm.run(0.5)
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert not np.any(arm.rows[-1]) and arm.commander.reason == 'paused'
    arm.commander.pause(False)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_the_end_of_a_task_switch_does_not_arm(arm):
    arm.run(0.1)
    arm.commander.swap(arm.now, True)
    arm.run(0.1)
    assert arm.commander.still
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert not np.any(arm.rows) and arm.commander.reason == 'not armed'


def test_a_task_switch_that_does_not_end_is_a_fault(arm):
    limit = BridgeConfig().swap_timeout_s
    arm.moving().commander.swap(arm.now, True)
    for _ in range(3):  # repeated requests do not extend the time
        arm.run(limit / 3)
        assert arm.commander.machine.fault is None
        arm.commander.swap(arm.now, True)
    arm.run(0.05)
    assert arm.commander.machine.fault.code == faults.SWAP_LOST
    assert not np.any(arm.rows[-1]) and not arm.commander.machine.swapping
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert not np.any(arm.rows[-1])
    arm.commander.disarm()
    arm.commander.arm(arm.now)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_an_arm_is_still_after_a_while_without_measured_motion(arm):
    arm.run(0.3)
    assert arm.commander.still
    for after, speed, still in [(0.001, 0.2, False), (0.09, 0.0, False), (0.102, 0.0, True)]:
        now = arm.now + after
        arm.commander.measure(Measurement(now, now, HOME, np.full(7, speed)))
        assert arm.commander.still == still


def assert_smooth(arm):
    """Check that no command changes by more than the usable acceleration in a cycle of 4 ms."""
    usable = ROBOT.dynamics_factor * np.array(ROBOT.limits.acceleration)
    assert np.all(np.abs(np.diff(np.array(arm.rows), axis=0)) <= usable * 0.004 + 1e-9)  # rounding


# --- late plans, on a robot of one joint that is not monitored -----------------------------------


def _slip(residual, tolerance):
    """Return the code of the fault of an arm that is dragged along; a stage tolerates some."""
    arm = Arm()
    arm.commander.tolerate(tolerance)
    arm.moving()
    arm.measures = False
    for _ in range(round(0.3 / DT)):
        arm.run(DT)
        arm.position = arm.position + DT * (arm.rows[-1] + residual)
        speed = arm.rows[-1] + residual
        arm.commander.measure(Measurement(arm.now, arm.now, arm.position, speed))
    fault = arm.commander.machine.fault
    return fault and fault.code


@pytest.mark.parametrize(
    ('residual', 'tolerance', 'code'),
    [
        (0.2, None, faults.RESIDUAL),
        (0.2, 0.3, None),
        (0.4, 0.3, faults.RESIDUAL),
        (0.2, 0.05, faults.RESIDUAL),  # a stage makes no monitor stricter, or looser than it asks
        (0.09, 0.05, None),
    ],
)
def test_a_stage_may_tolerate_what_drags_the_arm(residual, tolerance, code):
    assert _slip(np.full(7, residual), tolerance) == code


def test_after_a_stage_that_tolerates_more_the_configured_residual_holds_again():
    commander = Arm(monitor_config=MonitorConfig(residual_rad_per_s=0.2)).commander
    seen = []
    for tolerance in (None, 0.6, None):
        commander.tolerate(tolerance)
        seen.append(commander.tolerated_residual)
    assert seen == [0.2, 0.6, 0.2]


SLIDER = Robot(
    'r', ('a',), ('a',), 'velocity', (0.0,),
    JointLimits(PositionLimits((-9.0,), (9.0,)), (1.0,), (10.0,)),
)  # fmt: skip
CONFIG = BridgeConfig()
USABLE = 4.9  # 98 % of half of the acceleration
JERK = USABLE / 0.005  # without a jerk limit full acceleration takes 5 ms
_NEVER = 1e9
UNMONITORED = MonitorConfig(_NEVER, _NEVER, _NEVER, _NEVER, _NEVER, residual_rad_per_s=_NEVER)


class Cycle(NamedTuple):
    """The commander's state after a step."""

    command: Command
    machine: Machine
    plan: Plan | None
    late: bool


def _plan(start, speed=0.5, duration=1.0, joints=1):
    times = np.array([0.0, duration, duration + 0.1])
    return Plan(start, times, np.outer([speed, speed, 0.0], np.ones(joints)))


def _measure(commander, robot, now):
    """Measure a robot that stays at home and ignores commands."""
    home = np.array(robot.home)
    commander.measure(Measurement(now, 0.0, home, np.zeros_like(home)))


def _commander(armed=True, robot=SLIDER, config=CONFIG, delay=0.0, now=0.0):
    commander = Commander(config, robot, delay, UNMONITORED)
    _measure(commander, robot, now)
    if armed:
        commander.arm(now)
    return commander


def _run(commander, begin, end, plans=(), robot=SLIDER):
    """Step from `begin` to `end`, handing over (time, plan) when due; return every cycle."""
    waiting, seen = list(plans), []
    for i in range(round((end - begin) / DT)):
        now = begin + i * DT
        while waiting and waiting[0][0] <= now + 1e-9:
            commander.receive(waiting.pop(0)[1])
        _measure(commander, robot, now)
        command, _ = commander.step(now)
        late = commander.machine.engaged and commander.reason == 'the plan is late'
        seen.append(Cycle(command, commander.machine, commander._plans.current, late))
    return seen


def _stream(begin, end, joints=1, speed=0.5, period=0.05):
    return [(t, _plan(t, speed, joints=joints)) for t in np.arange(begin, end - 1e-9, period)]


def _speeds(seen):
    return np.array([b.command.value[0] for b in seen])


def test_a_stream_of_plans_is_followed():
    seen = _run(_commander(), 0.0, 1.0, _stream(0.0, 1.0))
    # 0.5 m/s at 4.9 m/s^2 is reached in 0.102 s and a ramp of 5 ms, and one cycle
    assert np.all(_speeds(seen)[28:] == 0.5)
    assert {b.machine.phase for b in seen} == {Phase.MOVING}


def test_without_a_new_plan_it_brakes_and_then_holds():
    seen = _run(_commander(), 0.0, 1.0, _stream(0.0, 0.5))  # the last starts at 0.45
    speeds, times = _speeds(seen), np.arange(250) * DT
    stale = 0.45 + CONFIG.plan_timeout_s
    assert np.all(speeds[(times > 0.2) & (times < stale - 2 * DT)] == 0.5)
    # braking from 0.5 takes 0.1 s and a ramp of 5 ms; two cycles for the clock's grid
    assert np.all(speeds[times > stale + 0.5 / USABLE + 0.005 + 2 * DT] == 0.0)
    phases = [b.machine.phase for b in seen]
    assert phases[::-1].index(Phase.STOPPING) < phases[::-1].index(Phase.MOVING)
    assert phases[-1] is Phase.HELD
    assert seen[-1].machine.fault.code == faults.PLAN_LATE
    assert seen[-1].machine.fault.text.startswith('the plan is 0.13')


def test_a_held_arm_ignores_plans_until_it_is_armed_again():
    commander = _commander()
    _run(commander, 0.0, 1.0, _stream(0.0, 0.5))
    seen = _run(commander, 1.0, 1.5, _stream(1.0, 1.5))
    assert not _speeds(seen).any() and seen[-1].machine.phase is Phase.HELD
    commander.disarm()
    commander.arm(1.5)
    assert _speeds(_run(commander, 1.5, 2.0, _stream(1.5, 2.0)))[-1] == 0.5


@pytest.mark.parametrize('name', ['panda', 'fr3'])
@pytest.mark.parametrize('delay', [0.0, 0.02])
@pytest.mark.parametrize('phase', np.arange(5) * DT / 5)
@pytest.mark.parametrize('speed', [0.5, 0.05])  # the slower, the later it brakes
def test_an_arm_is_at_rest_within_the_required_time(name, delay, phase, speed):
    # onset at most 110 ms, rest at most 220 ms after the plan, at up to 0.5 rad/s
    robot = load_robot(name)
    joints = len(robot.joints)
    stream = _stream(0.0, 0.5, joints, speed)  # plans come before their start
    plans = [(t - 0.01, p._replace(start=p.start - phase)) for t, p in stream]
    seen = _run(_commander(robot=robot, delay=delay), 0.0, 1.0, plans, robot)
    rows = np.array([b.command.value for b in seen])
    ages = np.arange(len(rows)) * DT - plans[-1][1].start
    moved = np.any(rows != 0.0, axis=1)
    steady = (ages < commanders._NOT_LATE_S) & (ages > -0.1)
    np.testing.assert_allclose(rows[steady], speed, rtol=1e-12)  # of interpolation
    slower = np.any(rows < speed * (1.0 - 1e-12), axis=1) & (ages > 0)
    assert ages[slower][0] + delay <= 0.110
    rest = ages[~moved & (ages > 0)][0] + delay  # a command is in force from when it is given
    assert rest <= 0.220
    assert seen[-1].machine.phase is Phase.HELD


@pytest.mark.slow
@pytest.mark.parametrize('phase', np.arange(4) * DT / 4)
@pytest.mark.parametrize('before', [0.2, 0.4, 0.48])
def test_an_accelerating_arm_without_a_new_plan_is_at_rest_in_time(before, phase):
    robot, start, delay = load_robot('panda'), 0.2 + phase, 0.016
    for age in np.arange(0.02, 0.1, DT):  # of the plan, when it begins to speed up
        times = np.array([0.0, age, age + (0.5 - before) / 20.0, 1.0, 1.2])
        rows = np.outer([before, before, 0.5, 0.5, 0.0], np.ones(7))
        plans = [(t - 0.01, p) for t, p in _stream(0.0, 0.2, 7, before)]
        plans.append((0.19, Plan(start, times, rows)))
        seen = _run(_commander(robot=robot, delay=delay), 0.0, 0.5, plans, robot)
        moving = [i for i, b in enumerate(seen) if np.any(b.command.value)]
        # no plan is late before 51 ms; braking takes 141 ms (test_oracle), and a cycle is added.
        # Without looking ahead it would be up to 4 ms more
        longest = commanders._NOT_LATE_S + delay + 0.1411 + DT
        assert (moving[-1] + 1) * DT + delay - start <= longest


def test_an_arm_with_a_long_braking_time_brakes_earlier():
    robot = load_robot('panda')
    plans = _stream(0.0, 0.5, 7)
    seen = _run(_commander(robot=robot), 0.0, 1.0, plans, robot)
    ages = np.arange(len(seen)) * DT - 0.45
    onset = ages[[b.late and b.plan.start == 0.45 for b in seen].index(True)]
    # 141 ms from 0.5 rad/s (test_oracle), a cycle, and the grid of cycles
    longest = CONFIG.rest_within_s - 0.1411
    assert longest - 2 * DT < onset <= longest


@pytest.mark.parametrize('delay', [0.0, 0.02])  # it must brake after 61 ms, or after 51 ms
def test_a_plan_received_before_its_start_is_not_late(delay):
    robot = load_robot('panda')
    for period, brakes in ((0.058, False), (0.07, True)):
        plans = [(t - 0.02, p) for t, p in _stream(0.0, 1.0, 7, period=period)]
        seen = _run(_commander(robot=robot, delay=delay), 0.0, 1.0, plans, robot)
        assert any(b.late for b in seen) == brakes


def test_motion_resumes_after_a_late_plan():
    robot, plans = load_robot('panda'), _stream(0.0, 0.5, 7)
    late = [(0.57, _plan(0.55, joints=7)), *_stream(0.6, 1.0, 7)]  # the one of 0.5 never comes
    commander = _commander(robot=robot)
    seen = _run(commander, 0.0, 1.0, [*plans, *late], robot)
    speeds, phases = _speeds(seen), [b.machine.phase for b in seen]
    braked = speeds[113:150]  # from 0.45 s on
    assert 0.05 < braked.min() < 0.5 and speeds[-1] == 0.5
    assert Phase.STOPPING in phases[100:150] and phases[-1] is Phase.MOVING
    assert commander._late.resumed == pytest.approx((0.572,))  # the cycle after 0.57


def test_braking_continues_until_the_next_plan():
    robot = load_robot('panda')
    seen = _run(_commander(robot=robot), 0.0, 0.58, _stream(0.0, 0.5, 7), robot)
    began = [b.late for b in seen].index(True)
    assert all(b.late for b in seen[began:])


def test_too_many_late_plans_are_a_fault():
    config = BridgeConfig(late_plans=3)
    plans = _stream(0.0, 2.0, period=0.12)  # each is late by 20 ms
    commander = _commander(config=config)
    seen = _run(commander, 0.0, 2.0, plans)
    assert seen[-1].machine.phase is Phase.HELD
    assert seen[-1].machine.fault.code == faults.PLANNER_SLOW
    assert 'late 4 times in a minute' in seen[-1].machine.fault.text
    assert len(commander._late.resumed) == 3


def test_late_plans_count_for_one_minute():
    config = BridgeConfig(late_plans=1)
    plans = [(0.0, _plan(0.0)), (0.12, _plan(0.12))]
    commander = _commander(config=config)
    commander._late = LatePlans(resumed=(-60.1, -60.0, -59.8))
    assert _run(commander, 0.0, 0.2, plans)[-1].machine.fault.code == faults.PLANNER_SLOW
    commander = _commander(config=config)
    commander._late = LatePlans(resumed=(-60.1, -60.0))
    assert _run(commander, 0.0, 0.2, plans)[-1].machine.fault is None
    assert len(commander._late.resumed) == 1


def test_a_bridge_that_is_not_armed_never_moves():
    commander = _commander(armed=False)
    seen = _run(commander, 0.0, 1.0, _stream(0.0, 1.0))
    assert not _speeds(seen).any() and seen[-1].machine == Machine()
    assert commander._plans == PlanQueue()


def test_disarming_brakes_and_arming_again_discards_old_plans():
    def disarmed():
        commander = _commander()
        plans = [(0.0, _plan(0.0)), (0.1, _plan(0.1, duration=9.0))]
        moving = _run(commander, 0.0, 0.152, plans)[-1]
        commander.receive(_plan(0.3))
        assert moving.command.value[0] == 0.5
        commander.disarm()
        return commander

    stopping = _run(disarmed(), 0.152, 0.4)
    assert (
        _speeds(stopping)[0] == pytest.approx(0.5 - 0.5 * JERK * DT**2)
        and _speeds(stopping)[-1] == 0.0
    )
    assert stopping[0].machine.phase is Phase.STOPPING
    assert stopping[-1].machine.phase is Phase.INACTIVE
    commander = disarmed()
    commander.arm(0.152)
    assert commander._plans == PlanQueue()
    again = _run(commander, 0.152, 0.4)
    assert again[-1].machine.phase is Phase.ARMED and again[-1].command.value[0] == 0.0


def test_efforts_drop_to_zero_at_once():
    limits = JointLimits(PositionLimits((-9.0,), (9.0,)), (1.0,), (10.0,), effort=(5.0,))
    robot = Robot('r', ('a',), ('a',), 'effort', (0.0,), limits)
    seen = _run(_commander(robot=robot), 0.0, 0.5, [(0.0, _plan(0.0, 3.0))], robot)
    rows, ages = _speeds(seen), np.arange(len(seen)) * DT
    assert np.all(rows[ages < CONFIG.plan_timeout_s - 2 * DT] == 3.0)
    assert np.all(rows[ages >= CONFIG.plan_timeout_s] == 0.0)


def test_a_step_does_not_modify_earlier_commands_or_plans():
    commander, plan = _commander(), _plan(0.0)
    commander.receive(plan)
    (cycle,) = _run(commander, 0.0, DT)
    kept, values = cycle.command.value.copy(), plan.values.copy()
    _run(commander, DT, 0.1)
    assert np.array_equal(cycle.command.value, kept) and np.array_equal(plan.values, values)


def test_plan_lost_s_must_not_be_below_plan_timeout_s():
    with pytest.raises(ConfigError, match='plan_lost_s: 0.05 is below plan_timeout_s 0.1'):
        BridgeConfig(plan_lost_s=0.05)


# --- the queue of plans --------------------------------------------------------------------------


def _starts(plans):
    return [plan.start for plan in plans]


def test_a_plan_waits_for_its_start_and_replaces_later_ones():
    plans = PlanQueue().add(_plan(0.0)).advance(0.05)
    for start in (0.10, 0.20, 0.15):
        plans = plans.add(_plan(start))
    assert plans.current.start == 0.0 and _starts(plans.upcoming) == [0.10, 0.15]
    assert plans.advance(0.09) == plans
    assert plans.advance(0.10) == PlanQueue(plans.upcoming[0], plans.upcoming[1:])
    assert plans.advance(0.30) == PlanQueue(plans.upcoming[1])


def test_a_plan_replaces_one_with_the_same_start():
    first, second = _plan(0.1), _plan(0.1)
    assert PlanQueue().add(first).add(second).upcoming == (second,)


def test_plans_older_than_the_current_one_are_ignored():
    plans = PlanQueue(_plan(0.05))
    assert plans.add(_plan(0.03)) is plans
    assert _starts(plans.add(_plan(0.05)).upcoming) == [0.05]


def test_only_the_newest_due_plan_is_used():
    plans = PlanQueue()
    for start in (0.0, 0.01, 0.02):
        plans = plans.add(_plan(start))
    assert _starts(plans.upcoming) == [0.0, 0.01, 0.02]
    due = plans.advance(0.05)
    assert due.current.start == 0.02 and due.upcoming == ()
