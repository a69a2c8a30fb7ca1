"""Simulated time: nodes wait for the first /clock, and work in it, slower, faster and paused."""

import dataclasses
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, graph, qos
from emppi_ros.nodes.simulator.node import SimulatorNode


class SimulatedClock:
    """A simulator's clock, as fast as the real one, and joint states of a robot at home."""

    def __init__(self, harness):
        self.time, self.robot = 0.0, harness.publish_task('panda_push').robot
        self._clock = harness.publisher(Clock, '/clock')
        self._states = harness.publisher(JointState, 'joint_states')
        self._home, self._last = np.array(self.robot.home), time.monotonic()
        harness.feeds.append(self._publish)

    def _publish(self):
        now = time.monotonic()
        if now - self._last < 0.004:
            return  # each message wakes the executor, which would publish again at once
        elapsed, self._last = min(now - self._last, 0.05), now
        speed = np.zeros_like(self._home)
        self._states.publish(convert.write_joints(self.robot, self.time, self._home, speed))
        if self.time:
            self.time += elapsed
            self._clock.publish(Clock(clock=convert.to_stamp(self.time)))


def _stamps(messages):
    return np.array([convert.to_seconds(message.header.stamp) for message in messages])


@pytest.mark.slow
@pytest.mark.parametrize('autostart', [True, False])
def test_the_bridge_waits_for_the_first_clock_and_says_so(harness, autostart):
    world = SimulatedClock(harness)
    applied = harness.listen(JointState, 'emppi/applied')
    node = harness.make(BridgeNode, use_sim_time=True, autostart=autostart)

    def change(number):
        request = ChangeState.Request(transition=Transition(id=number))
        return harness.call(ChangeState, 'bridge/change_state', request).success

    harness.spin_until(lambda: node.follow.newest)
    if autostart:
        harness.spin_until(lambda: 'waiting for /clock' in harness.says('bridge')[1])
    else:
        assert change(Transition.TRANSITION_CONFIGURE)
        assert not change(Transition.TRANSITION_ACTIVATE)
        assert 'waiting for /clock' in harness.says('bridge')[1]
    harness.spin_for(0.2)
    assert node.state == 'inactive' and not node.failed and not applied
    world.time = 0.004  # the first moments of a simulation, less than the age of the bridge
    if not autostart:
        harness.spin_until(lambda: node.clock_runs)
        assert change(Transition.TRANSITION_ACTIVATE)
    harness.spin_until(lambda: len(applied) > 50)
    assert not node.failed and harness.says('bridge')[1] == 'not armed'
    # of the simulation, not of this computer, whose clock counts from 1970; some are delayed
    assert np.all((_stamps(applied) >= 0.0) & (_stamps(applied) < world.time + 0.5))
    assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True)).success


def test_a_real_robot_has_no_simulated_time(harness):
    with pytest.raises(ConfigError, match='use_sim_time: a real robot does not follow /clock'):
        harness.make(BridgeNode, use_sim_time=True, hardware=True)


def test_a_simulation_that_is_not_in_real_time_needs_simulated_time(harness):
    with pytest.raises(ConfigError, match=r'real_time_factor: 0\.5 needs use_sim_time'):
        harness.make(SimulatorNode, real_time_factor=0.5)


@pytest.mark.slow
def test_the_simulator_is_the_clock_which_can_be_slow_and_paused_but_not_set_back(harness):
    task = harness.publish_task('panda_push')
    clocks = harness.listen(Clock, '/clock', qos.NEWEST)
    states = harness.listen(JointState, 'joint_states', qos.MEASURED)  # none may be lost
    node = harness.make(SimulatorNode, use_sim_time=True, real_time_factor=0.5)

    def newest():
        return convert.to_seconds(clocks[-1].clock) if clocks else 0.0

    def pause(paused):
        return harness.call(SetBool, 'simulator/pause', SetBool.Request(data=paused)).success

    harness.spin_until(lambda: newest() > 0.3)
    assert newest() < 20.0 and _stamps(states)[-1] < 20.0  # simulated time, not the wall clock
    assert harness.call(Trigger, 'simulator/reset', Trigger.Request()).success
    before = newest()
    harness.spin_until(lambda: newest() > before + 0.1)
    assert pause(True)
    heard = [-1]  # numbers of joint states: what was sent before arrives late on a busy machine

    def arrived():
        harness.spin_for(0.1)
        heard.append(len(states))
        return heard[-1] == heard[-2]

    harness.spin_until(arrived)
    count, stopped = len(states), newest()
    harness.spin_until(lambda: len(clocks) > 50 and newest() == stopped)
    harness.spin_for(0.1)
    assert len(states) == count and newest() == stopped
    assert harness.says('simulator')[1] == 'paused'
    assert pause(False)
    harness.spin_until(lambda: newest() > stopped + 0.1)
    times = np.array([convert.to_seconds(message.clock) for message in clocks])
    assert np.all(np.diff(times) >= 0.0) and np.all(np.diff(_stamps(states)) > 0.0)
    # joint states come at the rate of the task in simulated time, and steps are not skipped
    period = 1.0 / task.simulation.joint_state_rate_hz
    lost = float(harness.says('simulator')[2]['lost_s'])
    assert np.max(np.diff(_stamps(states))) <= 2.0 * period + lost
    assert node._pace.factor == 0.5


class SteppedClock:
    """A clock that a test sets, and joint states of a robot at home."""

    def __init__(self, harness):
        self._harness, self._robot = harness, harness.publish_task('panda_push').robot
        self._clock = harness.publisher(Clock, '/clock')
        self._states = harness.publisher(JointState, 'joint_states')

    def set(self, node, seconds):
        """Set the clock, and wait until a node has it."""
        message = Clock(clock=convert.to_stamp(seconds))
        self._repeat(self._clock, message, lambda: abs(node.now() - seconds) < 1e-6)

    def measure(self, seconds, condition):
        """Publish joint states with a stamp until a condition holds."""
        home = np.array(self._robot.home)
        message = convert.write_joints(self._robot, seconds, home, np.zeros_like(home))
        self._repeat(self._states, message, condition)

    def _repeat(self, publisher, message, condition):
        """Publish until a condition holds: the first messages may be lost, or dropped."""

        def publish():
            publisher.publish(message)
            return condition()

        self._harness.spin_until(publish)


def _active_belief(harness, seconds):
    """Return a belief node that is active since a time, and its clock."""
    node, world = harness.make(BeliefNode, use_sim_time=True), SteppedClock(harness)
    world.set(node, seconds)
    harness.spin_until(lambda: node.state == 'active')
    return node, world


def test_a_clock_that_is_set_back_is_a_new_beginning(harness):
    node, world = _active_belief(harness, 10.0)
    estimator = node.session.estimator
    world.measure(10.0, lambda: estimator.joints_stamp > 0.0)
    world.set(node, 9.99)  # by little, and soon ahead again
    world.set(node, 10.01)
    harness.spin_until(lambda: estimator.joints_stamp == -np.inf)
    world.measure(10.01, lambda: estimator.joints_stamp > 0.0)
    world.set(node, 1.0)
    world.measure(1.0, lambda: 0.0 < estimator.joints_stamp < 5.0)
    assert node.state == 'active' and not node.failed


def test_what_was_measured_before_the_clock_was_set_back_is_dropped(harness):
    node, world = _active_belief(harness, 1.0)
    errors = node._inputs.errors
    world.measure(100.0, lambda: errors)  # as on its way while the clock was set back
    assert 'joint_states: stamped 99.000 s later than /clock' in errors['joint_states']
    world.measure(1.0, lambda: node.session.estimator.joints_stamp > 0.0)
    assert node.session.estimator.joints_stamp < 5.0
    harness.spin_until(lambda: not errors)


def test_messages_that_go_on_while_the_clock_stands_still_are_logged_once(harness, monkeypatch):
    node, world = _active_belief(harness, 1.0)
    logged = []
    monkeypatch.setattr(node.get_logger(), 'warning', lambda text, **_: logged.append(text))
    for stamp in (100.0, 101.0):
        world.measure(stamp, lambda at=stamp: f'{at - 1.0:.3f}' in str(node._inputs.errors))
    (text,) = logged
    assert text.endswith('s later than /clock, which stands still or was set back')


@pytest.mark.slow
@pytest.mark.alone
def test_the_whole_graph_works_and_learns_in_slow_motion(harness):
    specs = [
        dataclasses.replace(spec, parameters={**spec.parameters, 'use_sim_time': True})
        for spec in graph.describe('panda_push', '', 0)
    ]
    # the simulator is last: the others wait for its clock
    specs[-1].parameters['real_time_factor'] = 0.3
    clocks = harness.listen(Clock, '/clock', qos.NEWEST)
    applied = harness.listen(JointState, 'emppi/applied')
    harness.spawn(*specs)

    def says(name, word):
        return harness.statuses.get(name, (0, '', {}))[2].get(word, '')

    def moving():
        return applied and np.max(np.abs(applied[-1].velocity)) > 0.05

    harness.spin_until(lambda: says('planner', 'plan_ms_p50') not in ('', 'nan'), 60.0)
    harness.spin_until(lambda: applied)
    assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True)).success
    harness.spin_until(moving)
    began = convert.to_seconds(clocks[-1].clock)
    harness.spin_until(lambda: float(says('belief', 'updates') or 0) > 20, 60.0)
    harness.spin_until(lambda: convert.to_seconds(clocks[-1].clock) > began + 1.0, 60.0)
    assert abs(_stamps(applied)[-1] - convert.to_seconds(clocks[-1].clock)) < 0.2
