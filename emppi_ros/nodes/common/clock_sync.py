"""Convert times of the monotonic clock to message stamps."""

import time

from builtin_interfaces.msg import Time
from rclpy.node import Node
import rclpy.time

_NANO = 1_000_000_000
_READINGS = 5  # of both clocks; the fastest reading counts
_JUMP_NS = 1_000_000  # a larger change means that the node's clock was set, or is simulated


class ClockSync:
    """
    Offset between the node's clock and `time.monotonic`, constant while the robot moves.

    Offsets measured for every message would differ by microseconds, or more if the process is
    interrupted. At 0.5 rad/s, 1 us is 0.5 microradian; to correct that within a millisecond
    takes a jerk of about 1000 rad/s^3.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._offset = self._measure()

    def at(self, moment: float, moving: bool) -> Time:
        """Return the stamp of a time [s] of `time.monotonic`."""
        offset = self._measure()
        if not moving or abs(offset - self._offset) > _JUMP_NS:
            self._offset = offset
        return rclpy.time.Time(nanoseconds=self._offset + round(moment * _NANO)).to_msg()

    def _measure(self) -> int:
        """Return the node's clock minus the monotonic clock [ns]."""
        clock, readings = self._node.get_clock(), []
        for _ in range(_READINGS):
            before, now, after = time.monotonic_ns(), clock.now().nanoseconds, time.monotonic_ns()
            readings.append((after - before, now - (before + after) // 2))
        return min(readings)[1]
