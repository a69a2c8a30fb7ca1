"""Backends: which one is used, which ones refuse hardware, and what each sends."""

import signal
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import joint_trajectory
from emppi_ros.core import config, paths
from emppi_ros.nodes import backends
from emppi_ros.nodes.backends import Backend, controller_monitor
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, interfaces, qos
from emppi_ros.nodes.common.diagnostics import ERROR
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.robots import plan as plans
from emppi_ros.robots.robot import BACKENDS, Robot

# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {'plan_timeout_s': 1.0, 'plan_lost_s': 2.0, 'rest_within_s': 2.0, 'state_timeout_s': 2.0}
# as generous as it may be on hardware
ALLOWED = {'plan_timeout_s': 0.2, 'plan_lost_s': 0.25, 'state_timeout_s': 0.1}


class DummyBackend(Backend):
    """Keeps its commands."""

    def __init__(self, _node, _robot, _clock):
        self.commands = []

    def send(self, cycle):
        self.commands.append(cycle.command.value)
        return cycle.command.value


BACKEND = DummyBackend


@pytest.mark.parametrize('name', sorted(BACKENDS))
def test_every_entry_of_the_registry_is_a_backend(name):
    cls = backends.load(name)
    assert issubclass(cls, Backend) and cls.__module__.endswith(name.replace('-', '_'))


def test_a_name_and_a_module_make_a_backend_for_robots_and_the_bridge(harness, monkeypatch):
    monkeypatch.setitem(BACKENDS, 'dummy', False)
    monkeypatch.setitem(sys.modules, f'{backends.__name__}.dummy', sys.modules[__name__])
    path = paths.find_config('robots', 'panda')
    data = {**config.load(path), 'backend': 'dummy'}
    assert config.build(Robot, data, 'robot.yaml').backend == 'dummy'
    task = harness.publish_task('panda_push')
    node = harness.make(BridgeNode, backend='dummy')
    _feed(harness, task)
    harness.spin_until(lambda: node.state == 'active')
    assert isinstance(node.command_loop.backend, DummyBackend)
    harness.spin_until(lambda: node.command_loop.backend.commands)


def _feed(harness, task, delay=lambda: 0.0, every_s=0.0):
    """Pretend to be a robot that stays at home, whose stamps are old by a delay [s]."""
    robot = task.robot
    states = harness.publisher(JointState, 'joint_states', qos.SENSOR)
    home, last = np.array(robot.home), [-np.inf]

    def send():
        if harness.now() - last[0] >= every_s:
            last[0] = harness.now()
            stamp = harness.now() - delay()
            states.publish(convert.write_joints(robot, stamp, home, np.zeros_like(home)))

    harness.feeds.append(send)


def _follow(harness, task):
    """Pretend to be a joint_trajectory_controller that holds the arm at home."""
    topic = backends.command_topic(task.robot, 'trajectory')
    harness.listen(JointTrajectory, topic)
    if (kind := interfaces.JointTrajectoryControllerState) is not None:
        states = harness.publisher(kind, controller_monitor.state_topic(topic), qos.NEWEST)
        rest = joint_trajectory.at_rest(np.array(task.robot.home))
        harness.feeds.append(
            lambda: states.publish(controller_monitor.write_state(task.robot, harness.now(), rest))
        )


def _plan(harness, task, speed):
    """Pretend to be a planner that wants one speed of all joints."""
    robot = task.robot
    sender = harness.publisher(JointTrajectory, 'emppi/plan')
    row = np.full(len(robot.commanded), speed)

    def send():
        plan = plans.make(robot, harness.now(), row, np.tile(row, (10, 1)), 0.05, 'linear')
        sender.publish(convert.write_plan(robot, plan))

    harness.feeds.append(send)


def _arm(harness, applied):
    harness.spin_until(lambda: applied)
    assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True)).success


def test_dry_run_says_what_it_would_send_and_sends_nothing(harness):
    task = harness.publish_task('panda_push')
    applied = harness.listen(JointState, 'emppi/applied')
    harness.make(BridgeNode, backend='dry-run', hardware=True, **ALLOWED)
    _feed(harness, task)
    _arm(harness, applied)
    _plan(harness, task, 0.2)
    harness.spin_until(lambda: np.allclose(applied[-1].velocity, 0.2))
    for topic in task.robot.topics.commands.values():
        assert harness.tester.count_publishers(topic) == 0


def test_forward_refuses_hardware_and_says_why_and_what_else(harness):
    harness.publish_task('panda_push')
    node = harness.make(BridgeNode, backend='forward', hardware=True)
    harness.spin_until(lambda: 'refuses' in harness.says('bridge')[1])
    level, message, _ = harness.says('bridge')
    assert level == ERROR and node.state == 'unconfigured'
    for words in ('for ever', 'backend:=trajectory', "bridge's parameter forward_on_hardware"):
        assert words in message


def test_the_parameter_of_one_unsafe_backend_allows_no_other(harness, monkeypatch):
    monkeypatch.setattr(DummyBackend, 'unsafe', 'it was never tried on an arm')
    monkeypatch.setitem(BACKENDS, 'dummy', False)
    monkeypatch.setitem(sys.modules, f'{backends.__name__}.dummy', sys.modules[__name__])
    harness.publish_task('panda_push')
    node = harness.make(BridgeNode, backend='dummy', hardware=True, forward_on_hardware=True)
    harness.spin_until(lambda: 'never tried' in harness.says('bridge')[1])
    message = harness.says('bridge')[1]
    assert node.state == 'unconfigured' and 'on_hardware' not in message
    assert 'backend:=dummy' not in message and 'backend:=trajectory' in message


def test_forward_drives_hardware_if_told_twice(harness):
    task = harness.publish_task('panda_push')
    commands = harness.listen(Float64MultiArray, task.robot.topics.commands['velocity'])
    harness.make(BridgeNode, hardware=True, forward_on_hardware=True)
    _feed(harness, task)
    harness.spin_until(lambda: commands)


@pytest.mark.slow
def test_arming_tells_late_joint_states_from_a_clock_that_is_off(harness):
    task = harness.publish_task('panda_push')
    applied = harness.listen(JointState, 'emppi/applied')
    harness.spawn(NodeSpec('bridge', {'backend': 'trajectory', **PATIENT}))
    prompt_from = np.inf
    _feed(harness, task, lambda: 0.05 if harness.now() < prompt_from else 0.0)
    _follow(harness, task)
    harness.spin_until(lambda: applied)
    answer = harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True))
    assert not answer.success and "differ from this computer's clock by -0.05" in answer.message
    prompt_from = harness.now() + 0.3
    _arm(harness, applied)
    assert harness.now() >= prompt_from  # it waited


@pytest.mark.slow
def test_joint_states_that_are_too_rare_are_refused_with_the_rate_that_is_needed(harness):
    task = harness.publish_task('panda_push')
    applied = harness.listen(JointState, 'emppi/applied')
    harness.spawn(NodeSpec('bridge', {'backend': 'dry-run'}))
    _feed(harness, task, every_s=0.06)
    harness.spin_until(lambda: len(applied) > 100)
    answer = harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True))
    assert not answer.success and 'times a second, at least 20 are needed' in answer.message


def _speeds(task, states, since=-np.inf):
    """Return stamps, and the fastest joint at each."""
    rows = [convert.read_joints(task.robot, message) for message in states]
    rows = [(stamp, np.max(np.abs(velocity))) for stamp, _, velocity in rows if stamp > since]
    return np.array(rows).reshape(-1, 2).T


def _is_faster(task, states, speed):
    return len(states) > 0 and _speeds(task, states[-1:])[1][0] > speed


@pytest.mark.parametrize(
    ('backend', 'stops'),
    [('trajectory', True), pytest.param('forward', False, marks=pytest.mark.slow)],
)
def test_the_bridge_is_killed_in_motion(harness, backend, stops):
    task = harness.publish_task('panda_push')
    states = harness.listen(JointState, 'joint_states', qos.SENSOR)
    applied = harness.listen(JointState, 'emppi/applied')
    commands = harness.listen(Float64MultiArray, task.robot.topics.commands['velocity'])
    bridge = NodeSpec('bridge', {'backend': backend, **PATIENT})
    children = harness.spawn(bridge, NodeSpec('simulator'))
    _arm(harness, applied)
    _plan(harness, task, 0.1)
    harness.spin_until(lambda: _is_faster(task, states, 0.09))
    harness.spin_for(0.2)
    children.end('bridge', signal.SIGKILL)
    harness.spin_until(lambda: children.processes['bridge'].poll() is not None)
    killed = harness.now()
    harness.spin_until(lambda: _speeds(task, states[-1:])[0][0] > killed + 1.0)
    _, speeds = _speeds(task, states, killed + 0.5)
    # 0.1 rad/s, and less if the bridge waited for a core and began again from rest
    speed = 0.0 if stops else commands[-1].data[0]
    # noise of 1e-3 rad/s, and what is left of errors of position
    assert np.all(np.abs(speeds - speed) < 0.02)


@pytest.mark.slow
def test_trajectories_stop_the_arm_of_a_bridge_that_hangs_and_it_goes_on_from_rest(harness):
    task = harness.publish_task('panda_push')
    states = harness.listen(JointState, 'joint_states', qos.SENSOR)
    applied = harness.listen(JointState, 'emppi/applied')
    children = harness.spawn(
        NodeSpec('bridge', {'backend': 'trajectory', **PATIENT}), NodeSpec('simulator')
    )
    _arm(harness, applied)
    _plan(harness, task, 0.1)
    harness.spin_until(lambda: _is_faster(task, states, 0.09))
    children.processes['bridge'].send_signal(signal.SIGSTOP)
    harness.spin_until(lambda: _speeds(task, states[-1:])[1] < 0.02)
    harness.spin_for(0.3)  # and to the end of its braking
    since, count = harness.now(), len(applied)
    children.processes['bridge'].send_signal(signal.SIGCONT)

    def fresh():  # not what was on its way, nor the cycle in which it was suspended
        return [m for m in applied[count:] if convert.to_seconds(m.header.stamp) > since]

    harness.spin_until(lambda: any(message.velocity[0] > 0.09 for message in fresh()))
    # first rest, and then gently up, by 3.75 rad/s^2 at most, whenever a cycle comes
    times = np.array([convert.to_seconds(message.header.stamp) for message in fresh()])
    heard = np.array([message.velocity[1] for message in fresh()])
    assert abs(heard[0]) <= 3.75 * 0.008
    # stamps are those of the clock to microseconds: a hundredth of the shortest interval
    assert np.all(np.abs(np.diff(heard)) <= 3.75 * (1.01 * np.diff(times) + 5e-5))
    harness.spin_until(lambda: _speeds(task, states[-1:])[1] > 0.09)
    assert np.max(_speeds(task, states, since)[1]) < 0.15


def test_a_robot_commanded_by_force_is_refused_by_trajectory(harness):
    harness.publish_task('cartpole_swingup')
    harness.make(BridgeNode, backend='trajectory')
    harness.spin_until(lambda: 'commanded by velocity' in harness.says('bridge')[1])


@pytest.mark.slow
def test_trajectories_in_motion_lie_on_one_curve_to_the_nanosecond(harness):
    task = harness.publish_task('panda_push')
    applied = harness.listen(JointState, 'emppi/applied')
    sent = harness.listen(JointTrajectory, task.robot.topics.commands['trajectory'])
    harness.spawn(NodeSpec('bridge', {'backend': 'trajectory', **PATIENT}), NodeSpec('simulator'))
    _arm(harness, applied)
    _plan(harness, task, 0.1)
    harness.spin_until(lambda: len(applied) and applied[-1].velocity[0] > 0.09)
    del sent[:]
    harness.spin_until(lambda: _count_shared_points(sent) > 200)


def _count_shared_points(messages):
    """Count the points that several messages have, which must be at the same moment in all."""
    when, shared = {}, 0
    for message in messages:
        stamp = message.header.stamp
        for point in message.points:
            nano = (stamp.sec + point.time_from_start.sec) * 10**9
            nano += stamp.nanosec + point.time_from_start.nanosec
            key = tuple(point.positions)  # the very same numbers come in two messages or more
            shared += key in when
            assert abs(when.setdefault(key, nano) - nano) <= 2  # each of two is rounded
    return shared
