"""The clock of a node and that of the bridge, and message stamps of its times."""

from collections.abc import Callable
import math
import threading
import time

from builtin_interfaces.msg import Time
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock as NodeClock
from rclpy.clock import ROSClock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
import rclpy.time
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock

from emppi_ros.bridge import simulated_time
from emppi_ros.nodes.common.polling import PolledSubscription

CLOCK = '/clock'
_NANO = 1_000_000_000
_READINGS = 5  # of both clocks; the fastest reading counts
_POLL_S = 5e-4  # between two looks for a message, each of which costs some 20 us
_JUMP_NS = 1_000_000  # a larger change means that the node's clock was set


def is_simulated(node: Node) -> bool:
    """Return whether a node follows /clock (`use_sim_time`)."""
    clock = node.get_clock()
    return isinstance(clock, ROSClock) and clock.ros_time_is_active


def create_steady_timer(
    node: Node, period_s: float, callback: Callable[[], None], group: CallbackGroup | None = None
) -> Timer:
    """Return a timer of the steady clock: simulated time may stop."""
    steady = NodeClock(clock_type=ClockType.STEADY_TIME)
    return node.create_timer(period_s, callback, callback_group=group, clock=steady)


class CommandClock:
    """The clock of the bridge: `time.monotonic`, whatever the node's clock does."""

    simulated = False

    def __init__(self, node: Node) -> None:
        self._node = node

    def now(self) -> float:
        """Return the time of this clock [s]."""
        return time.monotonic()

    def stamp_now(self) -> float:
        """Return the time of the clock that stamps messages [s]."""
        return self._node.get_clock().now().nanoseconds * 1e-9

    def offset_ns(self) -> int:
        """Return the clock that stamps messages minus this clock [ns]."""
        clock, readings = self._node.get_clock(), []
        for _ in range(_READINGS):
            before, now, after = time.monotonic_ns(), clock.now().nanoseconds, time.monotonic_ns()
            readings.append((after - before, now - (before + after) // 2))
        return min(readings)[1]


class SimulatedCommandClock(CommandClock):
    """The clock of the bridge in simulated time; it needs no executor, and any thread reads it."""

    simulated = True

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._lock = threading.Lock()
        self._state, self._reading = simulated_time.start(time.monotonic()), 0.0
        self._polled_at = -math.inf
        profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._subscription = PolledSubscription(node, Clock, CLOCK, self._receive, profile)

    def now(self) -> float:
        """Return the time of this clock [s]."""
        return self._advance().time

    def stamp_now(self) -> float:
        """Return the time of /clock [s]."""
        state = self._advance()
        return state.time + state.offset

    def offset_ns(self) -> int:
        """Return /clock minus this clock [ns]."""
        return round(self._advance().offset * _NANO)

    def _advance(self) -> simulated_time.SimulatedTime:
        with self._lock:
            now = time.monotonic()
            if now > self._polled_at + _POLL_S:
                self._subscription.poll()
                self._polled_at = now
            self._state = simulated_time.advance(self._state, now, self._reading)
            return self._state

    def _receive(self, message: Clock) -> None:
        self._reading = message.clock.sec + message.clock.nanosec / _NANO


class ClockSync:
    """
    Offset between the clock that stamps messages and the bridge's, constant while the robot moves.

    Offsets measured for every message would differ by microseconds: at 0.5 rad/s, to correct 1 us
    within a millisecond takes a jerk of about 1000 rad/s^3.
    """

    def __init__(self, clock: CommandClock) -> None:
        self._clock = clock
        self._offset = clock.offset_ns()

    def moment(self, stamp: float) -> float:
        """Return the time of the bridge's clock at a stamp [s]."""
        return stamp - self._offset / _NANO

    def at(self, moment: float, moving: bool) -> Time:
        """Return the stamp of a time [s] of the bridge's clock."""
        offset = self._clock.offset_ns()
        if not moving or abs(offset - self._offset) > _JUMP_NS:
            self._offset = offset
        stamp = self._offset + round(moment * _NANO)
        return rclpy.time.Time(nanoseconds=max(0, stamp)).to_msg()  # 0: before the first /clock
