"""What an operator may do with the bridge, and what it says."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.bridge import faults, jerk_limiter
from emppi_ros.bridge.commander import Commander
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.monitors import Measurement
from emppi_ros.bridge.state_machine import Machine, Phase
from emppi_ros.bridge.watchdog import BridgeConfig
from emppi_ros.control.plan import Plan
from emppi_ros.core.errors import ArmError
from emppi_ros.robots.robot import load_robot

ROBOT = load_robot('panda')
HOME = np.array(ROBOT.home)
DT = 0.004
PUSHED = Fault(faults.EXTERNAL_TORQUE, 'somebody pushes')


class Arm:
    """Measures and plans in virtual time, as long as it is told to."""

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


def test_before_any_measurement_there_is_nothing_to_arm_or_pause():
    commander = Commander(BridgeConfig(), ROBOT)
    assert not commander.ready and commander.resting and commander.machine == Machine()
    for act in (lambda: commander.arm(0.0), lambda: commander.pause(True)):
        with pytest.raises(ArmError, match='no joint state received yet'):
            act()
    commander.disarm()
    commander.trip(PUSHED)
    commander.receive(Plan(0.0, np.array([0.0, 1.0]), np.zeros((2, 7))))
    assert commander.machine == Machine()


def test_it_says_what_it_waits_for(arm):
    arm.plans = False
    arm.run(0.1)
    assert arm.commander.reason == 'not armed'
    arm.commander.arm(arm.now)
    arm.run(0.1)
    assert arm.commander.reason == 'waiting for a plan'
    arm.commander.pause(True)
    assert arm.commander.reason == 'paused'


def test_a_pause_brakes_and_then_motion_goes_on(arm):
    arm.moving().commander.pause(True)
    arm.run(0.5)
    assert not np.any(arm.rows[-1]) and arm.commander.machine.phase is Phase.ARMED
    arm.commander.pause(False)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_a_late_plan_is_told_and_then_a_fault(arm):
    arm.moving().plans = False
    arm.run(0.112)
    assert arm.commander.reason == 'the plan is late'
    arm.run(0.024)
    assert arm.commander.reason.startswith('stopping: the plan is 0.13')
    arm.run(0.2)
    assert arm.commander.reason.startswith('held: the plan is 0.13')


def test_a_robot_that_moves_later_is_braked_sooner():
    braked = []
    for delay in (0.0, 0.02):
        arm = Arm(delay_s=delay).moving()
        arm.plans = False
        rows = np.array(arm.run(0.112).rows[-28:])
        braked.append(int(np.argmax(rows[:, 0] < 0.3)))
    assert braked[0] - braked[1] == 5  # cycles of 4 ms


def test_joint_states_that_are_late_are_a_fault_and_keep_it_from_being_armed(arm):
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


def test_a_fault_from_elsewhere_holds(arm):
    arm.moving().commander.trip(PUSHED)
    arm.run(0.5)
    assert arm.commander.reason == 'held: somebody pushes' and not np.any(arm.rows[-1])
    with pytest.raises(ArmError, match='somebody pushes. Disarm to acknowledge'):
        arm.commander.arm(arm.now)


@pytest.mark.parametrize('let_go', [False, None])
def test_an_enabling_switch_must_be_held(let_go):
    arm = Arm(BridgeConfig(enable_timeout_s=0.15))
    arm.run(0.1)
    words = r'^the enabling switch \(topic emppi/enable\) is not held'
    with pytest.raises(ArmError, match=words):
        arm.commander.arm(arm.now)
    arm.enabled = True
    arm.moving().enabled = let_go
    arm.run(0.5)
    assert arm.commander.machine.fault.code == faults.ENABLE_LOST and not np.any(arm.rows[-1])


def test_armed_again_it_starts_from_where_the_robot_is_now():
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


def test_a_robot_that_was_left_moving_is_braked_from_there():
    commander = Commander(BridgeConfig(), ROBOT)
    commander.measure(Measurement(0.0, 0.0, HOME, np.full(7, 0.4)))
    first = commander.step(DT)[0].value
    assert np.all((first > 0.3) & (first < 0.4)) and not commander.resting
    assert commander.machine.phase is Phase.STOPPING
    start = Command(np.full(7, 0.4), np.zeros(7), np.zeros(7))
    np.testing.assert_allclose(first, jerk_limiter.shape(ROBOT, start, None, HOME, DT).value)
    for sign in (1.0, -1.0):  # what is measured may be anything; what is commanded may not
        wild = Commander(BridgeConfig(), ROBOT)
        wild.measure(Measurement(0.0, 0.0, HOME, np.full(7, sign * 99.0)))
        rate = wild.step(DT)[0].value
        assert np.all(np.abs(rate) <= np.array(ROBOT.limits.velocity)) and np.all(sign * rate > 0)
    still = Commander(BridgeConfig(), ROBOT)
    still.measure(Measurement(0.0, 0.0, HOME, np.full(7, 0.04)))  # noise
    assert not np.any(still.step(DT)[0].value)


def test_a_hiccup_is_no_licence_for_a_jump(arm):
    arm.moving().plans = False
    arm.commander.pause(True)
    before, arm.now = arm.rows[-1], arm.now + 0.03
    arm.run(DT)
    fastest = 0.5 * np.array(ROBOT.limits.acceleration) * 2 * DT
    assert np.all(before - arm.rows[-1] <= fastest)


def test_after_a_hiccup_it_can_go_on_from_what_the_robot_did_by_itself(arm):
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


def test_an_arm_that_does_not_move_as_commanded_is_stopped(arm):
    arm.moving().follows = False
    arm.position = arm.position + 1e-3 * np.arange(7)  # shaken, so that it is not frozen
    arm.run(0.2)
    assert arm.commander.machine.fault.code in (faults.RESIDUAL, faults.STATE_FROZEN)
    arm.run(0.3)
    assert not np.any(arm.rows[-1])


def test_a_joint_state_that_jumps_stops_it_and_one_that_is_repeated_does_not_count(arm):
    arm.moving().position = arm.position + 0.3
    arm.run(DT)
    assert arm.commander.machine.fault.code == faults.STATE_JUMP
    repeated = Arm().moving()
    before = repeated.commander.position
    repeated.commander.measure(Measurement(repeated.now + DT, repeated.now, HOME, np.zeros(7)))
    assert repeated.commander.position is before and repeated.commander.machine.fault is None


def test_a_robot_that_is_where_this_one_cannot_be_is_not_armed(arm):
    arm.plans = False
    arm.position = np.array(ROBOT.limits.position.upper) + 0.2
    arm.run(0.1)
    with pytest.raises(ArmError, match='panda_joint1'):
        arm.commander.arm(arm.now)


def test_from_rest_it_follows_no_plan_before_the_robot_has_settled():
    arm = Arm(settle_s=0.1).run(0.1)
    arm.commander.arm(arm.now)
    assert arm.commander.reason == 'settling where it is'
    arm.run(0.1 - DT)
    assert not np.any(arm.rows) and arm.commander.reason == 'settling where it is'
    arm.run(2 * DT)
    assert np.any(arm.rows[-1]) and arm.commander.reason == ''
    # while it moves there is nothing to settle
    arm.run(0.3)
    arm.commander.pause(True)
    arm.run(DT)
    arm.commander.pause(False)
    arm.run(2 * DT)
    assert arm.commander.reason == ''


def test_for_another_task_it_brakes_waits_and_goes_on_as_before(arm):
    arm.moving().commander.swap(arm.now, True)
    assert not arm.commander.still
    arm.run(0.5)
    assert arm.commander.still and not np.any(arm.rows[-1])
    assert arm.commander.machine.armed and arm.commander.reason == 'at rest for another task'
    assert_smooth(arm)
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_the_end_of_a_swap_is_not_the_end_of_a_pause(arm):
    arm.moving().commander.pause(True)
    arm.commander.swap(arm.now, True)
    arm.run(0.5)
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert not np.any(arm.rows[-1]) and arm.commander.reason == 'paused'
    arm.commander.pause(False)
    arm.run(0.3)
    assert np.all(arm.rows[-1] == 0.3)


def test_the_end_of_a_swap_arms_nobody(arm):
    arm.run(0.1)
    arm.commander.swap(arm.now, True)
    arm.run(0.1)
    assert arm.commander.still
    arm.commander.swap(arm.now, False)
    arm.run(0.3)
    assert not np.any(arm.rows) and arm.commander.reason == 'not armed'


def test_a_swap_that_never_ends_is_a_fault_of_whoever_is_armed(arm):
    limit = BridgeConfig().swap_timeout_s
    arm.moving().commander.swap(arm.now, True)
    for _ in range(3):  # asked again and again, the time is that of the first
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


def test_an_arm_is_still_once_it_was_not_measured_to_move_for_a_while(arm):
    arm.run(0.3)
    assert arm.commander.still
    for after, speed, still in [(0.001, 0.2, False), (0.09, 0.0, False), (0.102, 0.0, True)]:
        now = arm.now + after
        arm.commander.measure(Measurement(now, now, HOME, np.full(7, speed)))
        assert arm.commander.still == still


def assert_smooth(arm):
    """No command steps by more than the acceleration that is used, in a cycle of 4 ms."""
    usable = ROBOT.dynamics_factor * np.array(ROBOT.limits.acceleration)
    assert np.all(np.abs(np.diff(np.array(arm.rows), axis=0)) <= usable * 0.004 + 1e-9)  # rounding
