"""The measurements of a closed loop, from which other beliefs can be computed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import time
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.journal import journal
from emppi_ros.journal.journal import Journal
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task


class RecordedCall(NamedTuple):
    """A call of a belief session: the event's name and the arguments."""

    event: str
    arguments: tuple[Any, ...]


class CallRecorder(Journal):
    """
    Keeps the calls of a session in memory, as a journal keeps them for a recorder.

    Attributes
    ----------
    calls : list of RecordedCall
        All calls so far.

    """

    def __init__(self, session: BeliefSession) -> None:
        """Attach to a session."""
        super().__init__(session)
        self.calls: list[RecordedCall] = []

    @property
    def records(self) -> bool:
        """Whether calls are recorded now: always, but not calls within calls."""
        return not self._nested

    @contextmanager
    def recording(self, event: str, values: tuple[Any, ...]) -> Iterator[None]:
        """Keep a call with copies of its arrays."""
        kept = (one.copy() if isinstance(one, np.ndarray) else one for one in values)
        self.calls.append(RecordedCall(event, tuple(kept)))
        self._nested = True
        try:
            yield
        finally:
            self._nested = False


class Rerun(NamedTuple):
    """
    A belief session after all calls.

    Attributes
    ----------
    session : BeliefSession
        The session at the end.
    beliefs : list
        Time [s] and belief of each update.
    ess : list of float
        Effective sample size of each update.
    update_s : float
        Processor time of an update [s], mean.

    """

    session: BeliefSession
    beliefs: list[tuple[float, Belief]]
    ess: list[float]
    update_s: float


def record(
    task: Task, seed: int, truth: Mapping[str, float], duration_s: float
) -> tuple[ClosedLoop, list[RecordedCall]]:
    """Run the closed loop for a time, also after success; return it and its belief's calls."""
    loop = ClosedLoop(task, seed, truth=dict(truth))
    recorder = CallRecorder(loop.belief)
    loop.run(duration_s, stop_at_success=False)
    loop.belief.journal = None
    return loop, recorder.calls


def rerun(task: Task, seed: int, calls: list[RecordedCall]) -> Rerun:
    """Return the belief of a task's settings after recorded calls, from its prior."""
    session, methods = BeliefSession(task, seed), journal.events(BeliefSession)
    beliefs: list[tuple[float, Belief]] = []
    ess, spent = [], 0.0
    for call in calls:
        method = getattr(session, methods[call.event])
        if call.event != 'learn':
            method(*call.arguments)
            continue
        started = time.process_time()
        updates = method()
        spent += time.process_time() - started
        beliefs += [(one.stamp, one.belief) for one in updates]
        ess += [one.ess for one in updates]
    return Rerun(session, beliefs, ess, spent / max(1, len(beliefs)))
