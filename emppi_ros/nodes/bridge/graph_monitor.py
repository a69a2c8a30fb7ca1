"""
What is wrong with the graph around a node: who else commands, who is silent, who cannot hear whom.

The middleware is asked, not events of it: what it lists now is what is wrong now. One look takes
about 30 us for each publisher listed, so all topics are looked at every time.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rclpy.duration import Duration, Infinite
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from rclpy.topic_endpoint_info import TopicEndpointInfo

from emppi_ros.bridge import faults

SECOND_PUBLISHER = faults.SECOND_PUBLISHER
SILENT = 'nobody-publishes'
WRONG_TYPE = 'wrong-type'
QOS = 'qos'
LEASE_S = 20.0  # for which Fast DDS lists a process that was killed; a proper end is seen at once
_UNKNOWN = (
    '_NODE_NAME_UNKNOWN_'  # until the middleware has heard of the node, not its topics alone
)


class Topic(NamedTuple):
    """A topic that a node subscribes to, or publishes, and how."""

    name: str  # as the node gave it: relative, or absolute
    kind: type  # of message
    profile: QoSProfile


class Problem(NamedTuple):
    """What is wrong: one of the codes above, and a sentence that says what to change."""

    code: str
    text: str


class GraphWatch:
    """Looks at the graph from a node whose `publishers` nobody else may publish."""

    def __init__(
        self, node: Node, subscriptions: Sequence[Topic], publishers: Sequence[Topic]
    ) -> None:
        """Take the topics' names as the node resolves them."""
        self._node = node
        self._name = _join(node.get_namespace(), node.get_name())
        self._subscriptions = [_resolve(node, topic) for topic in subscriptions]
        self._publishers = [_resolve(node, topic) for topic in publishers]

    def check(self) -> list[Problem]:
        """Return what is wrong now."""
        problems: list[Problem] = []
        for topic in self._subscriptions:
            problems += self._heard(topic)
        for topic in self._publishers:
            problems += self._others(topic)
            problems += self._hearers(topic)
        return problems

    def _heard(self, topic: Topic) -> Iterator[Problem]:
        """Yield what keeps us from hearing a topic."""
        publishers = self._node.get_publishers_info_by_topic(topic.name)
        if not publishers:
            yield Problem(SILENT, f'nobody publishes {topic.name} ({_type(topic.kind, "/")})')
        for info in publishers:
            who = _who(info)
            if info.topic_type != _type(topic.kind, '/msg/'):
                yield _wrong_type(topic, f'{who} publishes', info)
                continue
            pairs, reason = _misfits(info.qos_profile, topic.profile)
            for theirs, ours in pairs:
                yield Problem(
                    QOS,
                    f'{topic.name}: {who} publishes {theirs}, this node asks for {ours}: let it '
                    f'publish {ours}',
                )
            if reason:
                yield Problem(QOS, f'{topic.name}: this node cannot hear {who}: {reason}')

    def _others(self, topic: Topic) -> Iterator[Problem]:
        """Yield who else publishes what only we may; another node can have our very name."""
        ours = sum(publisher.topic_name == topic.name for publisher in self._node.publishers)
        if self._node.count_publishers(topic.name) <= ours:
            return  # the usual case, for a tenth of the time
        for info in self._node.get_publishers_info_by_topic(topic.name):
            name = _join(info.node_namespace, info.node_name)
            if name == self._name and ours > 0:
                ours -= 1
                continue
            who = f'another node named {name}' if name == self._name else _who(info)
            yield Problem(
                SECOND_PUBLISHER,
                f'{topic.name}: {who} publishes it too, but one alone may command the robot: end '
                f'the other (one that was killed stays listed for up to {LEASE_S:g} s)',
            )

    def _hearers(self, topic: Topic) -> Iterator[Problem]:
        """Yield what keeps others from hearing us."""
        for info in self._node.get_subscriptions_info_by_topic(topic.name):
            who = _who(info)
            if info.topic_type != _type(topic.kind, '/msg/'):
                yield _wrong_type(topic, f'{who} asks for', info)
                continue
            pairs, reason = _misfits(topic.profile, info.qos_profile)
            for ours, theirs in pairs:
                yield Problem(
                    QOS,
                    f'{topic.name}: {who} asks for {theirs}, this node publishes {ours}: let it '
                    f'ask for {ours}',
                )
            if reason:
                yield Problem(QOS, f'{topic.name}: {who} cannot hear this node: {reason}')


def _misfits(offered: QoSProfile, asked: QoSProfile) -> tuple[list[tuple[str, str]], str]:
    """
    Return what is offered and what was asked in its place, policy by policy, in words.

    Second comes what else the middleware objects to, in its own words.
    """
    compatibility, reason = qos_check_compatible(offered, asked)
    if compatibility != QoSCompatibility.ERROR:
        return [], ''
    pairs = []
    for one, other, weak, strong in (
        (
            offered.reliability,
            asked.reliability,
            ReliabilityPolicy.BEST_EFFORT,
            ReliabilityPolicy.RELIABLE,
        ),
        (
            offered.durability,
            asked.durability,
            DurabilityPolicy.VOLATILE,
            DurabilityPolicy.TRANSIENT_LOCAL,
        ),
    ):
        if one == weak and other == strong:
            pairs.append((weak.name.lower(), strong.name.lower()))
    return pairs, '' if pairs else reason


def _wrong_type(topic: Topic, what: str, info: TopicEndpointInfo) -> Problem:
    return Problem(
        WRONG_TYPE,
        f'{topic.name}: {what} {info.topic_type.replace("/msg/", "/")}, expected '
        f'{_type(topic.kind, "/")}: rename one of the topics',
    )


def _resolve(node: Node, topic: Topic) -> Topic:
    """Return the topic with its full name, and a profile that leaves nothing to defaults."""
    given = topic.profile
    profile = QoSProfile(
        depth=given.depth,
        history=given.history,
        reliability=given.reliability,
        durability=given.durability,
        deadline=_or_never(given.deadline),
        liveliness=given.liveliness,
        liveliness_lease_duration=_or_never(given.liveliness_lease_duration),
    )
    return topic._replace(name=node.resolve_topic_name(topic.name), profile=profile)


def _or_never(duration: Duration) -> Duration:
    """Return a duration as the middleware lists it: one that is not given is infinite."""
    return duration if duration.nanoseconds else Infinite


def _type(kind: type, between: str) -> str:
    """Return a message type's name, such as sensor_msgs/JointState."""
    return kind.__module__.split('.')[0] + between + kind.__name__


def _who(info: TopicEndpointInfo) -> str:
    if info.node_name == _UNKNOWN:
        return 'a node not known by name'
    return f'node {_join(info.node_namespace, info.node_name)}'


def _join(namespace: str, name: str) -> str:
    return f'{namespace.rstrip("/")}/{name}'
