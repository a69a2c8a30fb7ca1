"""Problems of the graph are reported within two seconds, and none in a sound graph."""

import functools
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import faults
from emppi_ros.nodes.bridge import graph_monitor
from emppi_ros.nodes.bridge.graph_monitor import TopicSpec, check_topics
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.tools.process_group import isolated_environment

STATES = TopicSpec('joint_states', JointState, qos.SENSOR)
PLAN = TopicSpec('emppi/plan', JointTrajectory, qos.DEFAULT)
TASK = TopicSpec('emppi/task', String, qos.LATCHED)
COMMANDS = TopicSpec('controller/commands', Float64MultiArray, qos.DEFAULT)
WITHIN_S = 2.0


class Bridge(Node):
    """Publishes commands, and hears the rest."""

    def __init__(self, **kwargs):
        super().__init__('bridge', namespace='left', **kwargs)
        self.create_publisher(COMMANDS.kind, COMMANDS.name, COMMANDS.profile)
        heard = (STATES, PLAN, TASK)
        for topic in heard:
            self.create_subscription(topic.kind, topic.name, print, topic.profile)
        self.check = functools.partial(check_topics, self, heard, [COMMANDS])


@pytest.fixture
def bridge(harness):
    """Return a bridge in a sound graph: one publisher each, and a controller."""
    made = harness.make(Bridge)
    for topic in (STATES, PLAN, TASK):
        publish(harness, topic)
    harness.listen(COMMANDS.kind, f'/left/{COMMANDS.name}', COMMANDS.profile)
    harness.spin_until(lambda: not made.check(), 5.0)
    return made


def publish(harness, topic, **changes):
    topic = topic._replace(**changes)
    return harness.publisher(topic.kind, f'/left/{topic.name}', topic.profile)


def node(harness, name, namespace='left'):
    """Return one more node of another name."""
    made = Node(name, namespace=namespace, context=harness.context)
    harness.nodes.append(made)
    harness.executor.add_node(made)
    return made


@pytest.fixture
def stranger(harness):
    """Return a node as of another process: within one, a topic has one type."""
    context = rclpy.Context()
    context.init(domain_id=harness.domain)
    made = Node('stranger', namespace='left', context=context)
    yield made
    made.destroy_node()
    context.try_shutdown()


def wait_for(harness, bridge, code, *words):
    """Return the one problem that is there within time; it has a code and words."""

    def there():  # the name of a node may come later than its topics
        problems = bridge.check()
        return len(problems) == 1 and all(word in problems[0].text for word in words)

    harness.spin_until(there, WITHIN_S)
    (problem,) = bridge.check()
    assert problem.code == code
    return problem


def test_nothing_is_found_in_a_sound_graph_however_often_one_looks(harness, bridge):
    for _ in range(20):
        assert bridge.check() == []
        harness.spin_for(0.02)


def test_topics_that_nobody_publishes_are_named_with_their_type(harness):
    made = harness.make(Bridge)
    texts = [problem.text for problem in made.check()]
    assert texts == [
        'no publisher on /left/joint_states (sensor_msgs/JointState)',
        'no publisher on /left/emppi/plan (trajectory_msgs/JointTrajectory)',
        'no publisher on /left/emppi/task (std_msgs/String)',
    ]
    assert {problem.code for problem in made.check()} == {graph_monitor.NO_PUBLISHER}


def test_a_second_publisher_is_named_and_gone_when_it_ends(harness, bridge):
    other = node(harness, 'joystick')
    publisher = other.create_publisher(COMMANDS.kind, COMMANDS.name, COMMANDS.profile)
    problem = wait_for(harness, bridge, faults.SECOND_PUBLISHER, 'node /left/joystick also')
    assert problem.text.startswith('/left/controller/commands: ')
    other.destroy_publisher(publisher)
    harness.spin_until(lambda: not bridge.check(), WITHIN_S)


def test_a_second_bridge_of_the_very_same_name_is_found_and_both_find_it(harness, bridge):
    other = node(harness, 'bridge')
    other.create_publisher(COMMANDS.kind, COMMANDS.name, COMMANDS.profile)
    words = 'another node named /left/bridge also publishes'
    wait_for(harness, bridge, faults.SECOND_PUBLISHER, words)
    theirs = functools.partial(check_topics, other, [], [COMMANDS])
    harness.spin_until(theirs, WITHIN_S)
    assert words in theirs()[0].text


def test_a_bridge_that_publishes_nothing_yet_finds_whoever_does(harness):
    made = Node('bridge', context=harness.context)
    harness.nodes.append(made)
    look = functools.partial(check_topics, made, [], [COMMANDS])
    assert look() == []
    harness.publisher(COMMANDS.kind, COMMANDS.name, COMMANDS.profile)
    harness.spin_until(look, WITHIN_S)
    assert look()[0].code == faults.SECOND_PUBLISHER


def test_a_publisher_of_another_type_is_named_with_both_types(harness, bridge, stranger):
    stranger.create_publisher(String, STATES.name, 1)
    words = 'node /left/stranger publishes std_msgs/String, expected sensor_msgs/JointState'
    wait_for(harness, bridge, graph_monitor.WRONG_TYPE, words)


def test_a_listener_of_another_type_is_named_with_both_types(harness, bridge, stranger):
    stranger.create_subscription(String, COMMANDS.name, print, 1)
    words = (
        'node /left/stranger subscribes to std_msgs/String, expected std_msgs/Float64MultiArray'
    )
    wait_for(harness, bridge, graph_monitor.WRONG_TYPE, words)


VOLATILE = qos.DEFAULT
BEST_EFFORT = qos.SENSOR
DEADLINE = QoSProfile(depth=1, deadline=Duration(seconds=1))


@pytest.mark.parametrize(
    ('topic', 'profile', 'words'),
    [
        (PLAN, BEST_EFFORT, 'publishes best_effort, this node requests reliable: make it publish'),
        (
            TASK,
            VOLATILE,
            'publishes volatile, this node requests transient_local: make it',
        ),
    ],
    ids=['reliability', 'durability'],
)
def test_a_publisher_that_cannot_be_heard_is_told_what_to_change(
    harness, bridge, topic, profile, words
):
    publish(harness, topic, profile=profile)
    wait_for(harness, bridge, graph_monitor.QOS, f'/left/{topic.name}: node /tester {words}')


@pytest.mark.parametrize(
    ('profile', 'words'),
    [
        (qos.LATCHED, 'requests transient_local, this node publishes volatile: make it request'),
        (DEADLINE, 'cannot receive from this node: '),
    ],
    ids=['durability', 'deadline'],
)
def test_a_listener_that_cannot_hear_us_is_told_what_to_change(harness, bridge, profile, words):
    harness.listen(COMMANDS.kind, f'/left/{COMMANDS.name}', profile)
    problem = wait_for(harness, bridge, graph_monitor.QOS, f'node /tester {words}')
    assert profile is not DEADLINE or 'eadline' in problem.text


def test_a_subscriber_with_a_deadline_names_what_does_not_promise_one(harness):
    made = Node('bridge', context=harness.context)
    harness.nodes.append(made)
    states = STATES._replace(profile=DEADLINE)
    look = functools.partial(check_topics, made, [states], [])
    harness.publisher(STATES.kind, STATES.name)
    harness.spin_until(lambda: look() and look()[0].code == graph_monitor.QOS, WITHIN_S)
    assert 'this node cannot receive from node /tester: ' in look()[0].text


def test_both_policies_are_named_where_both_are_wrong(harness, bridge):
    publish(harness, TASK, profile=BEST_EFFORT)
    harness.spin_until(lambda: len(bridge.check()) == 2, WITHIN_S)
    texts = ' '.join(problem.text for problem in bridge.check())
    assert 'make it publish reliable' in texts and 'make it publish transient_local' in texts


KILLED = """
import rclpy
from std_msgs.msg import Float64MultiArray
rclpy.init()
node = rclpy.create_node('bridge', namespace='left')
node.create_publisher(Float64MultiArray, 'controller/commands', 1)
rclpy.spin(node)
"""


@pytest.mark.slow
def test_a_killed_bridge_stays_listed_no_longer_than_is_said(harness, bridge):
    child = subprocess.Popen(
        [sys.executable, '-c', KILLED], env=isolated_environment(harness.domain)
    )
    try:
        harness.spin_until(bridge.check, 20.0)
        child.send_signal(signal.SIGKILL)
        child.wait()
        killed = time.monotonic()
        wait_for(
            harness, bridge, faults.SECOND_PUBLISHER, f'for up to {graph_monitor.LEASE_S:g} s'
        )
        harness.spin_until(lambda: not bridge.check(), graph_monitor.LEASE_S + 5.0)
        # 5 s for a busy machine; the lease counts from its last sign of life, at most 3 s before
        assert time.monotonic() - killed > graph_monitor.LEASE_S - 5.0
    finally:
        child.kill()
        child.wait()
