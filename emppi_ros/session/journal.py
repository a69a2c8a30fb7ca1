"""
What a node tells its session, in order, as text: from it the session can be run again.

A session is a `Planning` or a `Learning`. Recorders hear messages in another order, at other
times, and not always the same ones as a node: so the node itself says what it used. A message
is one JSON object::

    {"sequence": 7, "events": [["joints", 12.004, <array>, <array>], ["plan", 12.05]]}

An event is a method of the session and what it was called with. The event `key` stands for no
call: it holds the session's whole memory, for those who begin to listen in the middle. Another
task is another session, with a journal that begins again at 0.
"""

from collections.abc import Mapping
import json
from typing import Any

from emppi_ros.core.errors import ReplayError
from emppi_ros.session import snapshot

PLANNER, BELIEF = 'emppi/planner/journal', 'emppi/belief/journal'
KEY = 'key'
EVENTS = {
    PLANNER: {'joints', 'command', 'pose', 'clear', 'tune', 'believe', 'forget', 'plan'},
    BELIEF: {'joints', 'command', 'pose', 'clear', 'tune', 'stage', 'reset', 'say', 'learn'},
}
_KEY_PERIOD_S = 10.0  # whoever missed something goes on after it


class Journal:
    """Tells a session everything, and takes it down while somebody listens."""

    def __init__(self, session: Any, about: Mapping[str, Any] | None = None) -> None:
        """Keep `about`, plain values that say what is needed to make such a session."""
        self.session, self._about = session, dict(about or {})
        self._events: list[list[Any]] = []
        self._listeners, self._sequence, self._keyed = 0, 0, 0.0

    def tell(self, event: str, *values: Any) -> Any:
        """Call a method with numbers, texts and arrays; return what it returns."""
        if self._listeners:  # written out later: a plan waits for this, and for nothing else
            self._events.append([event, *values])
        return getattr(self.session, event)(*values)

    def begin(self, listeners: int, now: float) -> None:
        """Begin a cycle: take down more if so many listen now; `now` is any clock [s]."""
        due = not 0.0 <= now - self._keyed < _KEY_PERIOD_S
        if listeners > self._listeners or (listeners and due):
            if not self._listeners:
                self._events.clear()
            self._events.append([KEY, self._about, snapshot.dump(self.session)])
            self._keyed = now
        self._listeners = listeners

    @property
    def waiting(self) -> int:
        """The number of events taken down and not yet taken away."""
        return len(self._events) if self._listeners else 0

    def take(self) -> str:
        """Return the message of all that happened since the last one; '' if nobody listens."""
        events, self._events = self._events, []
        if not (events and self._listeners):
            return ''
        message = {'sequence': self._sequence, 'events': events}
        text = json.dumps(message, separators=(',', ':'), default=snapshot.encode)
        self._sequence += 1
        return text


def read(topic: str, text: str) -> tuple[int, list[list[Any]]]:
    """Return sequence and events of a message; ReplayError if it is none."""
    try:
        message = json.loads(text)
        sequence, events = int(message['sequence']), list(message['events'])
        names = {event[0] for event in events}
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ReplayError(f'{topic}: not a journal: {error}') from None
    if unknown := names - EVENTS[topic] - {KEY}:
        raise ReplayError(
            f'{topic}: event {sorted(map(str, unknown))[0]!r} is unknown to this version of '
            'emppi_ros: replay it with the version that recorded it'
        )
    return sequence, events
