"""
Order of the messages in a bag, which a recorder receives one subscription after the other.

Viewers read chunks of a file by time: chunks whose times overlap are shown in another order than
they were received. The middleware may deliver a message before an earlier one that it sends again.
"""

from collections.abc import Collection
import struct
from typing import NamedTuple

_HOLD_NS = 500_000_000  # messages of a topic are sorted if no further apart
_PERIOD_NS = 100_000_000  # between sortings
_STAMP = struct.Struct('<iI')
_HEADER = 4  # bytes before the content of a CDR message


class RecordedMessage(NamedTuple):
    """A CDR message with the times of its reception and of its sending."""

    topic: str
    data: bytes
    time_ns: int
    sent_ns: int


class MessageOrder:
    """
    Holds messages for a moment, and returns them by the time of reception.

    Within a topic they are also in the order of sending: the n-th that was sent has the n-th time
    of reception. Topics in `stamped` have several publishers, and messages that begin with a
    header: there stamps take the place of the times of sending.
    """

    def __init__(self, stamped: Collection[str] = ()) -> None:
        self._stamped = frozenset(stamped)
        self._held: list[RecordedMessage] = []
        self._next = 0  # time of the next sorting

    def add(self, message: RecordedMessage) -> None:
        """Add a received message."""
        self._held.append(message)

    def take(self, now_ns: int) -> list[RecordedMessage]:
        """
        Return the messages that no earlier one can follow, in order.

        `now_ns` is before the subscriptions were read, so that all earlier messages are here.
        """
        if now_ns < self._next:
            return []
        self._next = now_ns + _PERIOD_NS
        held = self.take_all()
        late = (i for i, message in enumerate(held) if message.time_ns >= now_ns - _HOLD_NS)
        end = next(late, len(held))
        self._held = held[end:]
        return held[:end]

    def take_all(self) -> list[RecordedMessage]:
        """Return all messages, in order."""
        held, self._held = sorted(self._held, key=lambda message: message.time_ns), []
        places: dict[str, list[int]] = {}
        for i, message in enumerate(held):
            places.setdefault(message.topic, []).append(i)
        for topic, indices in places.items():
            key = _stamp_ns if topic in self._stamped else _sent_ns
            times = [held[i].time_ns for i in indices]
            ordered = sorted((held[i] for i in indices), key=key)
            for i, message, time_ns in zip(indices, ordered, times, strict=True):
                held[i] = message if message is held[i] else message._replace(time_ns=time_ns)
        return held


def _sent_ns(message: RecordedMessage) -> int:
    return message.sent_ns


def _stamp_ns(message: RecordedMessage) -> int:
    """Return the stamp in the header that a message begins with."""
    seconds, nanoseconds = _STAMP.unpack_from(message.data, _HEADER)
    return int(seconds * 1_000_000_000 + nanoseconds)
