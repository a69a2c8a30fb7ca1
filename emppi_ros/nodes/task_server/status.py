"""The topic `emppi/status`: what the robot does, from the bridge's diagnostics and the stage."""

import math
import time

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.nodes.common import interfaces, qos
from emppi_ros.nodes.task_server import task_run
from emppi_ros.nodes.task_server.task_run import BridgeReport
from emppi_ros.nodes.topics.task import STAGE
from emppi_ros.recordings.message_tables import statuses

STATUS = 'emppi/status'


class StatusPublisher:
    """Receives the bridge's diagnostics and the stage, and publishes the status."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.bridge, self.reported = BridgeReport(), -math.inf  # the last one, and when it came
        self.stage = ''
        self._last: dict[str, object] = {}
        self._published_at = -math.inf
        node.create_subscription(
            DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT
        )
        node.create_subscription(String, STAGE, self._take_stage, qos.LATCHED)
        self._publisher = node.create_publisher(interfaces.Status, STATUS, qos.LATCHED)

    def publish(self, task: str, running: bool, period: float) -> None:
        """Publish the status if it has changed, or if the last one is older than a period [s]."""
        now = time.monotonic()
        bridge = BridgeReport() if now - self.reported > task_run.SILENCE_S else self.bridge
        values = {
            'code': int(bridge.code),
            'message': bridge.message,
            'fault': bridge.fault,
            'armed': bridge.armed,
            'task': task,
            'stage': self.stage,
            'running': running,
        }
        if values == self._last and now < self._published_at + period:
            return
        self._last, self._published_at = values, now
        status = interfaces.Status(**values)
        status.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(status)

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for name, status, values in statuses(message, self._node.get_namespace()):
            if name == 'bridge':
                self.bridge = task_run.read_report(status.message, values)
                self.reported = time.monotonic()

    def _take_stage(self, message: String) -> None:
        self.stage = message.data
