"""
The topics `emppi/planner/journal` and `emppi/belief/journal`: the inputs of a node, for replay.

Published only while there are subscribers, after the plan or belief computed from these inputs.
"""

from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.journal.journal import Journal
from emppi_ros.nodes.common import qos


class JournalPublisher:
    """Publish the journal of a node's session."""

    def __init__(self, node: Node, topic: str) -> None:
        """Create the publisher, once for all tasks: a recorder could miss events of a new one."""
        self._publisher = node.create_publisher(String, topic, qos.DEFAULT)
        self._journal: Journal | None = None

    def set_journal(self, journal: Journal | None) -> None:
        """Publish this journal from now on, as after a task switch; None publishes nothing."""
        self._journal = journal

    @property
    def pending(self) -> int:
        """Number of unpublished events."""
        return 0 if self._journal is None else self._journal.pending

    def begin_cycle(self, now: float) -> None:
        """Start a cycle, at a time of any clock [s]."""
        if self._journal is not None:
            self._journal.begin_cycle(self._publisher.get_subscription_count(), now)

    def publish(self) -> None:
        """Publish all events since the last call."""
        if self._journal is not None and (text := self._journal.take()):
            self._publisher.publish(String(data=text))
