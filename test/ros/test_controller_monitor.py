"""What a joint_trajectory_controller does beside what it is sent: refusals and faults name it."""

from collections import deque
import time

from action_msgs.msg import GoalStatus, GoalStatusArray
import numpy as np
import pytest
from rclpy.node import Node
from rclpy.serialization import serialize_message
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


class SimulatedClock:
    """Time that passes in `sleep` only: in place of the module `time`, and the bridge's clock."""

    def __init__(self):
        self._now, self._start = 1000.0, time.time()

    def monotonic(self):
        return self._now

    now = monotonic

    def time(self):
        return self._start + self._now

    stamp_now = time

    def offset_ns(self):
        return round(1e9 * self._start)

    def sleep(self, seconds):
        self._now += seconds


class Inbox:
    """A subscription whose messages arrive in the order and at the time of sending."""

    def __init__(self, clock, _node, _kind, topic, callback, profile, raw=False):
        self.topic, self._clock, self._callback, self._raw = topic, clock, callback, raw
        self._waiting, self._heard_at = deque(maxlen=profile.depth), -np.inf

    @property
    def age(self):
        return self._clock.monotonic() - self._heard_at

    def send(self, message):
        stamp = round(1e9 * self._clock.time())
        self._waiting.append(
            (serialize_message(message), stamp, stamp) if self._raw else (message,)
        )

    def poll(self):
        while self._waiting:
            self._heard_at = self._clock.monotonic()
            self._callback(*self._waiting.popleft())

    def close(self):
        pass


class Controller:
    """A controller that follows, and an arm, in simulated time; `run` has the bridge's cycles."""

    def __init__(self, harness, monkeypatch):
        self.harness, self.clock, self.inboxes = harness, SimulatedClock(), {}
        monkeypatch.setattr(controller_monitor, 'time', self.clock)
        monkeypatch.setattr(controller_monitor, 'PolledSubscription', self._subscribe)
        self.monitor = ControllerMonitor(harness.tester, ROBOT, TOPIC, ClockSync(self.clock))
        self.active, self.scaling, self.offset, self.rate_hz = True, 1.0, 0.0, 250.0
        self.joints, self.stopped = list(ROBOT.commanded), None
        self.began, self.sent_at = self.clock.now(), 0.0

    def _subscribe(self, *arguments, **options):
        inbox = Inbox(self.clock, *arguments, **options)
        return self.inboxes.setdefault(inbox.topic, inbox)

    def load(self, name='joint_trajectory_controller'):
        """Subscribe to trajectories, as a loaded controller does by its own node."""
        load(self.harness, name)

    def reference(self, now):
        return np.arange(N) * 0.1 + SPEED * (now - self.began)

    def publish(self, now, position):
        """Publish the controller's state."""
        state = MotionState(position + self.offset, np.full(N, SPEED), np.zeros(N))
        message = controller_monitor.write_state(ROBOT, self.clock.stamp_now(), state)
        message.joint_names, message.speed_scaling_factor = self.joints, self.scaling
        self.inboxes[controller_monitor.state_topic(TOPIC)].send(message)
        self.sent_at = now

    def run(self, cycles):
        """Return the first fault, '' without one."""
        for _ in range(cycles):
            now = self.clock.now()
            position = self.reference(now if self.stopped is None else self.stopped)
            if self.active and now - self.sent_at >= 1.0 / self.rate_hz - 1e-3:
                self.publish(now, position)
            self.clock.sleep(1e-3)
            self.monitor.poll()
            now = self.clock.now()
            position = self.reference(now if self.stopped is None else self.stopped)
            if text := self.monitor.fault(now, position, self.reference(now)):
                return text
            self.clock.sleep(CYCLE_S - 1e-3)
        return ''

    def goal(self, status):
        self.inboxes[STATUS].send(GoalStatusArray(status_list=[GoalStatus(status=status)]))


def load(harness, name):
    """Subscribe to trajectories by a node of this name."""
    node = Node(name, context=harness.context)
    harness.nodes.append(node)
    node.create_subscription(JointTrajectory, TOPIC, lambda _: None, qos.DEFAULT)
    look = harness.tester.get_subscriptions_info_by_topic
    harness.spin_until(lambda: [info.node_name for info in look(TOPIC)] == [name])


@pytest.fixture
def controller(harness, monkeypatch):
    return Controller(harness, monkeypatch)


def test_a_controller_of_the_graph_is_heard_and_heard_again_after_an_interruption(harness):
    """With messages of ROS 2, and in real time; all other tests have simulated time."""
    clock = CommandClock(harness.tester)
    monitor = ControllerMonitor(harness.tester, ROBOT, TOPIC, ClockSync(clock))
    kind, topic = interfaces.JointTrajectoryControllerState, controller_monitor.state_topic(TOPIC)
    states = harness.publisher(kind, topic, qos.NEWEST)
    goals = harness.publisher(GoalStatusArray, STATUS, qos.LATCHED)
    load(harness, 'joint_trajectory_controller')
    rest = MotionState(*np.zeros((3, N)))

    def is_heard():
        """Publish states, and return whether one has arrived now; at whatever rate."""
        for _ in range(5):  # the first cycle may be after an interruption
            states.publish(controller_monitor.write_state(ROBOT, clock.stamp_now(), rest))
            time.sleep(1e-3)
            monitor.poll()
        return 'no state' not in monitor.refusal() and not monitor.silent

    harness.spin_until(is_heard)
    time.sleep(0.05)
    monitor.poll()
    assert monitor.silent  # what has arrived was sent before
    harness.spin_until(is_heard)
    goals.publish(GoalStatusArray(status_list=[GoalStatus(status=GoalStatus.STATUS_EXECUTING)]))
    harness.spin_until(lambda: is_heard() or 'goal of another client' in monitor.refusal())
    monitor.close()


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
    controller.clock.sleep(0.6)
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
    assert 'goal of another client' in controller.run(1)
    assert 'goal of another client' in controller.monitor.refusal()
    controller.goal(GoalStatus.STATUS_SUCCEEDED)
    assert controller.run(1) == ''
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
    # 0.1 s after the last state, which was sent up to a cycle before
    assert 0.1 - CYCLE_S < controller.clock.now() - began <= 0.1 + CYCLE_S


def test_a_position_that_was_measured_earlier_is_compared_with_the_reference_of_then(controller):
    controller.run(50)
    controller.active, measured_at = False, controller.clock.now()
    position = controller.reference(measured_at)
    controller.clock.sleep(0.03)  # in which the reference goes on by 9 mrad
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
    assert controller.run(1) == ''
    assert 'follows something else' in controller.run(1)


def test_nothing_is_to_be_sent_to_a_silent_controller_and_then_it_holds(controller):
    controller.run(50)
    assert not controller.monitor.silent
    controller.active, controller.stopped = False, controller.clock.now()
    controller.clock.sleep(0.01)
    assert controller.monitor.silent
    controller.active = True  # it holds where the arm is: one state is enough after a silence
    assert 'follows something else' in controller.run(1)


def test_after_an_interruption_nothing_is_to_be_sent_until_the_controller_is_heard(controller):
    controller.run(50)
    now = controller.clock.now()
    controller.publish(now, controller.reference(now))  # and then it may be deactivated
    controller.clock.sleep(0.05)
    controller.monitor.poll()
    assert controller.monitor.silent  # the state that has arrived was sent before
    assert controller.run(1) == '' and not controller.monitor.silent


def test_a_controller_that_pauses_now_and_then_gets_no_longer_silence_for_it(controller):
    for _ in range(12):
        controller.active = True
        controller.run(6)
        controller.active = False
        controller.run(12)  # before it would be a fault
    controller.active = True
    controller.run(6)
    controller.active = False
    controller.clock.sleep(0.02)  # by the mean, up to 0.03 s would be allowed
    assert controller.monitor.silent
