"""QoS profiles by kind of topic."""

import copy
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions


def _keep_last(depth: int, resend: bool = True, latch: bool = False) -> QoSProfile:
    return QoSProfile(
        reliability=ReliabilityPolicy.RELIABLE if resend else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latch else DurabilityPolicy.VOLATILE,
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
    )


# measurements: compatible with every publisher; read in batches, once per planning cycle
SENSOR = _keep_last(200, resend=False)
# images: compatible with every publisher; those that wait are out of date
NEWEST_SENSOR = _keep_last(1, resend=False)
# measurements as we publish them: compatible with every subscriber
MEASURED = _keep_last(200)
# values that hold until replaced: late subscribers get the last one
LATCHED = _keep_last(1, latch=True)
# plans, commands and applied commands: every message matters
DEFAULT = _keep_last(200)
# latched topics, for subscribers that need all messages, not only the last
EVERY = _keep_last(200, latch=True)
# for display: slow subscribers miss messages
NEWEST = _keep_last(1)


def expiring(profile: QoSProfile, seconds: float) -> QoSProfile:
    """Return a copy whose messages are dropped if they are delivered later than that."""
    changed = copy.copy(profile)
    changed.lifespan = Duration(seconds=seconds)
    return changed


def overridable(profile: QoSProfile) -> tuple[QoSProfile, QoSOverridingOptions]:
    """Return a copy, which rclpy changes by the parameters `qos_overrides`, and its options."""
    return copy.copy(profile), QoSOverridingOptions.with_default_policies()


def advertise(node: Node, kind: type, topic: str, profile: QoSProfile) -> 'Publisher[Any]':
    """Return a publisher whose profile the parameters `qos_overrides` of the node change."""
    changed, options = overridable(profile)
    return node.create_publisher(kind, topic, changed, qos_overriding_options=options)
