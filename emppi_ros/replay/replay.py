"""`emppi replay`: both sessions of a bag run again, and compared with what they said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from emppi_ros.control.plan import Plan
from emppi_ros.core.errors import ReplayError
from emppi_ros.replay.bag_reader import Bag
from emppi_ros.replay.comparison import Comparison
from emppi_ros.replay.session_replay import Rerun
from emppi_ros.session import journal
from emppi_ros.session import metadata as sessions
from emppi_ros.session.journal import BELIEF, KEY, PLANNER
from emppi_ros.session.message_tables import (
    belief_table,
    nanoseconds,
    plan_table,
    read_cloud,
    read_plan,
    stamp_ns,
)
from emppi_ros.tasks.task import Task

SAID = {PLANNER: 'emppi/plan', BELIEF: 'emppi/belief'}
_NODES = {PLANNER: 'planner', BELIEF: 'belief'}


@dataclass
class Tape:
    """What a replay needs of a bag."""

    journals: dict[str, list[str]] = field(default_factory=lambda: {t: [] for t in SAID})
    said: dict[str, list[Any]] = field(default_factory=lambda: {t: [] for t in SAID})
    cut: str = ''
    seconds: float = 0.0


def read(bag: Bag) -> Tape:
    """Read a bag; ReplayError if there is nothing in it to be replayed."""
    tape, said = Tape(), {name: topic for topic, name in SAID.items()}
    for heard in bag.messages({*SAID, *said}):
        if heard.topic in SAID:
            tape.journals[heard.topic].append(heard.data.data)
        else:
            tape.said[said[heard.topic]].append(heard.data)
    tape.cut, tape.seconds = bag.cut, (bag.span_ns[1] - bag.span_ns[0]) * 1e-9
    if not any(tape.journals.values()):
        found = ', '.join(sorted(bag.counts)) or 'no messages'
        cut = f' ({bag.cut})' if bag.cut else ''
        raise ReplayError(
            f'{bag.path}: nothing to replay: it lacks {" and ".join(SAID)}; it holds: '
            f'{found}{cut}. `emppi record` records what a replay needs'
        )
    return tape


def first_about(tape: Tape, topic: str, where: str) -> Mapping[str, Any]:
    """Return what the first recorded session of a node was made of."""
    for text in tape.journals[topic]:
        for event in journal.read(topic, text)[1]:
            if event[0] == KEY:
                sessions.check(event[1], where)
                return event[1]
    raise ReplayError(
        f'{where}: {topic} holds no key: it was recorded for less than ten seconds, and not from '
        'its beginning'
    )


def first_task(tape: Tape, topic: str) -> list[str]:
    """Return the messages of a node's journal until it went over to another task."""
    texts, first = tape.journals[topic], None
    for i, text in enumerate(texts):
        for event in journal.read(topic, text)[1]:
            if event[0] == KEY:
                first = first or event[1]
                if event[1].get('task') != first.get('task'):
                    return texts[:i]
    return texts


def task_of(tape: Tape, where: str) -> Task:
    """Return the task of a recorded run."""
    topic = BELIEF if tape.journals[BELIEF] else PLANNER
    return sessions.make_task(first_about(tape, topic, where), where)


def replay(
    bag: Bag, tape: Tape, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """
    Run what was recorded again; return what `emppi replay --json` prints.

    `progress` gets the number of messages of the journals that were run again.
    """
    summary: dict[str, Any] = {'bag': str(bag.path), 'seconds': tape.seconds, 'identical': True}
    notes, done = [tape.cut] if tape.cut else [], 0
    for topic, node in _NODES.items():
        texts = tape.journals[topic]
        if not texts:
            notes.append(f'{topic} is not in the bag: the {node} is not checked')
            continue
        about = first_about(tape, topic, str(bag.path))
        compared, rerun = _compare(bag, tape, topic), Rerun(topic, str(bag.path))

        def counted(texts: list[str] = texts, before: int = done) -> Any:
            for i, text in enumerate(texts):
                if progress is not None:
                    progress(before + i)
                yield text

        for said in rerun.outputs(counted()):
            task = rerun.session.task
            if isinstance(said, Plan):
                columns = ['time [ns]', *task.robot.commanded]
                compared.replay(nanoseconds(said.start), plan_table(said), columns)
            else:
                columns = ['weight', *(parameter.name for parameter in task.parameters)]
                compared.replay(nanoseconds(said.stamp), belief_table(said.belief), columns)
        done += len(texts)
        notes += [f'{node}: {note}' for note in rerun.notes]
        summary[node] = _judge(node, about, compared, rerun, notes)
        summary['identical'] &= summary[node]['identical']
    return {**summary, 'notes': notes}


def _compare(bag: Bag, tape: Tape, topic: str) -> Comparison:
    """Return a comparison that knows what was recorded."""
    where = f'{bag.path}: {SAID[topic]}'
    if topic == PLANNER:
        # tasks may follow one another, but for the same robot
        task = sessions.make_task(first_about(tape, topic, str(bag.path)), str(bag.path))
        compared = Comparison('plan', 'point')
        for message in tape.said[topic]:
            table = read_plan(message, task.robot.command, where)
            compared.record(stamp_ns(message.header.stamp), table)
        return compared
    compared = Comparison('belief', 'particle')
    for message in tape.said[topic]:
        compared.record(stamp_ns(message.header.stamp), read_cloud(message, where)[1])
    return compared


def _judge(
    node: str, about: Mapping[str, Any], compared: Comparison, rerun: Rerun, notes: list[str]
) -> dict[str, Any]:
    """Return the verdict on one node; add to the notes what it leaves open."""
    lost = compared.unexplained
    if rerun.gaps:
        notes.append(f'{node}: its journal has {rerun.gaps} gaps; it goes on after each')
    elif lost and not compared.first:
        compared.first = f'the one stamped {lost[0] * 1e-9:.6f} was not said again'
    if rerun.states:
        names = ', '.join(sorted(set(rerun.states)))
        notes.append(f'{node}: remembers otherwise than recorded: {names}')
    open_ends = bool(lost) and not rerun.gaps
    return {
        'identical': bool(compared.identical)
        and not (compared.different or rerun.states or open_ends),
        'seed': about['seed'],
        'recorded': compared.recorded,
        'replayed': compared.replayed,
        'bit_identical': compared.identical,
        'different': compared.different,
        'not_in_the_bag': compared.absent,
        'without_journal': compared.outside + (len(lost) if rerun.gaps else 0),
        'memories_compared': rerun.checked,
        'tasks': rerun.tasks,
        'first_difference': compared.first,
    }
