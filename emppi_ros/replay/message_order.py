"""
Order of the messages in a bag, which a recorder receives one subscription after the other.

Viewers read chunks of a file by time: chunks whose times overlap are shown in another order than
they were received.
"""

from collections.abc import Collection
import struct
from typing import NamedTuple

_HOLD_NS = 200_000_000  # messages of several publishers are sorted if no further apart
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

    `stamped` are topics of several publishers whose messages begin with a header. They are
    returned by their stamps, too: the n-th oldest stamp has the n-th oldest time of reception.
    """

    def __init__(self, stamped: Collection[str] = ()) -> None:
        self._stamped = tuple(stamped)
        self._held: list[RecordedMessage] = []

    def add(self, message: RecordedMessage) -> None:
        """Add a received message."""
        self._held.append(message)

    def take(self, now_ns: int | None = None) -> list[RecordedMessage]:
        """
        Return messages in order, all without a time.

        `now_ns` is before the subscriptions were read, so that all earlier messages are here.
        """
        self._held.sort(key=lambda message: message.time_ns)
        for topic in self._stamped:
            self._sort_stamps(topic)
        end = len(self._held)
        if now_ns is not None:
            late = (i for i, m in enumerate(self._held) if m.time_ns >= now_ns - _HOLD_NS)
            end = next(late, end)
        ready, self._held = self._held[:end], self._held[end:]
        return ready

    def _sort_stamps(self, topic: str) -> None:
        """Sort the messages of a topic by their stamps, in the places that they have."""
        places = [i for i, message in enumerate(self._held) if message.topic == topic]
        found = sorted((self._held[i] for i in places), key=_stamp_ns)
        times = [self._held[i].time_ns for i in places]
        for i, message, time_ns in zip(places, found, times, strict=True):
            self._held[i] = message._replace(time_ns=time_ns)


def _stamp_ns(message: RecordedMessage) -> int:
    """Return the stamp in the header that a message begins with."""
    seconds, nanoseconds = _STAMP.unpack_from(message.data, _HEADER)
    return int(seconds * 1_000_000_000 + nanoseconds)
