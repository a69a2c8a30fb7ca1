"""Stamps for moments of the clock that never jumps, as exact as messages can carry them."""

import time

from builtin_interfaces.msg import Time
from rclpy.node import Node
import rclpy.time

_NANO = 1_000_000_000
_TRIES = 5  # of reading both clocks; in the quickest try least time passed between them
_SET_NS = 1_000_000  # a clock that is off by more was set, or is simulated


class Stamps:
    """
    Keeps the two clocks apart by the same time while a robot moves.

    Read anew for every message, that time would differ by microseconds, or by much more where
    the process is interrupted. At 0.5 rad/s 1 us is half a microradian, which made up for within
    a millisecond takes a jerk of some 1000 rad/s^3.
    """

    def __init__(self, node: Node) -> None:
        """Compare the node's clock with the one that never jumps."""
        self._node = node
        self._ahead = self._compare()

    def at(self, moment: float, moving: bool) -> Time:
        """Return the stamp of a moment [s] of `time.monotonic`."""
        ahead = self._compare()
        if not moving or abs(ahead - self._ahead) > _SET_NS:
            self._ahead = ahead
        return rclpy.time.Time(nanoseconds=self._ahead + round(moment * _NANO)).to_msg()

    def _compare(self) -> int:
        """Return by how much the node's clock is ahead [ns]."""
        clock, tries = self._node.get_clock(), []
        for _ in range(_TRIES):
            before, now, after = time.monotonic_ns(), clock.now().nanoseconds, time.monotonic_ns()
            tries.append((after - before, now - (before + after) // 2))
        return min(tries)[1]
