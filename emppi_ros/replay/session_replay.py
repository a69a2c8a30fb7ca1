"""Running a session again from its journal: what it says this time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import json
from typing import Any

from emppi_ros.control.plan import Plan
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.session import journal, snapshot
from emppi_ros.session import metadata as sessions
from emppi_ros.session.belief_session import Learning, Said
from emppi_ros.session.journal import BELIEF, KEY, PLANNER
from emppi_ros.session.planner_session import Planning

_KINDS: dict[str, type[Planning] | type[Learning]] = {PLANNER: Planning, BELIEF: Learning}
Make = Callable[[Mapping[str, Any]], Planning | Learning]


class Rerun:
    """A session run again; `outputs` yields what it says, and notes fill on the way."""

    def __init__(self, topic: str, where: str, make: Make | None = None) -> None:
        """`where` is the bag, for errors; `make` another session in place of the recorded one."""
        self.topic, self.where = topic, where
        self.session: Planning | Learning | None = None
        self.notes: list[str] = []  # what is not as it was, in words
        self.gaps = 0  # where messages of the journal are missing
        self.states: list[str] = []  # what a session remembers, where that is not as recorded
        self.checked = 0  # memories that were compared
        self.tasks = 0  # of sessions, one after the other
        self._other = make
        self._made_of: Mapping[str, Any] = {}
        self._next: int | None = None

    def outputs(self, texts: Iterable[str]) -> Iterator[Plan | Said]:
        """Yield what the session says, given the messages of its journal."""
        for text in texts:
            sequence, events = journal.read(self.topic, text)
            if sequence != self._next and self._next is not None:
                self._lose(sequence)
            self._next = sequence + 1
            for event in events:
                try:
                    yield from self._run(event)
                except ReplayError:
                    raise
                except Exception as error:
                    raise ReplayError(
                        f'{self.where}: {self.topic}: event {event[0]!r} of message {sequence} '
                        f'cannot be used: {error}'
                    ) from None

    def _lose(self, sequence: int) -> None:
        """Go on at the next key: messages are missing, or it is another session's."""
        self.session = None
        self.gaps += sequence != 0

    def _run(self, event: list[Any]) -> list[Plan | Said]:
        name, *values = event
        if name == KEY:
            self._key(*values)
            return []
        if self.session is None:
            return []  # before the first key
        if name == 'tune' and self._other is not None:
            return []  # it has numbers of its own
        try:
            said = getattr(self.session, name)(*map(snapshot.decode, values))
        except EmppiError:  # as in the node, which then said nothing
            return []
        except Exception as error:
            if name != 'plan':  # a cost may raise anything, and the node goes on
                raise
            self.notes.append(f'{type(error).__name__} in {name!r}: {error}')
            return []
        if isinstance(said, list):
            return said
        return [said] if isinstance(said, Plan | Said) else []

    def _key(self, about: Mapping[str, Any], remembered: dict[str, Any]) -> None:
        """Begin where the recorded session was, or see whether this one is there, too."""
        if self.session is not None and about == self._made_of:
            if self._other is None:
                self._compare(remembered)
            return
        self.tasks += about.get('task') != self._made_of.get('task')
        self._made_of = about
        if self._other is not None:
            self.session = self._other(about)
            return
        task = sessions.make_task(about, self.where)
        self.notes += [n for n in sessions.differences(about, task) if n not in self.notes]
        self.session = _KINDS[self.topic](task, int(about['seed']))
        drawn = _stream(snapshot.dump(self.session))
        snapshot.restore(self.session, remembered)
        self.session.resume()
        if _stream(remembered) != drawn:
            self.notes.append(
                f'the random numbers in the bag are not those of seed {about["seed"]}, which it '
                'names: another seed, or another NumPy; those in the bag are used'
            )

    def _compare(self, remembered: dict[str, Any]) -> None:
        found = snapshot.dump(self.session)
        self.checked += 1
        self.states += [
            name.strip('_')
            for name, value in found.items()
            if json.dumps(value) != json.dumps(remembered.get(name))
        ]


def _stream(remembered: Mapping[str, Any]) -> object:
    """Return what of a generator's state its seed alone determines (the increment of PCG64)."""
    (part,) = (remembered[name] for name in ('planner', 'filter') if name in remembered)
    return part['_rng']['state']['inc']
