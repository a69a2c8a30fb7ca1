"""The topic `emppi/belief`: what is believed, as it arrives."""

import math
import time

from rclpy.node import Node
from sensor_msgs.msg import PointCloud2

from emppi_ros.belief.particles import Belief
from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.tasks.task import Task

BELIEF = 'emppi/belief'


class BeliefTopic:
    """Follows the belief; the last good one stays until the next."""

    def __init__(self, node: Node, task: Task) -> None:
        """Subscribe."""
        self._node, self._task = node, task
        self.latest: Belief | None = None
        # when it came, on a clock that nobody sets: what it says of the time may be set or paused
        self._at, self.error = -math.inf, ''
        self._subscription = node.create_subscription(PointCloud2, BELIEF, self.take, qos.LATCHED)

    @property
    def age(self) -> float:
        """How long ago the last good one came [s]; infinite before the first."""
        return time.monotonic() - self._at

    def current(self, limit: float) -> Belief:
        """Return the last one; StaleInputError if there is none, or it came `limit` s ago."""
        if self.latest is None:
            raise StaleInputError(f'no belief received on {BELIEF} yet')
        if self.age > limit:
            raise StaleInputError(
                f'nothing on {BELIEF} for {self.age:.2f} s (belief_timeout_s: {limit:g}); '
                'is the belief node running?'
            )
        return self.latest

    def take(self, message: PointCloud2) -> None:
        """Take a belief, or say why it is none."""
        try:
            self.latest = belief_cloud.read_belief(self._task, message)
        except EmppiError as error:  # the last good one stays
            self.error = str(error)
            self._node.get_logger().warning(f'belief: {error}', throttle_duration_sec=2.0)
            return
        self.error = ''
        self._at = time.monotonic()

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)
