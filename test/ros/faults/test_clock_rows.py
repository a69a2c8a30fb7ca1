"""Rows C1 and C2: clocks that jump or stop; what counts is one that does neither."""

import time
import types

from faultlab.arm import Arm
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from builtin_interfaces.msg import Time
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, qos
from emppi_ros.robots import plan as plans

pytestmark = pytest.mark.alone

# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {
    'plan_timeout_s': 0.6,
    'plan_lost_s': 0.9,
    'rest_within_s': 2.0,
    'state_timeout_s': 2.0,
    'jump_rad': 1.0,
    'frozen_after_s': 2.0,
    'residual_after_s': 2.0,
}
SPEED, HOUR, PERIOD_S = 0.2, 3600.0, 0.004


class World:
    """A robot at home and a planner, whose stamps are those of a clock that is set."""

    def __init__(self, harness):
        self.harness, self.robot = harness, harness.publish_task('panda_push').robot
        self.offset = 0.0  # of the planner's clock [s]
        self.commands = harness.listen(Float64MultiArray, self.robot.topics.commands['velocity'])
        self._states = harness.publisher(JointState, 'joint_states', qos.SENSOR)
        self._plans = harness.publisher(JointTrajectory, 'emppi/plan')
        self.clock = harness.now
        self.planning, self.arm, self._fed = False, Arm(self.robot.home), 0.0
        harness.feeds.append(self.feed)

    def feed(self):
        if time.monotonic() < self._fed + PERIOD_S:  # all run in one process
            return
        self._fed = time.monotonic()
        if self.commands:
            self.arm.follow(self.commands[-1].data)
        now, measured = self.harness.now(), self.arm.measure()
        self._states.publish(convert.write_joints(self.robot, now, *measured))
        if self.planning:
            self.plan(self.clock() + self.offset)

    def plan(self, start):
        row = np.full(7, SPEED)
        made = plans.make(self.robot, start, row, np.tile(row, (10, 1)), 0.05, 'linear')
        self._plans.publish(convert.write_plan(self.robot, made))

    def get_moving(self):
        self.harness.spin_until(lambda: self.commands)
        arm = SetBool.Request(data=True)
        assert self.harness.call(SetBool, 'emppi/arm', arm).success
        self.planning = True
        self.harness.spin_until(self.at_speed)

    def at_speed(self):
        return np.allclose(self.commands[-1].data, SPEED)

    def assert_held(self, code):
        self.harness.spin_until(lambda: self.harness.says('bridge')[2]['state'] == 'held')
        assert self.harness.says('bridge')[2]['fault'] == code
        assert not np.any(self.commands[-1].data)


@pytest.fixture
def world(harness):
    return World(harness)


def _set_clock(node, seconds, monkeypatch):
    """Let a node's clock be wrong by so much from now on."""
    real = node.get_clock()
    from rclpy.duration import Duration

    wrong = types.SimpleNamespace(now=lambda: real.now() + Duration(seconds=seconds))
    monkeypatch.setattr(node, 'get_clock', lambda: wrong)


@pytest.mark.parametrize('jump', [HOUR, -HOUR])
def test_c1_a_wall_clock_that_is_set_for_all_stops_nothing(harness, world, jump, monkeypatch):
    node = harness.make(BridgeNode, **PATIENT)
    world.get_moving()
    count = len(world.commands)
    _set_clock(node, jump, monkeypatch)
    world.offset = jump
    harness.spin_until(lambda: len(world.commands) > count + 200)
    assert node.command_loop.commander.machine.fault is None
    assert all(np.allclose(m.data, SPEED) for m in world.commands[count:])
    world.planning = False  # and the watchdog trips as ever
    world.assert_held('plan-late')


@pytest.mark.parametrize('jump', [HOUR, -HOUR])
def test_c1_a_planner_whose_clock_is_wrong_is_no_planner(harness, world, jump, monkeypatch):
    node = harness.make(BridgeNode, **PATIENT)
    world.get_moving()
    _set_clock(node, jump, monkeypatch)
    world.assert_held('plan-late')
    assert int(harness.says('bridge')[2]['rejected_plans']) > 0


@pytest.mark.parametrize('stamp', ['zero', 10.0, 1e8])
def test_c1_plans_of_the_beginning_and_of_the_future_are_rejected(harness, world, stamp):
    node = harness.make(BridgeNode, **PATIENT)
    world.get_moving()
    before = node.command_loop.rejected_plans
    world.plan(0.0 if stamp == 'zero' else harness.now() + stamp)
    harness.spin_until(lambda: node.command_loop.rejected_plans == before + 1)
    assert node.command_loop.commander.machine.fault is None


@pytest.fixture
def simulated(harness, world):
    """Return the time on /clock, which goes on while `running`."""
    clock = types.SimpleNamespace(time=1000.0, running=True, rate=1.0)
    publisher = harness.publisher(ClockMessage, '/clock')
    last = [time.monotonic()]

    def tick():
        now = time.monotonic()
        if now < last[0] + PERIOD_S:
            return
        if clock.running:
            clock.time += clock.rate * (now - last[0])
            whole = int(clock.time)
            stamp = Time(sec=whole, nanosec=int(1e9 * (clock.time - whole)))
            publisher.publish(ClockMessage(clock=stamp))
        last[0] = now

    harness.feeds.insert(0, tick)
    world.clock = lambda: clock.time
    return clock


def test_c2_when_simulated_time_stops_the_watchdog_trips(harness, world, simulated):
    harness.make(BridgeNode, use_sim_time=True, **PATIENT)
    world.get_moving()
    simulated.running = world.planning = False  # as the planner's loop waits for its clock
    world.assert_held('plan-late')


@pytest.mark.parametrize('jump', [-100.0, 100.0])
def test_c2_a_jump_of_simulated_time_breaks_nothing(harness, world, simulated, jump):
    node = harness.make(BridgeNode, use_sim_time=True, **PATIENT)
    world.get_moving()
    simulated.time += jump
    count = len(world.commands)
    harness.spin_until(lambda: len(world.commands) > count + 200)
    assert not node.failed
    world.planning = False
    world.assert_held('plan-late')
