"""
Check the ROS graph around the bridge, and the robot's description.

The checks ask the middleware for its current lists instead of using QoS events. One check takes
about 30 us for each publisher listed, so all topics are checked every time.
"""

from collections.abc import Iterable, Iterator
import copy
from typing import NamedTuple

from rclpy.duration import Infinite
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from rclpy.topic_endpoint_info import TopicEndpointInfo
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import faults
from emppi_ros.nodes.backends import Backend
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.inputs import PLAN
from emppi_ros.nodes.topics.task import TOPIC
from emppi_ros.robots import urdf_check
from emppi_ros.robots.robot import Robot
from emppi_ros.robots.urdf_check import UrdfCheck

DESCRIPTION = 'robot_description'
NO_PUBLISHER = 'no-publisher'
SECOND_PUBLISHER = faults.SECOND_PUBLISHER
WRONG_TYPE = 'wrong-type'
QOS = 'qos'
MODEL = 'model'  # the robot's URDF contradicts its YAML
LEASE_S = 20.0  # for which Fast DDS lists a killed process; a regular exit is seen at once
_UNKNOWN = '_NODE_NAME_UNKNOWN_'  # until the middleware knows the node and not only its topics
_POLICIES = {  # what a publisher may lack, and what a subscriber may request
    'reliability': (ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE),
    'durability': (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL),
}


class TopicSpec(NamedTuple):
    """A topic that a node subscribes to or publishes."""

    name: str  # as given by the node: relative or absolute
    kind: type  # of message
    profile: QoSProfile


class GraphProblem(NamedTuple):
    """A problem: one of the codes above, and a sentence that says what to change."""

    code: str
    text: str


class GraphMonitor:
    """Checks the topics of the bridge, and the robot's description if one is published."""

    def __init__(
        self, node: Node, robot: Robot, backend: Backend, joints_profile: QoSProfile
    ) -> None:
        self._node, self._robot = node, robot
        self.description = UrdfCheck([], [], robot)  # as none is published yet
        joint_states = TopicSpec(robot.topics.joint_states, JointState, joints_profile)
        subscriptions = [
            TopicSpec(TOPIC, String, qos.LATCHED),
            TopicSpec(PLAN, JointTrajectory, qos.DEFAULT),
        ]
        publishers = [TopicSpec(name, kind, qos.DEFAULT) for name, kind in backend.topics]
        (publishers if backend.measures else subscriptions).append(joint_states)
        self._topics = subscriptions, publishers
        self._subscription = node.create_subscription(
            String, DESCRIPTION, self._receive_description, qos.LATCHED
        )
        self.problems: list[GraphProblem] = []  # of the last check

    def check(self) -> None:
        """Update the problems."""
        self.problems = check_topics(self._node, *self._topics)
        self.problems += [
            GraphProblem(MODEL, f'{DESCRIPTION}: {text}') for text in self.description.problems
        ]

    @property
    def arm_refusal(self) -> str:
        """Why the bridge must not be armed; '' if it may. Ages cover topics without messages."""
        return next((p.text for p in self.problems if p.code != NO_PUBLISHER), '')

    @property
    def second_publisher(self) -> str:
        """Another publisher of commands, as a sentence; '' if there is none."""
        return next((p.text for p in self.problems if p.code == SECOND_PUBLISHER), '')

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def _receive_description(self, message: String) -> None:
        self.description = urdf_check.check(self._robot, message.data)


def check_topics(
    node: Node, subscriptions: Iterable[TopicSpec], publishers: Iterable[TopicSpec]
) -> list[GraphProblem]:
    """Return the problems of a node's topics; its `publishers` must have no other publisher."""
    problems: list[GraphProblem] = []
    for topic in (_resolve(node, spec) for spec in subscriptions):
        endpoints = node.get_publishers_info_by_topic(topic.name)
        if not endpoints:
            text = f'no publisher on {topic.name} ({_type(topic.kind, "/")})'
            problems.append(GraphProblem(NO_PUBLISHER, text))
        problems += _mismatches(topic, endpoints, receives=True)
    for topic in (_resolve(node, spec) for spec in publishers):
        problems += _other_publishers(node, topic)
        endpoints = node.get_subscriptions_info_by_topic(topic.name)
        problems += _mismatches(topic, endpoints, receives=False)
    return problems


def _other_publishers(node: Node, topic: TopicSpec) -> Iterator[GraphProblem]:
    """Yield other publishers of a topic; another node may have the same name as this one."""
    ours = sum(publisher.topic_name == topic.name for publisher in node.publishers)
    if node.count_publishers(topic.name) <= ours:
        return  # the usual case, in a tenth of the time
    for info in node.get_publishers_info_by_topic(topic.name):
        name = _full_name(info)
        same = name == node.get_fully_qualified_name()
        if same and ours > 0:
            ours -= 1
            continue
        other = f'another node named {name}' if same else _describe(info)
        yield GraphProblem(
            SECOND_PUBLISHER,
            f'{topic.name}: {other} also publishes it, but only one node may command the '
            f'robot: stop the other (a killed one stays listed for up to {LEASE_S:g} s)',
        )


def _mismatches(
    topic: TopicSpec, endpoints: Iterable[TopicEndpointInfo], receives: bool
) -> Iterator[GraphProblem]:
    """Yield why this node does not receive a topic from others, or others not from this node."""
    for info in endpoints:
        other = _describe(info)
        if info.topic_type != _type(topic.kind, '/msg/'):
            verb = 'publishes' if receives else 'subscribes to'
            yield GraphProblem(
                WRONG_TYPE,
                f'{topic.name}: {other} {verb} {info.topic_type.replace("/msg/", "/")}, expected '
                f'{_type(topic.kind, "/")}: rename one of the topics',
            )
            continue
        profiles = info.qos_profile, topic.profile
        offered, requested = profiles if receives else profiles[::-1]
        compatibility, reason = qos_check_compatible(offered, requested)
        if compatibility != QoSCompatibility.ERROR:
            continue
        pairs = [
            (weak.name.lower(), strong.name.lower())
            for name, (weak, strong) in _POLICIES.items()
            if getattr(offered, name) == weak and getattr(requested, name) == strong
        ]
        for weak, strong in pairs:
            text = f'requests {strong}, this node publishes {weak}: make it request {weak}'
            if receives:
                text = f'publishes {weak}, this node requests {strong}: make it publish {strong}'
            yield GraphProblem(QOS, f'{topic.name}: {other} {text}')
        if not pairs:
            text = f'{other} cannot receive from this node'
            if receives:
                text = f'this node cannot receive from {other}'
            yield GraphProblem(QOS, f'{topic.name}: {text}: {reason}')


def _resolve(node: Node, topic: TopicSpec) -> TopicSpec:
    """Return the topic with its full name, and a profile without implicit defaults."""
    profile = copy.copy(topic.profile)
    for name in ('deadline', 'liveliness_lease_duration'):
        if not getattr(profile, name).nanoseconds:
            setattr(profile, name, Infinite)  # as the middleware lists it
    return topic._replace(name=node.resolve_topic_name(topic.name), profile=profile)


def _type(kind: type, separator: str) -> str:
    """Return a message type's name, such as sensor_msgs/JointState."""
    return kind.__module__.split('.')[0] + separator + kind.__name__


def _full_name(info: TopicEndpointInfo) -> str:
    return f'{info.node_namespace.rstrip("/")}/{info.node_name}'


def _describe(info: TopicEndpointInfo) -> str:
    return 'a node of unknown name' if info.node_name == _UNKNOWN else f'node {_full_name(info)}'
