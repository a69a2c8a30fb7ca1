"""
A loop at a fixed rate, and subscriptions that it polls.

An executor rebuilds its wait set for every message, which at 250 Hz costs more than the rest of
a node. Here messages wait in the middleware's queue for the next cycle.
"""

from collections.abc import Callable
import logging
import math
import threading
import time
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

from emppi_ros.nodes.common import qos

_SHIFT = 2e-3  # of a period per cycle: less than the jitter of the cycles
_MAX_WAIT_S = 1e-3
_PAUSE_S = 1.0  # between two arrivals: they begin anew
_ROUNDING_S = 1e-9  # of moments, and of clocks with steps
_NAP_S = 0.05  # longest sleep of a loop, after which it looks whether to stop
_SIMULATED_NAP_S = 1e-3  # simulated time may be faster


class _Unscheduled(CallbackGroup):
    """Callback group that no executor waits for."""

    def can_execute(self, entity: object) -> bool:
        return False

    def beginning_execution(self, entity: object) -> bool:
        return False

    def ending_execution(self, entity: object) -> None:
        pass


class PolledSubscription:
    """A subscription whose callback runs in `poll`, once per message, oldest first."""

    def __init__(
        self,
        node: Node,
        kind: type,
        topic: str,
        callback: Callable[..., object],
        profile: QoSProfile,
        timed: bool = False,
        raw: bool = False,
    ) -> None:
        """
        Subscribe.

        A `timed` callback also gets the time of sending [s, system clock]; a `raw` callback gets
        the serialized message (CDR) and the times of sending and receiving [ns]. The profile of a
        sensor topic can be changed by parameters of the node, `qos_overrides`.
        """
        options = None
        if profile is qos.SENSOR:
            profile, options = qos.overridable(profile)
        self._node, self._callback = node, callback
        self._time: Callable[[Any], tuple[float, ...]] = lambda _: ()
        if timed:
            self._time = lambda info: (info['source_timestamp'] * 1e-9,)
        if raw:
            self._time = lambda info: (info['source_timestamp'], info['received_timestamp'])
        self.topic, self.profile, self._raw, self._received_at = topic, profile, raw, -math.inf
        self._subscription = node.create_subscription(
            kind,
            topic,
            lambda _message: None,
            profile,
            callback_group=_Unscheduled(),
            qos_overriding_options=options,
            raw=raw,
        )

    @property
    def age(self) -> float:
        """Time since the last message was handled [s]; infinite before the first."""
        return time.monotonic() - self._received_at

    def poll(self) -> None:
        """Handle the messages that have arrived, at most as many as the queue holds."""
        subscription = self._subscription
        with subscription.handle:
            for _ in range(self.profile.depth):
                taken = subscription.handle.take_message(subscription.msg_type, self._raw)
                if not taken:
                    return
                self._received_at = time.monotonic()
                self._callback(taken[0], *self._time(taken[1]))

    def drop(self) -> None:
        """Discard the messages that have arrived."""
        subscription = self._subscription
        with subscription.handle:
            for _ in range(self.profile.depth):
                if not subscription.handle.take_message(subscription.msg_type, True):
                    return

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)


class PeriodEstimator:
    """Estimate when a periodic message arrives next."""

    def __init__(self) -> None:
        self._last, self._interval = -math.inf, math.inf

    @property
    def interval_s(self) -> float:
        """The mean time between arrivals [s]; infinite before two, and after a pause."""
        return self._interval

    def note(self, time_s: float) -> None:
        """Record an arrival."""
        gap, self._last = time_s - self._last, time_s
        if gap > _PAUSE_S:
            self._interval = math.inf
        elif math.isfinite(self._interval):
            self._interval = 0.9 * self._interval + 0.1 * gap
        else:
            self._interval = gap

    def shift(self, period_s: float, waited_s: float) -> float:
        """
        Return by how much [s] to delay later cycles so that they start just before an arrival.

        `waited_s` is how long this cycle waited for the message, 0 if it was there. The shift is
        0 if the period of the message is not that of the cycle.
        """
        if abs(self._interval - period_s) > 0.1 * period_s:
            return 0.0
        if waited_s == 0.0:
            return -_SHIFT * period_s
        return _SHIFT * period_s if waited_s > _MAX_WAIT_S else 0.0

    def is_due(self, until: float) -> bool:
        """Return whether a message is expected before `until`, and has not been late for long."""
        return 0.9 * self._interval < until - self._last < 3.0 * self._interval


class Loop:
    """
    Call `work(moment)` at a fixed rate in a thread of its own.

    Moments are multiples of the period. Missed moments are skipped, except the last one if
    `late` is true. A loop whose clock is set back begins again from there. An exception in `work`
    ends the loop; `failure` then holds the error, and the node must exit.
    """

    def __init__(
        self,
        name: str,
        period_s: float,
        work: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
        late: bool = False,
        simulated: bool = False,
    ) -> None:
        self._period, self._work, self._clock = period_s, work, clock
        self._next = math.floor if late else math.ceil
        self._first, self._nap = clock(), _SIMULATED_NAP_S if simulated else _NAP_S
        self._stopping = threading.Event()
        self.failure = ''
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def shift(self, seconds: float) -> None:
        """Delay all later moments; call it from `work` only."""
        self._first += seconds

    def stop(self) -> None:
        """Stop after the current call of `work`."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            k = 0
            while not self._stopping.is_set():
                k = max(k + 1, self._next((self._clock() - self._first) / self._period))
                moment = self._first + k * self._period
                while not self._stopping.is_set():
                    wait = moment - self._clock()
                    if wait <= _ROUNDING_S:
                        break
                    if wait > 2.0 * self._period:  # the clock was set back
                        k, self._first = 1, self._clock()
                        moment = self._first + self._period
                    time.sleep(min(wait, self._nap))
                if not self._stopping.is_set():
                    self._work(moment)
        except Exception as error:
            self.failure = f'{type(error).__name__}: {error}'
            logging.getLogger(__name__).exception('loop %s ended', self._thread.name)
