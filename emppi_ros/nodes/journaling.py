"""
The topics `emppi/planner/journal` and `emppi/belief/journal`: what a node used, while recorded.

Written only while somebody listens, and after the plan or the belief that it explains.
"""

from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.nodes import qos
from emppi_ros.replay.journal import Journal


class JournalTopic:
    """Publishes a journal."""

    def __init__(self, node: Node, topic: str, journal: Journal) -> None:
        """Make the publisher."""
        self._node, self._journal = node, journal
        self._publisher = node.create_publisher(String, topic, qos.DEFAULT)

    def begin(self, now: float) -> None:
        """Begin a cycle, at a time of any clock [s]."""
        self._journal.begin(self._publisher.get_subscription_count(), now)

    def send(self) -> None:
        """Publish all that happened since the last time."""
        text = self._journal.take()
        if text:
            self._publisher.publish(String(data=text))

    def close(self) -> None:
        """Say no more."""
        self._node.destroy_publisher(self._publisher)
