"""`emppi replay`: repeat the journaled calls of a bag's sessions, and compare their outputs."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
import json
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.belief.belief_session import BeliefSession, StampedBelief
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.journal import journal, snapshot
from emppi_ros.journal.journal import BELIEF, KEY, PLANNER
from emppi_ros.planning.planner import Planner
from emppi_ros.recordings import message_tables
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.robots.plan import Plan
from emppi_ros.tasks.task import Task

Session = Planner | BeliefSession
SESSIONS: dict[str, type[Session]] = {PLANNER: Planner, BELIEF: BeliefSession}  # by journal
OUTPUTS = {PLANNER: 'emppi/plan', BELIEF: 'emppi/belief'}  # topic of the outputs by journal
_NODES = {PLANNER: 'planner', BELIEF: 'belief'}
_WORDS = {'planner': ('plan', 'point'), 'belief': ('belief', 'particle')}  # a table; its row


@dataclass
class ReplayInput:
    """Journals and outputs of a bag, by journal topic."""

    where: str  # name of the bag in errors
    journals: dict[str, list[str]] = field(default_factory=lambda: {t: [] for t in OUTPUTS})
    outputs: dict[str, list[Any]] = field(default_factory=lambda: {t: [] for t in OUTPUTS})


def read(bag: Bag) -> ReplayInput:
    """Read journals and outputs of a bag; ReplayError without any journal."""
    recorded = ReplayInput(str(bag.path))
    journals = {name: topic for topic, name in OUTPUTS.items()}
    for message in bag.messages({*OUTPUTS, *journals}):
        if message.topic in OUTPUTS:
            recorded.journals[message.topic].append(message.data.data)
        else:
            recorded.outputs[journals[message.topic]].append(message.data)
    if not any(recorded.journals.values()):
        topics = ', '.join(sorted(bag.counts)) or 'no messages'
        cut = f' ({bag.cut})' if bag.cut else ''
        raise ReplayError(
            f'{bag.path}: cannot be replayed: {" and ".join(OUTPUTS)} are missing; it contains: '
            f'{topics}{cut}. `emppi record` records all that a replay needs'
        )
    return recorded


def read_journal(topic: str, text: str) -> tuple[int, list[list[Any]]]:
    """Return sequence and events of a journal message; ReplayError if it has another form."""
    try:
        message = json.loads(text)
        sequence, events = int(message['sequence']), list(message['events'])
        names = {event[0] for event in events}
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ReplayError(f'{topic}: not a journal: {error}') from None
    if unknown := names - journal.events(SESSIONS[topic]).keys() - {KEY}:
        raise ReplayError(
            f'{topic}: event {sorted(map(str, unknown))[0]!r} is unknown to this version of '
            'emppi_ros: replay it with the version that recorded it'
        )
    return sequence, events


def first_metadata(recorded: ReplayInput, topic: str) -> Mapping[str, Any]:
    """Return the metadata of the first recorded session in a journal."""
    for _, metadata in _key_frames(recorded, topic):
        journal.check_metadata(metadata, recorded.where)
        return metadata
    raise ReplayError(
        f'{recorded.where}: {topic} has no key frame: it was recorded for less than ten seconds, '
        'and not from its start'
    )


def first_task(recorded: ReplayInput, topic: str) -> list[str]:
    """Return the messages of a journal until the first task switch."""
    tasks = [(i, metadata.get('task')) for i, metadata in _key_frames(recorded, topic)]
    end = next((i for i, task in tasks if task != tasks[0][1]), None)
    return recorded.journals[topic][:end]


def _key_frames(recorded: ReplayInput, topic: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number of the message and the metadata of each key frame in a journal."""
    for i, text in enumerate(recorded.journals[topic]):
        for event in read_journal(topic, text)[1]:
            if event[0] == KEY:
                yield i, event[1]


class SessionReplay:
    """Replays the journal of one node: `outputs` yields its outputs and collects notes."""

    def __init__(self, topic: str, where: str, make: Callable[[], Session] | None = None) -> None:
        """`where` names the bag in errors; `make` replaces the recorded sessions by others."""
        self.topic, self.where = topic, where
        self.session: Session | None = None
        self.notes: list[str] = []  # deviations from the recording
        self.gaps = 0  # places where messages of the journal are missing
        self.states: list[str] = []  # attributes whose recorded snapshots differ
        self.checked = 0  # compared snapshots
        self.tasks = 0  # consecutive tasks
        self._make = make
        self._metadata: Mapping[str, Any] = {}
        self._next: int | None = None

    def outputs(self, texts: Iterable[str]) -> Iterator[Plan | StampedBelief]:
        """Yield the outputs of the session, given the messages of its journal."""
        for text in texts:
            sequence, events = read_journal(self.topic, text)
            if self._next not in (None, sequence):  # lost messages, or the node was restarted
                self.session = None
                self.gaps += sequence != 0
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

    def _run(self, event: list[Any]) -> list[Plan | StampedBelief]:
        name, *values = event
        if name == KEY:
            self._take_key(*values)
            return []
        if self.session is None:
            return []  # before the first key frame
        if name == 'tune' and self._make is not None:
            return []  # the replacement has its own parameters
        try:
            method = getattr(self.session, journal.events(type(self.session))[name])
            output = method(*map(snapshot.decode, values))
        except EmppiError:  # as in the node, which then had no output
            return []
        except Exception as error:
            if name != 'plan':  # a cost may raise any exception, and the node continues
                raise
            self.notes.append(f'{type(error).__name__} in {name!r}: {error}')
            return []
        if isinstance(output, list):
            return output
        return [output] if isinstance(output, Plan | StampedBelief) else []

    def _take_key(self, metadata: Mapping[str, Any], state: dict[str, Any]) -> None:
        """Start a session from a key frame, or compare the running one with it."""
        if self.session is not None and metadata == self._metadata:
            if self._make is None:
                self.checked += 1
                self.states += [
                    name.strip('_')
                    for name, value in snapshot.dump(self.session).items()
                    if json.dumps(value) != json.dumps(state.get(name))
                ]
            return
        self.tasks += metadata.get('task') != self._metadata.get('task')
        self._metadata = metadata
        if self._make is not None:
            self.session = self._make()
            return
        task = journal.make_task(metadata, self.where)
        self.notes += [n for n in journal.differences(metadata, task) if n not in self.notes]
        self.session = SESSIONS[self.topic](task, int(metadata['seed']))
        expected = _random_stream(snapshot.dump(self.session))
        snapshot.restore(self.session, state)
        self.session.resume()
        if _random_stream(state) != expected:
            self.notes.append(
                f'the random numbers of the bag are not those of its seed {metadata["seed"]} '
                '(another seed, or another NumPy); those of the bag are used'
            )


def _random_stream(state: Mapping[str, Any]) -> object:
    """Return the part of a generator's state that its seed alone determines (PCG64: `inc`)."""
    return state.get('filter', state)['_rng']['state']['inc']


class OutputTable(NamedTuple):
    """A plan or a belief as a table."""

    stamp_ns: int
    values: Array  # (rows, columns) float64
    columns: Sequence[str] = ()  # of a replayed one


def replay(
    bag: Bag, recorded: ReplayInput, progress: Callable[[float], None] = lambda _: None
) -> dict[str, Any]:
    """Return the summary of `emppi replay --json`; `progress` gets the number of messages."""
    summary: dict[str, Any] = {
        'bag': recorded.where,
        'seconds': (bag.span_ns[1] - bag.span_ns[0]) * 1e-9,
        'identical': True,
    }
    notes, done = [bag.cut] if bag.cut else [], 0
    for topic, node in _NODES.items():
        texts = recorded.journals[topic]
        if not texts:
            notes.append(f'{topic} is not in the bag: the {node} is not checked')
            continue
        seed = first_metadata(recorded, topic)['seed']
        expected, rerun = _recorded_tables(recorded, topic), SessionReplay(topic, recorded.where)

        def counted(texts: list[str] = texts, before: int = done) -> Iterator[str]:
            for i, text in enumerate(texts):
                progress(before + i)
                yield text

        replayed = [
            _replayed_table(output, rerun.session.task)  # type: ignore[union-attr]  # it made it
            for output in rerun.outputs(counted())
        ]
        done += len(texts)
        notes += [f'{node}: {note}' for note in rerun.notes]
        summary[node] = _compare(node, seed, expected, replayed, rerun, notes)
        summary['identical'] &= summary[node]['identical']
    return {**summary, 'notes': notes}


def _replayed_table(output: Plan | StampedBelief, task: Task) -> OutputTable:
    if isinstance(output, Plan):
        columns = ['time [ns]', *task.robot.commanded]
        stamp, table = output.start, message_tables.plan_table(output)
    else:
        columns = ['weight', *(parameter.name for parameter in task.parameters)]
        stamp, table = output.stamp, message_tables.belief_table(output.belief)
    return OutputTable(message_tables.nanoseconds(stamp), table, columns)


def _recorded_tables(recorded: ReplayInput, topic: str) -> list[OutputTable]:
    """Return all recorded outputs."""
    where, tables = f'{recorded.where}: {OUTPUTS[topic]}', []
    metadata = first_metadata(recorded, topic)  # a run may have several tasks, but only one robot
    command = journal.make_task(metadata, recorded.where).robot.command
    for message in recorded.outputs[topic]:
        if topic == PLANNER:
            table = message_tables.read_plan(message, command, where)
        else:
            table = message_tables.read_cloud(message, where)[1]
        tables.append(OutputTable(message_tables.stamp_ns(message.header.stamp), table))
    return tables


def _compare(
    node: str,
    seed: int,
    recorded: Sequence[OutputTable],
    replayed: Sequence[OutputTable],
    rerun: SessionReplay,
    notes: list[str],
) -> dict[str, Any]:
    """Compare the outputs of one node by their stamps; append notes on what cannot be compared."""
    waiting: dict[int, deque[Array]] = defaultdict(deque)
    for stamp, values, _ in recorded:
        waiting[stamp].append(values)
    identical = absent = 0
    first = ''  # the first difference
    for number, table in enumerate(replayed, start=1):
        if not waiting[table.stamp_ns]:
            absent += 1
            continue
        values = waiting[table.stamp_ns].popleft()
        if values.shape == table.values.shape and values.tobytes() == table.values.tobytes():
            identical += 1
        elif not first:
            what, seconds = _WORDS[node][0], (table.stamp_ns - recorded[0].stamp_ns) * 1e-9
            when = f'{what} {number} of the replay, {seconds:.3f} s after the first'
            first = f'{when}: {_difference(values, table, _WORDS[node][1])}'
    stamps = [table.stamp_ns for table in replayed]
    low, high = min(stamps, default=1), max(stamps, default=0)
    lost = sorted(s for s, tables in waiting.items() if tables and low <= s <= high)
    outside = sum(map(len, waiting.values())) - len(lost)
    if rerun.gaps:
        notes.append(f'{node}: its journal has {rerun.gaps} gaps; the replay continues after each')
    elif lost and not first:
        first = f'the one stamped {lost[0] * 1e-9:.6f} was not replayed'
    if rerun.states:
        names = ', '.join(sorted(set(rerun.states)))
        notes.append(f'{node}: its state differs from the recorded one in: {names}')
    different = len(replayed) - absent - identical
    missing = bool(lost) and not rerun.gaps
    return {
        'identical': bool(identical) and not (different or rerun.states or missing),
        'seed': seed,
        'recorded': len(recorded),
        'replayed': len(replayed),
        'bit_identical': identical,
        'different': different,
        'not_in_the_bag': absent,
        'without_journal': outside + (len(lost) if rerun.gaps else 0),
        'memories_compared': rerun.checked,
        'tasks': rerun.tasks,
        'first_difference': first,
    }


def _difference(recorded: Array, replayed: OutputTable, row_name: str) -> str:
    """Return the first difference of two tables as text."""
    table = replayed.values
    if recorded.shape != table.shape:
        return f'recorded {recorded.shape}, replayed {table.shape} (rows, columns)'
    bits = recorded.view(np.uint64) != table.view(np.uint64)
    row, column = (int(i[0]) for i in np.nonzero(bits))
    a, b = float(recorded[row, column]), float(table[row, column])
    return (
        f'{row_name} {row}, {replayed.columns[column]}: recorded {a!r}, replayed {b!r} '
        f'({int(bits.sum())} of {bits.size} values differ, by at most '
        f'{float(np.max(np.abs(recorded - table))):.3g})'
    )
