"""
Subscriptions that a loop reads when it needs them, and the loop itself.

An executor rebuilds its wait set for every single message, which at 250 Hz costs more than
all the rest of a node; and whoever works at a fixed rate wants the newest message then, not a
callback in between. What arrives waits in the middleware's queue.
"""

from collections.abc import Callable
import logging
import math
import threading
import time

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

_SLIP = 2e-3  # of a period, each time: less than cycles differ anyway
_WAITED_S = 1e-3  # longer than need be


class _ByHand(CallbackGroup):
    """Entities that no executor waits for."""

    def can_execute(self, entity: object) -> bool:
        return False

    def beginning_execution(self, entity: object) -> bool:
        return False

    def ending_execution(self, entity: object) -> None:
        pass


class PolledSubscription:
    """A subscription whose callback is called by `poll`, once per message, oldest first."""

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

        A `timed` callback also gets when a message was sent [s, system clock]; a `raw` one gets
        its bytes (CDR), and when they were sent and received [ns].
        """
        self._node, self._callback, self._most = node, callback, profile.depth
        self._time: Callable[[dict], tuple] = lambda _: ()
        if timed:
            self._time = lambda info: (info['source_timestamp'] * 1e-9,)
        if raw:
            self._time = lambda info: (info['source_timestamp'], info['received_timestamp'])
        self.topic, self._raw, self._heard_at = topic, raw, -math.inf
        self._subscription = node.create_subscription(  # which never calls anything itself
            kind, topic, lambda _message: None, profile, callback_group=_ByHand(), raw=raw
        )

    @property
    def age(self) -> float:
        """How long ago the last message was handled [s]; infinite before the first."""
        return time.monotonic() - self._heard_at

    def poll(self) -> None:
        """Handle every message that has arrived, and no endless row of those that still come."""
        subscription = self._subscription
        with subscription.handle:
            for _ in range(self._most):
                taken = subscription.handle.take_message(subscription.msg_type, self._raw)
                if not taken:
                    return
                self._heard_at = time.monotonic()
                self._callback(taken[0], *self._time(taken[1]))

    def drop(self) -> None:
        """Forget every message that has arrived."""
        subscription = self._subscription
        with subscription.handle:
            for _ in range(self._most):
                if not subscription.handle.take_message(subscription.msg_type, True):
                    return

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)


class PeriodEstimator:
    """When something that comes at its own steady rate is to come again."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._last, self._interval = -math.inf, math.inf

    def note(self, time_s: float) -> None:
        """Take it that it came just now."""
        gap = time_s - self._last
        known = math.isfinite(self._interval)
        self._interval = 0.9 * self._interval + 0.1 * gap if known else gap
        self._last = time_s

    def shift(self, period_s: float, waited_s: float) -> float:
        """
        Return by how much [s] a cycle should begin later, to begin just before it comes.

        Otherwise what comes once a cycle lies about for up to a period, by chance, before it is
        used. It was waited for so long; 0: it was there. Nothing is shifted for what comes more
        often, or less.
        """
        if abs(self._interval - period_s) > 0.1 * period_s:
            return 0.0
        if waited_s == 0.0:
            return -_SLIP * period_s
        return _SLIP * period_s if waited_s > _WAITED_S else 0.0

    def is_due(self, until: float) -> bool:
        """Return whether it should come before `until`, and has not failed to for long."""
        return 0.9 * self._interval < until - self._last < 3.0 * self._interval


class Loop:
    """
    Calls `work(moment)` at a fixed rate, in a thread of its own.

    Moments lie on a grid of one period; those that have passed are skipped, or all but the last
    one if it may be `late`. If `work` raises, the loop ends and `failure` says why: whoever runs
    the node ends it then.
    """

    def __init__(
        self,
        name: str,
        period_s: float,
        work: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
        late: bool = False,
    ) -> None:
        """Start at once."""
        self._period, self._work, self._clock = period_s, work, clock
        self._next = math.floor if late else math.ceil
        self._first = clock()
        self._stopping = threading.Event()
        self.failure = ''
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def slip(self, seconds: float) -> None:
        """Shift all moments to come by a little; to be called by `work`."""
        self._first += seconds

    def stop(self) -> None:
        """Let the work under way end, and start no other."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            k = 0
            while not self._stopping.is_set():
                k = max(k + 1, self._next((self._clock() - self._first) / self._period))
                moment = self._first + k * self._period
                while (wait := moment - self._clock()) > 0 and not self._stopping.is_set():
                    time.sleep(min(wait, 0.05))  # then looks again: the clock may be simulated
                if not self._stopping.is_set():
                    self._work(moment)
        except Exception as error:
            self.failure = f'{type(error).__name__}: {error}'
            logging.getLogger(__name__).exception('loop %s ended', self._thread.name)
