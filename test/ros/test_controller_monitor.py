"""What a joint_trajectory_controller does beside what it is sent: refusals and faults name it."""

import time

from action_msgs.msg import GoalStatus, GoalStatusArray
import numpy as np
import pytest
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge.joint_trajectory import MotionState
from emppi_ros.nodes.backends import controller_monitor
from emppi_ros.nodes.backends.controller_monitor import ControllerMonitor
from emppi_ros.nodes.common import interfaces, qos
from emppi_ros.nodes.common.clock_sync import ClockSync, CommandClock
from emppi_ros.tasks.task import load_task

pytestmark = pytest.mark.skipif(
    interfaces.JointTrajectoryControllerState is None, reason='control_msgs is not installed'
)
ROBOT = load_task('fr3_follow').robot
TOPIC = 'joint_trajectory_controller/joint_trajectory'
STATUS = 'joint_trajectory_controller/follow_joint_trajectory/_action/status'
N, SPEED = len(ROBOT.commanded), 0.3  # rad/s
CYCLE_S = 0.004


class Controller:
    """A controller that follows, and an arm; `run` has the bridge's cycles."""

    def __init__(self, harness):
        self.harness, self.began = harness, time.monotonic()
        self.clock = CommandClock(harness.tester)
        self.stamps = ClockSync(self.clock)
        self.monitor = ControllerMonitor(harness.tester, ROBOT, TOPIC, self.stamps)
        kind = interfaces.JointTrajectoryControllerState
        states = controller_monitor.state_topic(TOPIC)
        self.publisher = harness.publisher(kind, states, qos.NEWEST)
        self.goals = harness.publisher(GoalStatusArray, STATUS, qos.LATCHED)
        self.active, self.scaling, self.offset, self.rate_hz = True, 1.0, 0.0, 250.0
        self.joints, self.stopped = list(ROBOT.commanded), None
        self.sent_at = 0.0
        harness.spin_until(lambda: self.publisher.get_subscription_count() > 0)

    def load(self, name='joint_trajectory_controller'):
        """Subscribe to trajectories, as a loaded controller does by its own node."""
        harness = self.harness
        node = Node(name, context=harness.context)
        harness.nodes.append(node)
        node.create_subscription(JointTrajectory, TOPIC, lambda _: None, qos.DEFAULT)
        look = harness.tester.get_subscriptions_info_by_topic
        harness.spin_until(lambda: [info.node_name for info in look(TOPIC)] == [name])

    def reference(self, now):
        return np.arange(N) * 0.1 + SPEED * (now - self.began)

    def publish(self, now, position):
        """Publish the controller's state."""
        state = MotionState(position + self.offset, np.full(N, SPEED), np.zeros(N))
        message = controller_monitor.write_state(ROBOT, self.clock.stamp_now(), state)
        message.joint_names, message.speed_scaling_factor = self.joints, self.scaling
        self.publisher.publish(message)
        self.sent_at = now

    def run(self, cycles):
        """Return the first fault, '' without one."""
        for _ in range(cycles):
            now = self.clock.now()
            position = self.reference(now if self.stopped is None else self.stopped)
            if self.active and now - self.sent_at >= 1.0 / self.rate_hz - 1e-3:
                self.publish(now, position)
                time.sleep(1e-3)
            self.monitor.poll()
            now = self.clock.now()
            position = self.reference(now if self.stopped is None else self.stopped)
            if text := self.monitor.fault(now, position, self.reference(now)):
                return text
            time.sleep(CYCLE_S - 1e-3)
        return ''

    def goal(self, status):
        self.goals.publish(GoalStatusArray(status_list=[GoalStatus(status=status)]))


@pytest.fixture
def controller(harness):
    made = Controller(harness)
    yield made
    made.monitor.close()


def test_a_controller_that_follows_is_neither_refused_nor_a_fault(controller):
    controller.load()
    assert controller.run(100) == '' and controller.monitor.refusal() == ''


def test_a_controller_that_is_not_loaded_or_not_active_is_refused(controller):
    assert 'nobody subscribes to' in controller.monitor.refusal()
    assert 'is the controller' in controller.monitor.refusal()
    controller.load()
    assert '--activate joint_trajectory_controller' in controller.monitor.refusal()
    controller.run(20)
    assert controller.monitor.refusal() == ''
    controller.active = False
    time.sleep(0.6)
    controller.monitor.poll()
    assert 'publishes no state' in controller.monitor.refusal()
    controller.active = True
    controller.run(5)
    assert controller.monitor.refusal() == ''  # its rate does not contain the pause


def test_another_simulator_need_not_say_what_it_follows(controller):
    controller.load('some_simulator')
    assert controller.monitor.refusal() == ''


def test_a_slow_scaled_or_wrong_controller_is_refused_with_the_number(controller):
    controller.load()
    controller.scaling = 0.5
    controller.run(20)
    assert 'scales the speed to 50 %' in controller.monitor.refusal()
    controller.scaling, controller.joints = 1.0, [f'other_{name}' for name in ROBOT.commanded]
    controller.run(3)
    assert 'has the joints other_fr3_joint1' in controller.monitor.refusal()


def test_a_rate_that_is_too_low_is_refused_with_the_number(controller):
    controller.load()
    controller.rate_hz = 40.0
    controller.run(100)
    assert 'times a second, at least 90 are needed' in controller.monitor.refusal()


def test_a_goal_of_another_client_is_refused_and_a_fault(controller):
    controller.load()
    controller.run(20)
    controller.goal(GoalStatus.STATUS_EXECUTING)
    controller.harness.spin_until(lambda: controller.run(1) != '')
    assert 'goal of another client' in controller.monitor.refusal()
    controller.goal(GoalStatus.STATUS_SUCCEEDED)
    controller.harness.spin_until(lambda: controller.run(1) == '')
    assert controller.monitor.refusal() == ''


def test_an_arm_that_stops_with_its_controller_is_a_fault_before_it_is_far_behind(controller):
    controller.run(50)
    controller.active, controller.stopped = False, controller.clock.now()
    assert 'has sent no state for' in controller.run(50)
    assert 'the arm is' in controller.run(1)


def test_a_controller_that_is_only_silent_is_a_fault_later(controller):
    controller.run(50)
    controller.active, began = False, controller.clock.now()
    assert 'has sent no state for' in controller.run(100)
    assert controller.clock.now() - began > 0.09  # 0.1 s after the last state; a busy machine


def test_a_position_that_was_measured_earlier_is_compared_with_the_reference_of_then(controller):
    controller.run(50)
    controller.active, measured_at = False, controller.clock.now()
    position = controller.reference(measured_at)
    time.sleep(0.03)  # in which the reference goes on by 9 mrad
    controller.monitor.poll()
    now = controller.clock.now()
    for moment, fault in ((measured_at, False), (now, True)):
        text = controller.monitor.fault(now, position, controller.reference(now), moment)
        assert ('has sent no state for' in text) == fault


def test_a_starved_controller_is_refused_if_its_gaps_are_longer_than_what_is_sent_lasts(
    controller,
):
    controller.load()
    for _ in range(12):
        controller.active = True
        controller.run(20)
        controller.active = False
        controller.run(4)
    controller.active = True
    assert controller.run(8) == '' and controller.monitor.refusal() == ''
    refusal = controller.monitor.refusal(0.008)
    assert 'gets no processor time' in refusal and 'chrt -r 20' in refusal
    assert controller.monitor.refusal(1.0) == ''


def test_another_reference_than_what_was_sent_is_a_fault_of_two_states(controller):
    controller.run(50)
    controller.offset = 0.004
    assert 'follows something else' in controller.run(5)


def test_nothing_is_to_be_sent_to_a_silent_controller_and_then_it_holds(controller):
    controller.run(50)
    assert not controller.monitor.silent
    controller.active, controller.stopped = False, controller.clock.now()
    controller.harness.spin_until(lambda: controller.monitor.silent)
    controller.active = True  # it holds where the arm is
    assert 'follows something else' in controller.run(2)


def test_after_an_interruption_nothing_is_to_be_sent_until_the_controller_is_heard(controller):
    controller.run(50)
    now = controller.clock.now()
    controller.publish(now, controller.reference(now))  # and then it may be deactivated
    time.sleep(0.05)
    controller.monitor.poll()
    assert controller.monitor.silent  # the state that has arrived was sent before
    controller.harness.spin_until(lambda: controller.run(1) or not controller.monitor.silent)
    assert not controller.monitor.silent


def test_a_controller_that_pauses_now_and_then_gets_no_longer_silence_for_it(controller):
    for _ in range(12):
        controller.active = True
        controller.run(6)
        controller.active = False
        controller.run(12)  # before it would be a fault
    controller.active = True
    controller.run(6)
    controller.active = False
    time.sleep(0.029)  # by the mean, up to 0.03 s would be allowed
    assert controller.monitor.silent
