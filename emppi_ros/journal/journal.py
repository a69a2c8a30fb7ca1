"""
Journals: the calls of a session in JSON, from which it can be replayed bit by bit.

A recorder may get other messages than a node, in another order and at other times. Therefore each
node publishes the calls of its session. A message is one JSON object::

    {"sequence": 7, "events": [["joints", 12.004, <array>, <array>], ["plan", 12.05]]}

An event is the name of a `journaled` method and its arguments. The event `key` is a key frame: the
metadata and the complete state of the session, for recordings that start late. The metadata, from
`describe`, is enough to create the session again. After a task switch the journal of the new
session starts again with sequence 0.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import functools
import inspect
import json
import platform
from typing import Any, TypeVar, cast

import mujoco
import numpy as np
import scipy

import emppi_ros
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.core.pose import Pose
from emppi_ros.journal import snapshot
from emppi_ros.model import scene
from emppi_ros.state.estimator import Estimator
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task, parse_task

PLANNER, BELIEF = 'emppi/planner/journal', 'emppi/belief/journal'
KEY = 'key'
_KEY_PERIOD_S = 10.0  # between key frames: a replay continues there after lost messages
_METADATA = ('seed', 'task', 'prior', 'model')  # and the versions
_Method = TypeVar('_Method', bound=Callable[..., Any])


class Journaled:
    """A session whose `journaled` methods can be recorded."""

    MEMORY: tuple[str, ...] = ()
    journal: 'Journal | None' = None


def journaled(event: str) -> Callable[[_Method], _Method]:
    """
    Record the calls of a method as events of a name, while the journal has subscribers.

    Arguments are numbers, strings and arrays. Calls within a recorded call are not recorded,
    because a replay repeats them.
    """

    def decorate(method: _Method) -> _Method:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def call(self: Journaled, *args: Any, **kwargs: Any) -> Any:
            if self.journal is None or not self.journal.records:
                return method(self, *args, **kwargs)
            values = signature.bind(self, *args, **kwargs).args[1:]
            with self.journal.recording(event, values):
                return method(self, *args, **kwargs)

        call.__dict__['event'] = event
        return cast(_Method, call)

    return decorate


def events(session: type[Journaled]) -> dict[str, str]:
    """Return the journaled methods of a session by event."""
    methods = {name: getattr(session, name) for name in dir(session)}
    return {m.event: name for name, m in methods.items() if hasattr(m, 'event')}


class Journal:
    """Records the calls of a session while it has subscribers."""

    def __init__(self, session: Journaled, metadata: Mapping[str, Any] | None = None) -> None:
        """Attach to a session; key frames contain `metadata`, a JSON object."""
        self.session, self._metadata = session, dict(metadata or {})
        session.journal = self
        self._events: list[list[Any]] = []
        self._subscribers, self._sequence, self._key_time = 0, 0, 0.0
        self._nested = False

    @property
    def records(self) -> bool:
        """Whether calls are recorded now."""
        return self._subscribers > 0 and not self._nested

    @contextmanager
    def recording(self, event: str, values: tuple[Any, ...]) -> Iterator[None]:
        """Record a call, but no calls within it."""
        self._events.append([event, *values])  # encoded later, to avoid delaying a plan
        self._nested = True
        try:
            yield
        finally:
            self._nested = False

    def begin_cycle(self, subscribers: int, now: float) -> None:
        """Add a key frame if one is due; `now` is the time of any steady clock [s]."""
        due = not 0.0 <= now - self._key_time < _KEY_PERIOD_S
        if subscribers > self._subscribers or (subscribers and due):
            if not self._subscribers:
                self._events.clear()
            self._events.append([KEY, self._metadata, snapshot.dump(self.session)])
            self._key_time = now
        self._subscribers = subscribers

    @property
    def pending(self) -> int:
        """Number of unpublished events."""
        return len(self._events) if self._subscribers else 0

    def take(self) -> str:
        """Return a message with the pending events; '' without events or subscribers."""
        events, self._events = self._events, []
        if not (events and self._subscribers):
            return ''
        message = {'sequence': self._sequence, 'events': events}
        text = json.dumps(message, separators=(',', ':'), default=snapshot.encode)
        self._sequence += 1
        return text


def versions() -> dict[str, str]:
    """Return the versions of everything that may change the last bit of a result."""
    return {
        'emppi_ros': emppi_ros.__version__,
        'MuJoCo': mujoco.__version__,
        'NumPy': np.__version__,
        'SciPy': scipy.__version__,
        'processor': platform.machine(),
    }


def describe(task: Task, text: str, seed: int, prior: str = '') -> dict[str, Any]:
    """Return the metadata of a session; `text` and `prior` are the YAML of task and prior."""
    digest = scene.digest(task.model)
    return {'seed': seed, 'task': text, 'prior': prior, 'model': digest, **versions()}


def check_metadata(metadata: Mapping[str, Any], where: str) -> None:
    """Raise ReplayError if a key is missing."""
    if missing := [key for key in _METADATA if key not in metadata]:
        raise ReplayError(f'{where}: a journal without {", ".join(missing)}')


def make_task(metadata: Mapping[str, Any], where: str) -> Task:
    """Return the task of a recorded session; ReplayError if this version cannot load it."""
    check_metadata(metadata, where)
    try:
        return parse_task(metadata['task'], 'task').with_prior_text(metadata['prior'])
    except EmppiError as error:
        raise ReplayError(
            f'{where}: emppi_ros {emppi_ros.__version__} cannot load the recorded task '
            f'(recorded with {metadata.get("emppi_ros", "?")}): {error}'
        ) from None


def differences(metadata: Mapping[str, Any], task: Task) -> list[str]:
    """Return messages about versions and scenes that differ from the recorded ones."""
    messages = [
        f'recorded with {name} {metadata.get(name, "?")}, replayed with {version}'
        for name, version in versions().items()
        if metadata.get(name) != version
    ]
    if metadata['model'] != scene.digest(task.model):
        messages.append('the scene has changed since: other masses, shapes or settings')
    return messages


class Measurements(Journaled):
    """Joint states, tracked poses and applied commands of a task: the base of both sessions."""

    MEMORY: tuple[str, ...] = ('estimator', 'applied', 'tuned')

    def __init__(self, task: Task) -> None:
        self.task = task
        self.tuned = ''  # last argument of `tune`
        self.estimator = Estimator(task)
        self.applied = TimeSeries('applied commands', reach_s=np.inf)

    @journaled('tune')
    def tune(self, text: str) -> None:
        """Change tunable parameters; `text` is the task's YAML as JSON. Keep all data."""
        self.task, self.tuned = self.task.tuned(json.loads(text)), text

    def resume(self) -> None:
        """Apply the tuned parameters of a restored snapshot."""
        if self.tuned:
            self.tune(self.tuned)

    @journaled('joints')
    def add_joints(self, stamp: float, position: Array, velocity: Array) -> None:
        """Add a joint state, in the order of the robot's joints."""
        self.estimator.add_joints(stamp, position, velocity)

    @journaled('command')
    def add_command(self, stamp: float, values: Array) -> None:
        """Add an applied command, in the order of the robot's commanded joints."""
        self.applied.append(stamp, values)

    @journaled('pose')
    def add_pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Add a tracked pose: position (3,) [m] and quaternion wxyz (4,)."""
        self.estimator.add_pose(name, stamp, Pose(position, quaternion))

    @journaled('clear')
    def clear(self) -> None:
        """Discard all data."""
        self.estimator.clear()
        self.applied.clear()
