"""The bridge moves the robot only when it may, and brakes when it must."""

import signal
import threading

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.diagnostics import ERROR, OK
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.robots import plan as plans

pytestmark = pytest.mark.alone

# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {
    'plan_timeout_s': 1.0,
    'plan_lost_s': 2.0,
    'rest_within_s': 2.0,
    'state_timeout_s': 2.0,
    'frozen_after_s': 2.0,
    'residual_after_s': 2.0,
}
SPEED = 0.2  # rad/s


class Robot:
    """Pretends to be a robot that moves as told, and a planner that asks it to move."""

    def __init__(self, harness):
        self.harness, self.task = harness, harness.publish_task('panda_push')
        self.robot = self.task.robot
        self.names = list(self.robot.joints)
        self.commands = harness.listen(Float64MultiArray, self.robot.topics.commands['velocity'])
        self.applied = harness.listen(JointState, 'emppi/applied')
        self._states = harness.publisher(JointState, 'joint_states', qos.SENSOR)
        self._plans = harness.publisher(JointTrajectory, 'emppi/plan')
        self._position, self._measured = np.array(self.robot.home), harness.now()
        harness.feeds.append(self.measure)

    def measure(self):
        now, speed = self.harness.now(), self.last()
        self._position = self._position + (now - self._measured) * speed
        self._measured = now
        message = convert.write_joints(self.robot, now, self._position, speed)
        message.name = self.names
        self._states.publish(message)

    def plan(self, speed=SPEED, start=None):
        """Return a plan of constant speed for all joints, that starts now."""
        start = self.harness.now() if start is None else start
        row = np.full(len(self.robot.commanded), speed)
        controls = np.tile(row, (10, 1))
        return convert.write_plan(
            self.robot, plans.make(self.robot, start, row, controls, 0.05, 'linear')
        )

    def send(self, message):
        self._plans.publish(message)

    def keep_planning(self):
        self.harness.feeds.append(lambda: self.send(self.plan()))

    def stop_planning(self):
        del self.harness.feeds[1:]

    def arm(self, armed=True):
        return self.harness.call(SetBool, 'emppi/arm', SetBool.Request(data=armed))

    def last(self):
        return np.array(self.commands[-1].data) if self.commands else np.zeros(7)

    def get_moving(self):
        self.harness.spin_until(lambda: self.commands)
        assert self.arm().success
        self.keep_planning()
        self.harness.spin_until(lambda: np.all(np.isclose(self.last(), SPEED)))

    def rows(self):
        return np.array([list(message.data) for message in self.commands])


@pytest.fixture
def robot(harness):
    return Robot(harness)


def assert_braked(robot):
    """The last command is rest, and no step on the way exceeded the usable acceleration."""
    rows, usable = (
        robot.rows(),
        robot.robot.dynamics_factor * np.array(robot.robot.limits.acceleration),
    )
    assert not np.any(rows[-1])
    # a step lasts 4 ms, or up to twice as long after a hiccup; 1e-9 for rounding
    assert np.all(np.abs(np.diff(rows, axis=0)) <= usable * 0.008 + 1e-9)


def test_unarmed_it_commands_rest_whatever_plans_come(harness, robot):
    harness.make(BridgeNode, **PATIENT)
    robot.keep_planning()
    harness.spin_until(lambda: len(robot.commands) > 50)
    assert not np.any(robot.rows())
    assert harness.says('bridge')[:2] == (OK, 'not armed')


def test_it_commands_nothing_before_any_joint_state(harness, robot):
    harness.feeds.clear()
    node = harness.make(BridgeNode, **PATIENT)
    harness.spin_until(lambda: node.state == 'active')
    answer = robot.arm()
    assert not answer.success and 'no joint state' in answer.message
    robot.keep_planning()
    harness.spin_for(0.3)
    assert not robot.commands and not robot.applied


def test_armed_it_follows_the_plan_and_says_what_it_applied(harness, robot):
    harness.make(BridgeNode, **PATIENT)
    robot.get_moving()
    assert harness.says('bridge')[:2] == (OK, 'following the plan')
    harness.spin_until(lambda: robot.applied and np.allclose(robot.applied[-1].velocity, SPEED))
    assert list(robot.applied[-1].name) == list(robot.robot.commanded)


def test_a_stale_plan_is_braked_to_rest(harness, robot):
    harness.make(BridgeNode, **{**PATIENT, 'plan_timeout_s': 0.2, 'plan_lost_s': 0.4})
    robot.get_moving()
    robot.stop_planning()
    harness.spin_until(lambda: not np.any(robot.last()))
    harness.spin_until(lambda: harness.says('bridge')[2]['state'] == 'held')
    level, message, values = harness.says('bridge')
    assert level == ERROR and 'held: the plan is' in message and 's old' in message
    assert values['fault'] == 'plan-late'
    assert_braked(robot)


def test_what_is_held_is_armed_again_only_after_it_was_acknowledged(harness, robot):
    harness.make(BridgeNode, **{**PATIENT, 'plan_timeout_s': 0.2, 'plan_lost_s': 0.4})
    robot.get_moving()
    robot.stop_planning()
    harness.spin_until(lambda: harness.says('bridge')[2]['state'] == 'held')
    count = len(robot.commands)
    robot.keep_planning()
    answer = robot.arm()
    assert not answer.success and 'the plan is' in answer.message
    assert 'Disarm to acknowledge' in answer.message
    harness.spin_until(lambda: len(robot.commands) > count + 50)
    assert not np.any(robot.rows()[count:])
    assert robot.arm(False).success
    assert harness.says('bridge')[2]['state'] == 'inactive'
    assert robot.arm().success
    harness.spin_until(lambda: np.all(np.isclose(robot.last(), SPEED)))


def test_a_change_of_state_is_told_at_once(harness, robot):
    harness.make(BridgeNode, **PATIENT)
    robot.get_moving()
    harness.spin_until(lambda: harness.statuses['bridge'][2]['state'] == 'moving')
    robot.arm(False)
    # 0.05 s between looks; an order of magnitude below the second of the usual reports
    harness.statuses.pop('bridge')
    harness.spin_until(lambda: 'bridge' in harness.statuses, timeout=0.5)


def test_it_logs_once_that_it_is_active_and_each_fault_when_it_happens(
    harness, robot, monkeypatch
):
    said, real = {'info': [], 'error': []}, BridgeNode.get_logger

    class Logger:
        def __init__(self, node):
            self._real = real(node)

        def __getattr__(self, name):
            if name in said:
                return said[name].append
            return getattr(self._real, name)

    monkeypatch.setattr(BridgeNode, 'get_logger', lambda node: Logger(node))  # noqa: PLW0108
    harness.make(BridgeNode, **PATIENT)
    robot.get_moving()
    robot.stop_planning()
    harness.spin_until(lambda: said['error'])
    assert said['error'][0].startswith('fault plan-late: the plan is')
    assert not robot.arm().success  # a second look at the same fault
    assert robot.arm(False).success and robot.arm().success
    robot.names = ['elbow', *robot.names[1:]]
    harness.spin_until(lambda: len(said['error']) > 1)
    assert said['error'][1].startswith('fault state-late: joint states are')
    harness.spin_for(0.2)
    assert len(said['error']) == 2
    assert said['info'] == ['configured', 'active', 'armed', 'not armed', 'armed']


def test_an_enabling_switch_has_to_be_held(harness, robot):
    switch = harness.publisher(Bool, 'emppi/enable')
    harness.make(BridgeNode, **PATIENT, enable_timeout_s=1.0)
    harness.spin_until(lambda: robot.commands)
    answer = robot.arm()
    assert not answer.success and 'enabling switch' in answer.message
    pressed = [True]
    harness.feeds.append(lambda: switch.publish(Bool(data=pressed[0])))
    harness.spin_for(0.2)
    robot.get_moving()
    pressed[0] = False
    harness.spin_until(lambda: not np.any(robot.last()))
    assert harness.says('bridge')[2]['fault'] == 'enable-lost'


def test_on_hardware_it_is_not_patient(harness):
    with pytest.raises(ConfigError, match=r'plan_timeout_s: 1 s; on hardware at most 0\.2 s'):
        harness.make(BridgeNode, **PATIENT, hardware=True)


def test_stale_joint_states_are_braked_to_rest(harness, robot):
    harness.make(BridgeNode, **{**PATIENT, 'state_timeout_s': 0.3})
    robot.get_moving()
    robot.names = ['elbow', *robot.names[1:]]
    harness.spin_until(lambda: not np.any(robot.last()))
    level, message, values = harness.says('bridge')
    assert level == ERROR and 'joint states are' in message
    assert 'missing joints: panda_joint1' in values['input_error']
    assert_braked(robot)


def test_invalid_plans_are_rejected_and_change_nothing(harness, robot):
    node = harness.make(BridgeNode, **PATIENT)
    harness.spin_until(lambda: robot.commands)
    robot.arm()
    wrong, nan, past = robot.plan(), robot.plan(), robot.plan(start=harness.now() - 60.0)
    wrong.joint_names[0] = 'other'
    nan.points[3].velocities[1] = float('nan')
    for message, words in ((wrong, 'joints other'), (nan, 'not finite'), (past, 'ago')):
        robot.send(message)
        harness.spin_until(lambda words=words: words in node.command_loop.rejection)
    assert harness.says('bridge')[2]['rejected_plans'] == '3'
    assert not np.any(robot.rows())
    robot.get_moving()  # and a good one is followed as ever
    nan = robot.plan()
    nan.points[3].velocities[1] = float('nan')
    robot.send(nan)
    count = len(robot.commands)
    harness.spin_until(
        lambda: node.command_loop.rejected_plans == 4 and len(robot.commands) > count + 20
    )
    np.testing.assert_allclose(robot.rows()[count:], SPEED)


def test_pause_brakes_and_lets_go_on(harness, robot):
    harness.make(BridgeNode, **PATIENT)
    robot.get_moving()
    harness.call(SetBool, 'emppi/pause', SetBool.Request(data=True))
    harness.spin_until(lambda: not np.any(robot.last()))
    assert harness.says('bridge')[1] == 'paused'
    assert_braked(robot)
    harness.call(SetBool, 'emppi/pause', SetBool.Request(data=False))
    harness.spin_until(lambda: np.all(np.isclose(robot.last(), SPEED)))


def test_it_brakes_when_deactivated_and_is_disarmed_after(harness, robot):
    node = harness.make(BridgeNode, **PATIENT)
    robot.get_moving()
    node.trigger_deactivate()
    count = [0]

    def quiet():  # until nothing more arrives
        before, count[0] = count[0], len(robot.commands)
        harness.spin_for(0.1)
        return before == count[0]

    harness.spin_until(quiet)
    assert_braked(robot)
    node.trigger_activate()
    harness.spin_until(lambda: len(robot.commands) > count[0] + 20)
    assert not np.any(robot.rows()[count[0] :])


def test_without_autostart_it_waits_for_its_transitions(harness, robot):
    node = harness.make(BridgeNode, autostart=False, **PATIENT)
    harness.spin_until(lambda: node.follow.newest)
    assert node.state == 'unconfigured'
    for number, state in (
        (Transition.TRANSITION_CONFIGURE, 'inactive'),
        (Transition.TRANSITION_ACTIVATE, 'active'),
    ):
        request = ChangeState.Request(transition=Transition(id=number))
        assert harness.call(ChangeState, 'bridge/change_state', request).success
        assert node.state == state


def test_sigterm_brakes_before_the_process_ends(harness, robot):
    children = harness.spawn(NodeSpec('bridge', PATIENT))
    robot.get_moving()
    children.end('bridge', signal.SIGTERM)
    harness.spin_until(lambda: children.processes['bridge'].poll() is not None)
    harness.spin_for(0.2)
    assert children.processes['bridge'].poll() == 0
    assert_braked(robot)


def test_what_it_refuses_is_logged_but_never_by_the_loop_that_commands(
    harness, robot, monkeypatch
):
    """A first message takes rclpy a tenth of a second: the loop would miss 25 cycles."""
    node = harness.make(BridgeNode, **PATIENT)
    robot.get_moving()
    real, said = node.get_logger(), []

    class Logger:
        def warning(self, text, **kwargs):
            said.append((threading.current_thread(), text))
            return real.warning(text, **kwargs)

    monkeypatch.setattr(node, 'get_logger', Logger)
    bad = robot.plan()
    bad.points[3].velocities[2] = float('nan')
    robot.send(bad)
    harness.spin_until(lambda: any('rejected: plan' in text for _, text in said))
    robot.names = ['someone', *robot.names[1:]]
    harness.spin_until(lambda: any('joint state: ' in text for _, text in said))
    assert {thread for thread, _ in said} == {threading.main_thread()}


def test_timeouts_may_be_set_while_disarmed(harness, robot):
    node = harness.make(BridgeNode, **PATIENT)
    change = [Parameter('plan_timeout_s', value=0.05), Parameter('plan_lost_s', value=0.06)]
    harness.spin_until(lambda: robot.commands)
    assert robot.arm().success
    assert 'disarm it' in node.set_parameters_atomically(change).reason
    robot.arm(False)
    assert node.set_parameters_atomically(change).successful
    wrong = node.set_parameters_atomically([Parameter('plan_lost_s', value=0.01)])
    assert 'plan_lost_s: 0.01 is below plan_timeout_s 0.05' in wrong.reason
    assert not node.set_parameters([Parameter('rate_hz', value=100.0)])[0].successful
    assert node.get_parameter('plan_lost_s').value == 0.06


def test_on_hardware_long_timeouts_are_refused_when_set(harness):
    node = harness.make(BridgeNode, hardware=True)
    (result,) = node.set_parameters([Parameter('state_timeout_s', value=0.5)])
    assert 'on hardware at most 0.1 s' in result.reason
