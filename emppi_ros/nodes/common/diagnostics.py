"""Publish the status of a node on /diagnostics."""

from collections import deque
from collections.abc import Callable, Mapping
import math
from typing import NamedTuple

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
import numpy as np
from rclpy.node import Node

from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.clock_sync import create_steady_timer
from emppi_ros.recordings.message_tables import diagnostic_name

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Report(NamedTuple):
    """Level, message and values of a diagnostic status."""

    level: bytes
    message: str
    values: Mapping[str, object] = {}


class Diagnostics:
    """Publish what `report` returns: at 1 Hz, and on every call of `publish`."""

    def __init__(self, node: Node, report: Callable[[], Report]) -> None:
        self._node, self._report = node, report
        # with the namespace: all robots share the topic
        self._name = diagnostic_name(node.get_name(), node.get_namespace())
        self._hardware = node.get_namespace().strip('/') or 'robot'
        self._publisher = node.create_publisher(DiagnosticArray, '/diagnostics', qos.DEFAULT)
        create_steady_timer(node, 1.0, self.publish)

    def publish(self) -> None:
        """Publish the current report."""
        level, text, values = self._report()
        status = DiagnosticStatus(
            level=level, name=self._name, message=text, hardware_id=self._hardware
        )
        status.values = [KeyValue(key=name, value=show(value)) for name, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


class Durations:
    """A window of recent durations [s]."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=3000)
        self._recent: deque[float] = deque(maxlen=3000)

    def add(self, value_s: float) -> None:
        """Add a duration."""
        self._values.append(value_s)
        self._recent.append(value_s)

    def quantile_ms(self, probability: float) -> float:
        """Return a quantile in milliseconds, NaN without data."""
        values = list(self._values)
        return 1e3 * float(np.quantile(values, probability)) if values else math.nan

    def take_recent_ms(self) -> list[float]:
        """Return the durations added since the last call [ms]."""
        return [round(1e3 * self._recent.popleft(), 3) for _ in range(len(self._recent))]


def show(value: object) -> str:
    """Format a value for a diagnostic message."""
    if isinstance(value, float):
        return f'{value:.6g}'
    if isinstance(value, list):
        return ' '.join(show(item) for item in value)
    return str(value)
