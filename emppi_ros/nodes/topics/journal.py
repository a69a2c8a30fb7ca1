"""
The topics `emppi/planner/journal` and `emppi/belief/journal`: what a node used, while recorded.

Written only while somebody listens, and after the plan or the belief that it explains.
"""

from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.nodes.common import qos
from emppi_ros.session.journal import Journal


class JournalTopic:
    """Publishes the journal of a node's session, and after a swap of tasks that of the next."""

    def __init__(self, node: Node, topic: str) -> None:
        """Make the publisher, once: a recorder that had to find another would miss a beginning."""
        self._publisher = node.create_publisher(String, topic, qos.DEFAULT)
        self._journal: Journal | None = None

    def follow(self, journal: Journal) -> None:
        """Publish this journal from now on."""
        self._journal = journal

    @property
    def waiting(self) -> int:
        """Number of events to publish."""
        return self._journal.waiting

    def begin(self, now: float) -> None:
        """Begin a cycle, at a time of any clock [s]."""
        self._journal.begin(self._publisher.get_subscription_count(), now)

    def send(self) -> None:
        """Publish all that happened since the last time."""
        text = self._journal.take()
        if text:
            self._publisher.publish(String(data=text))
