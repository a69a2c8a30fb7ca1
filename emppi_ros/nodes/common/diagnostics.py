"""How a node is doing, once a second on /diagnostics."""

from collections import deque
from collections.abc import Callable, Mapping
import math
from typing import NamedTuple

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from emppi_ros.nodes.common import qos

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Report(NamedTuple):
    """A node's state in words, and its figures."""

    level: bytes
    message: str
    values: Mapping[str, object] = {}


class Diagnostics:
    """Publishes what `report` says: at 1 Hz, and whenever `publish` is called."""

    def __init__(self, node: Node, report: Callable[[], Report]) -> None:
        """Start at once."""
        self._node, self._report = node, report
        self._name = f'emppi: {node.get_name()}'
        self._publisher = node.create_publisher(DiagnosticArray, '/diagnostics', qos.DEFAULT)
        # not by simulated time: when that stops, somebody will want to know how we are
        self._timer = node.create_timer(
            1.0, self.publish, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )

    def publish(self) -> None:
        """Publish the report of this moment."""
        report = self._report()
        status = DiagnosticStatus(level=report.level, name=self._name, message=report.message)
        status.values = [KeyValue(key=k, value=show(v)) for k, v in report.values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


class Durations:
    """The last few thousand durations [s] of something that repeats."""

    def __init__(self, count: int = 3000) -> None:
        """Keep at most `count`."""
        self._values: deque[float] = deque(maxlen=count)
        self._recent: deque[float] = deque(maxlen=count)

    def add(self, value_s: float) -> None:
        """Add one."""
        self._values.append(value_s)
        self._recent.append(value_s)

    def quantile_ms(self, probability: float) -> float:
        """Return a quantile in milliseconds, NaN if there is nothing yet."""
        values = list(self._values)
        return 1e3 * float(np.quantile(values, probability)) if values else math.nan

    def take_recent_ms(self) -> list[float]:
        """Return those since the last call."""
        taken = [round(1e3 * self._recent.popleft(), 3) for _ in range(len(self._recent))]
        return taken


def show(value: object) -> str:
    """Return a figure as text that people and programs can read."""
    if isinstance(value, float):
        return f'{value:.6g}'
    if isinstance(value, list):
        return ' '.join(show(item) for item in value)
    return str(value)
