"""The closed loop, in real time, in a thread of its own."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
import queue
import threading
import time

from emppi_ros.core.errors import StaleInputError, ViewError
from emppi_ros.session import candidates
from emppi_ros.session.supervised_loop import OperatedLoop
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.tasks.tuning import Value
from emppi_ros.viz.shapes.layers import Seen
from emppi_ros.viz.web.source import Snapshot

CHUNK_S = 0.02  # simulated at once
_PICTURE_S = 0.04  # between two snapshots
_SLIP_S = 0.25  # so far behind the clock, the simulation no longer tries to catch up
_SLOW = 0.9  # of real time: below, the page says so
_ANSWER_S = 60.0
_MOST = 6000  # entries of what is kept of a run: a page may be open for days


class Simulated:
    """A source that runs by itself, watched or not. Requests are done between two steps."""

    takes = ('plan', 'belief')
    resets = 'robot and objects at their start, at rest and disarmed; the belief at its prior'

    def __init__(
        self, task: Task, seed: int = 0, truth: Mapping[str, float] | None = None
    ) -> None:
        """Begin at rest, disarmed."""
        self.name = f'simulated in this process, seed {seed}'
        self._seed, self._truth = seed, dict(truth or {})
        self._loop, self._run, self._watched = OperatedLoop(task, seed, truth), 0, False
        self._requests: queue.Queue[tuple[Callable[[], None], Future]] = queue.Queue()
        self._ending, self._problem, self._speed = threading.Event(), '', 1.0
        self._snapshot: Snapshot | None = self._picture()
        self._thread = threading.Thread(target=self._work, name='simulation', daemon=True)
        self._thread.start()

    def look(self) -> Snapshot | None:
        """Return what is known now."""
        return self._snapshot

    def watch(self, watched: bool) -> None:
        """Keep the planner's candidates, and make snapshots, or no longer."""
        self._watched = watched

    def arm(self, armed: bool) -> None:
        """Follow plans; or brake, and acknowledge a fault."""
        self._do(lambda: self._loop.arm(armed))

    def pause(self, paused: bool) -> None:
        """Brake to rest and stay armed; or go on."""
        self._do(lambda: self._loop.pause(paused))

    def tune(self, values: Mapping[str, Value]) -> None:
        """Go on with other numbers."""
        self._do(lambda: self._loop.tune(values))

    def reset(self) -> None:
        """Start anew: the same hidden truth, the numbers as they are tuned."""
        self._begin(OperatedLoop(self._loop.task, self._seed, self._truth))

    def go_over(self, task: str) -> None:
        """Start another task, with a hidden truth drawn from the seed."""
        loop = OperatedLoop(load_task(task), self._seed)
        self._truth = {}
        self._begin(loop)

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        self._thread.join()

    def _begin(self, loop: OperatedLoop) -> None:
        def take() -> None:
            self._loop, self._problem = loop, ''
            self._run += 1

        self._do(take)

    def _do(self, request: Callable[[], None]) -> None:
        """Have the thread do something between two steps; what that raises is raised here."""
        done: Future = Future()
        self._requests.put((request, done))
        try:
            done.result(_ANSWER_S)
        except Late:
            raise ViewError(f'the simulation has not answered for {_ANSWER_S:g} s') from None

    def _work(self) -> None:
        wall, simulated, shown = time.monotonic(), self._loop.robot.time, 0.0
        while not self._ending.is_set():
            if self._serve():
                wall, simulated = time.monotonic(), self._loop.robot.time
            behind = (time.monotonic() - wall) - (self._loop.robot.time - simulated)
            if behind > _SLIP_S:
                wall += behind
            if behind < 0.0 or self._problem:
                self._ending.wait(min(0.01, max(-behind, 0.002)))
            else:
                self._advance()
            if self._watched and time.monotonic() - shown > _PICTURE_S:
                shown = time.monotonic()
                self._snapshot = self._picture()

    def _serve(self) -> bool:
        """Do what was asked for; return whether anything was."""
        served = False
        while not self._requests.empty():
            request, done = self._requests.get()
            try:
                request()
            except Exception as error:  # whoever asked is told
                done.set_exception(error)
                continue
            self._snapshot, served = self._picture(), True
            done.set_result(None)
        return served

    def _advance(self) -> None:
        """Simulate a little; what goes wrong ends this run, not the page."""
        loop, began = self._loop, time.monotonic()
        loop.planner.watched = candidates.place(loop.task) if self._watched else None
        try:
            for _ in range(round(CHUNK_S / loop.task.simulation.timestep_s)):
                loop.step()
        except Exception as error:
            self._problem = f'the simulation stopped ({error}): reset it'
        pace = CHUNK_S / max(time.monotonic() - began, 1e-6)
        self._speed += 0.02 * (min(pace, 1.0) - self._speed)
        loop.trace.forget(_MOST)

    def _picture(self) -> Snapshot:
        loop, machine = self._loop, self._loop.machine
        trace, robot = loop.trace, loop.robot
        notes = [self._problem, machine.fault.text if machine.fault else '']
        if self._speed < _SLOW:
            notes.append(f'this machine simulates {self._speed:.1f} s in a second')
        last = {'plan': trace.plan_s, 'belief': trace.learn_s}
        return Snapshot(
            loop.task,
            self._run,
            robot.time,
            robot.data.qpos.copy(),
            robot.data.mocap_quat.copy(),
            trace.truth,
            _seen(loop),
            loop.planner.stage.name,
            trace.frames[-1].error if trace.frames else float('nan'),
            trace.ess[-1] if trace.ess else float(len(loop.filter.belief.theta)),
            {name: 1e3 * seconds[-1] for name, seconds in last.items() if seconds},
            machine.phase.value,
            machine.armed,
            machine.paused,
            tuple(filter(None, notes)),
        )


def _seen(loop: OperatedLoop) -> Seen | None:
    """Return what planner and belief know, None before all was measured once."""
    stamp = loop.estimator.stamp
    try:
        state = loop.estimator.state(stamp)
    except StaleInputError:
        return None
    return Seen(
        stamp,
        state,
        loop.estimator.seen(stamp),
        loop.filter.belief,
        loop.planned if loop.planned is not None and loop.planned.end > stamp else None,
        loop.planner.candidates,
    )
