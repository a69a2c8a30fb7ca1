"""
Journals: the calls of a session in JSON, from which it can be replayed bit by bit.

A recorder gets messages in another order than a node, at other times, and not always the same
ones. So each node publishes the calls of its session itself. A message is one JSON object::

    {"sequence": 7, "events": [["joints", 12.004, <array>, <array>], ["plan", 12.05]]}

An event is the name of a `journaled` method and its arguments. The event `key` is a key frame: the
metadata and the complete state of the session, for recordings that start in between. After a task
switch the journal of the new session starts again with sequence 0.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import functools
import inspect
import json
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from emppi_ros.session import snapshot

PLANNER, BELIEF = 'emppi/planner/journal', 'emppi/belief/journal'
KEY = 'key'
_KEY_PERIOD_S = 10.0  # between key frames: a replay continues there after lost messages
_Session = TypeVar('_Session', bound='Journaled')
_Arguments = ParamSpec('_Arguments')
_Result = TypeVar('_Result')
_Method = Callable[Concatenate[_Session, _Arguments], _Result]


class Journaled:
    """A session whose `journaled` methods can be recorded."""

    MEMORY: tuple[str, ...] = ()
    journal: 'Journal | None' = None


def journaled(
    event: str,
) -> Callable[[_Method[_Session, _Arguments, _Result]], _Method[_Session, _Arguments, _Result]]:
    """
    Record the calls of a method under the name of an event, while a journal has subscribers.

    Arguments are numbers, strings and arrays. Calls within a recorded call are not recorded: a
    replay repeats them anyway.
    """

    def decorate(
        method: _Method[_Session, _Arguments, _Result],
    ) -> _Method[_Session, _Arguments, _Result]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def call(self: _Session, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            if self.journal is None or not self.journal.records:
                return method(self, *args, **kwargs)
            values = signature.bind(self, *args, **kwargs).args[1:]
            with self.journal.recording(event, values):
                return method(self, *args, **kwargs)

        call.__dict__['event'] = event
        return cast(_Method[_Session, _Arguments, _Result], call)

    return decorate


def events(session: type[Journaled]) -> dict[str, str]:
    """Return the journaled methods of a session by event."""
    methods = {name: getattr(session, name) for name in dir(session)}
    return {m.event: name for name, m in methods.items() if hasattr(m, 'event')}


class Journal:
    """Records the calls of a session while somebody subscribes."""

    def __init__(self, session: Journaled, about: Mapping[str, Any] | None = None) -> None:
        """Attach to a session; `about` is the metadata of its key frames, as plain values."""
        self.session, self._about = session, dict(about or {})
        session.journal = self
        self._events: list[list[Any]] = []
        self._listeners, self._sequence, self._keyed = 0, 0, 0.0
        self._nested = False

    @property
    def records(self) -> bool:
        """Whether a call that starts now is recorded."""
        return self._listeners > 0 and not self._nested

    @contextmanager
    def recording(self, event: str, values: tuple[Any, ...]) -> Iterator[None]:
        """Record a call, and none of those within it."""
        self._events.append([event, *values])  # encoded later, to not delay a plan
        self._nested = True
        try:
            yield
        finally:
            self._nested = False

    def begin(self, listeners: int, now: float) -> None:
        """Begin a cycle with a number of subscribers, at a time of any clock [s]."""
        due = not 0.0 <= now - self._keyed < _KEY_PERIOD_S
        if listeners > self._listeners or (listeners and due):
            if not self._listeners:
                self._events.clear()
            self._events.append([KEY, self._about, snapshot.dump(self.session)])
            self._keyed = now
        self._listeners = listeners

    @property
    def waiting(self) -> int:
        """Number of events to publish."""
        return len(self._events) if self._listeners else 0

    def take(self) -> str:
        """Return the message of all events since the last one; '' without subscribers."""
        events, self._events = self._events, []
        if not (events and self._listeners):
            return ''
        message = {'sequence': self._sequence, 'events': events}
        text = json.dumps(message, separators=(',', ':'), default=snapshot.encode)
        self._sequence += 1
        return text
