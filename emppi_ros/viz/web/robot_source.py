"""The interface between the web page and the robot that it controls, and a simulated robot."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
import contextlib
import queue
import threading
import time
from typing import NamedTuple, Protocol

from emppi_ros.app.closed_loop import SupervisedLoop
from emppi_ros.belief import explanations
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import StaleInputError, ViewError
from emppi_ros.planning.plan_preview import trace_point
from emppi_ros.sim.true_parameters import GivenTruth
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.tasks.tuning import Value
from emppi_ros.viz.shapes.task_shapes import DisplayState

CHUNK_S = 0.02  # simulated between two looks at the clock
_SNAPSHOT_S = 0.04  # between two snapshots
_SLIP_S = 0.25  # further behind the clock, the simulation no longer catches up
_SLOW = 0.9  # of real time: below, the page warns
_ANSWER_S = 60.0
_MAX_ENTRIES = 6000  # of the run's trace: a page may be open for days


class Snapshot(NamedTuple):
    """The state of a robot under control at one time; nothing in it changes later."""

    task: Task  # with the current tuning
    run: int  # counts resets and task switches
    clock: float  # s
    qpos: Array  # (nq,)
    mocap_quat: Array  # (n, 4) of the scene's n mocap bodies, such as a target
    theta: Array | None  # (P,) true parameters; None if unknown
    display: DisplayState | None  # None until everything was measured once
    stage: str
    error: float  # norm of the success residual; NaN until it is known
    ess: float  # effective sample size before resampling
    latencies: Mapping[str, float]  # ms, by name
    state: str  # of the bridge
    armed: bool
    paused: bool
    notes: tuple[str, ...] = ()  # warnings


class RobotSource(Protocol):
    """A robot under control, simulated or real. Refused requests raise EmppiError."""

    name: str  # shown to operators
    latency_names: tuple[str, ...]  # keys of `Snapshot.latencies`
    reset_effect: str  # what `reset` does, completes "Resets ..."

    def snapshot(self) -> Snapshot | None:
        """Return the current state; None until there is one."""

    def set_watched(self, watched: bool) -> None:
        """Start or stop collecting what only the page needs."""

    def arm(self, armed: bool) -> None:
        """Follow plans; or brake and acknowledge a fault."""

    def pause(self, paused: bool) -> None:
        """Brake to rest but stay armed; or resume."""

    def reset(self) -> None:
        """Reset robot, objects and belief."""

    def tune(self, values: Mapping[str, Value]) -> None:
        """Change tunable parameters, by their names in the task's YAML."""

    def switch_task(self, task: str) -> None:
        """Switch to another task, by its name."""

    def close(self) -> None:
        """Release all resources."""


class SimulatedSource:
    """A simulated robot under control; requests are carried out between two steps."""

    latency_names = ('plan', 'belief')
    reset_effect = 'robot and objects to their start, disarmed, and the belief to its prior'

    def __init__(self, task: Task, seed: int = 0, truth: GivenTruth | None = None) -> None:
        """Start at rest, disarmed."""
        self.name = f'simulated in this process, seed {seed}'
        self._seed, self._truth = seed, truth
        self._loop, self._run, self._watched = SupervisedLoop(task, seed, truth), 0, False
        self._requests: queue.Queue[tuple[Callable[[], None], Future[None]]] = queue.Queue()
        self._ending, self._problem, self._speed = threading.Event(), '', 1.0
        self._snapshot: Snapshot | None = self._take_snapshot()
        self._thread = threading.Thread(target=self._work, name='simulation', daemon=True)
        self._thread.start()

    def snapshot(self) -> Snapshot | None:
        """Return the current state."""
        return self._snapshot

    def set_watched(self, watched: bool) -> None:
        """Start or stop keeping the planner's candidates and taking snapshots."""
        self._watched = watched

    def arm(self, armed: bool) -> None:
        """Follow plans; or brake and acknowledge a fault."""
        self._do(lambda: self._loop.arm(armed))

    def pause(self, paused: bool) -> None:
        """Brake to rest but stay armed; or resume."""
        self._do(lambda: self._loop.pause(paused))

    def tune(self, values: Mapping[str, Value]) -> None:
        """Change tunable parameters."""
        self._do(lambda: self._loop.tune(values))

    def reset(self) -> None:
        """Restart with the same true parameters and the current tuning."""
        self._replace_loop(SupervisedLoop(self._loop.task, self._seed, self._truth))

    def switch_task(self, task: str) -> None:
        """Start another task, with true parameters drawn from the seed."""
        loop = SupervisedLoop(load_task(task), self._seed)
        self._truth = None
        self._replace_loop(loop)

    def close(self) -> None:
        """Stop the simulation."""
        self._ending.set()
        self._thread.join()

    def _replace_loop(self, loop: SupervisedLoop) -> None:
        def replace() -> None:
            self._loop, self._problem = loop, ''
            self._run += 1

        self._do(replace)

    def _do(self, request: Callable[[], None]) -> None:
        """Run a request between two steps of the thread; its exceptions are raised here."""
        done: Future[None] = Future()
        self._requests.put((request, done))
        try:
            done.result(_ANSWER_S)
        except FutureTimeoutError:
            raise ViewError(f'the simulation did not answer within {_ANSWER_S:g} s') from None

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
            if self._watched and time.monotonic() - shown > _SNAPSHOT_S:
                shown = time.monotonic()
                self._snapshot = self._take_snapshot()

    def _serve(self) -> bool:
        """Carry out all requests; return whether there were any."""
        served = False
        while not self._requests.empty():
            request, done = self._requests.get()
            try:
                request()
            except Exception as error:  # raised where it was requested
                done.set_exception(error)
                continue
            self._snapshot, served = self._take_snapshot(), True
            done.set_result(None)
        return served

    def _advance(self) -> None:
        """Simulate one chunk; an error ends this run, not the page."""
        loop, start = self._loop, time.monotonic()
        loop.planner.trace_point = trace_point(loop.task) if self._watched else None
        try:
            for _ in range(round(CHUNK_S / loop.task.simulation.timestep_s)):
                loop.step()
        except Exception as error:
            self._problem = f'the simulation stopped ({error}): reset it'
        pace = CHUNK_S / max(time.monotonic() - start, 1e-6)
        self._speed += 0.02 * (min(pace, 1.0) - self._speed)
        loop.trace.trim(_MAX_ENTRIES)

    def _take_snapshot(self) -> Snapshot:
        loop, machine = self._loop, self._loop.bridge.machine
        plan = loop.plan
        display: DisplayState | None = None  # until everything was measured once
        if plan is not None and plan.end <= loop.planner.estimator.stamp:
            plan = None
        with contextlib.suppress(StaleInputError):
            display = DisplayState.of_loop(loop, plan)
        trace, robot = loop.trace, loop.robot
        notes = [self._problem, machine.fault.text if machine.fault else '']
        notes.append(explanations.misfit(loop.filter.monitor.misfit))
        if self._speed < _SLOW:
            notes.append(f'the simulation runs at {self._speed:.1f} times real time')
        last = {'plan': trace.plan_s, 'belief': trace.update_s}
        return Snapshot(
            loop.task,
            self._run,
            robot.time,
            robot.data.qpos.copy(),
            robot.data.mocap_quat.copy(),
            trace.truth,
            display,
            loop.planner.stage.name,
            trace.frames[-1].error if trace.frames else float('nan'),
            trace.ess[-1] if trace.ess else float(len(loop.filter.belief.theta)),
            {name: 1e3 * seconds[-1] for name, seconds in last.items() if seconds},
            machine.phase.value,
            machine.armed,
            machine.paused,
            tuple(filter(None, notes)),
        )
