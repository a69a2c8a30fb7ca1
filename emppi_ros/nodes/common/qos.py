"""QoS profiles by kind of topic."""

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _keep_last(depth: int, resend: bool = True, latch: bool = False) -> QoSProfile:
    return QoSProfile(
        reliability=ReliabilityPolicy.RELIABLE if resend else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latch else DurabilityPolicy.VOLATILE,
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
    )


# measurements: compatible with every publisher; read in batches, once per planning cycle
SENSOR = _keep_last(200, resend=False)
# values that hold until replaced: late subscribers get the last one
LATCHED = _keep_last(1, latch=True)
# plans, commands and applied commands: every message matters
DEFAULT = _keep_last(200)
# latched topics, for subscribers that need all messages, not only the last
EVERY = _keep_last(200, latch=True)
# for display: slow subscribers miss messages
NEWEST = _keep_last(1)
