"""
One connection to a Franka robot through `franky`, on a thread of its own.

Whatever asks the robot may block: reading its state for a millisecond, and for a second once the
connection is lost. So only this thread does; the bridge leaves commands and finds readings.
Below it franky's own thread, in C++, answers the robot every millisecond and needs no Python.
"""

from collections.abc import Callable
from concurrent.futures import Future
import contextlib
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.backends.fci_state import Reading, moves, obstacle, read

Array = npt.NDArray[np.float64]
_READ_S = 0.004  # between two readings
_SILENCE_S = 0.08  # without a new state of the robot: the connection is lost
_STARTING_S = 0.5  # it may take that long to take control
_AWAY_S = 0.04  # between two calls of `fault`: we ourselves were away, the robot need not be
_PATIENCE_S = 10.0  # for what an operator waits for
_ENDING_S = 2.0  # for the last motion to end
_RECENT_S = 1.0  # since the last motion: what stops the robot, stops us


class Settings(NamedTuple):
    """How to talk to one robot."""

    connect: Callable[[], Any]  # a new connection; raises what franky raises
    motion: Callable[[Array], Any]  # a motion that holds a velocity (7,) shortly, then brakes
    now: Callable[[], float]  # the clock that stamps messages
    period_s: float  # between two motions
    torque_limit: float  # N m, external, at which we brake


class Session:
    """Readings out, velocities in; a fault stays until `recover`, and nothing is sent then."""

    def __init__(self, settings: Settings) -> None:
        """Connect; raises what franky raises."""
        self._settings = settings
        self.reading: Reading | None = None
        self.sent = 0  # motions
        self.lost = False  # whether only a new connection helps
        self._fault, self._obstacle = '', ''  # until it is cleared; as long as it lasts
        self._wanted: Array | None = None
        self._due = -np.inf
        self._robot_time, self._alive, self._told = -1, time.monotonic(), time.monotonic()
        self._asking: float | None = None  # since when the robot owes an answer
        self._turn, self._closing = threading.Event(), False
        self._job: Callable[[], None] | None = None
        self._robot: Any = None
        self._thread = threading.Thread(target=self._run, name='fci', daemon=True)
        self._thread.start()
        self._do(self._open)

    def want(self, velocity: Array | None) -> None:
        """Move with a velocity (7,) now; None: send nothing, the last motion ends by itself."""
        self._wanted = velocity
        self._turn.set()

    def fault(self) -> str:
        """Return why the robot stopped, in words; '' if it did not. To be asked every cycle."""
        now, asking = time.monotonic(), self._asking
        away, self._told = now - self._told > _AWAY_S, now
        if asking is not None and away:
            self._asking = now
        elif asking is not None and now - asking > _SILENCE_S:
            self._lose(now - asking)
        return self._fault or self._obstacle

    def recover(self) -> None:
        """Clear what stopped the robot, connect again if need be; EmppiError if it stays."""
        self._do(self._clear)
        self._alive, self._fault, self._obstacle = time.monotonic(), '', ''

    def close(self) -> None:
        """Let the last motion end at rest, then disconnect."""
        self._closing = True
        self._turn.set()
        self._thread.join(2 * _ENDING_S)

    def _do(self, work: Callable[[], None]) -> None:
        """Do something on the thread, and wait for it, but not for ever."""
        done: Future[None] = Future()

        def job() -> None:
            try:
                done.set_result(work())
            except Exception as error:  # franky also raises what has no base but this
                done.set_exception(error)

        self._job = job
        self._turn.set()
        try:
            done.result(_PATIENCE_S)
        except TimeoutError:
            raise EmppiError(
                f'the robot did not answer for {_PATIENCE_S:.0f} s: check its power, its address '
                'and that FCI is active'
            ) from None

    def _run(self) -> None:
        due = time.monotonic()
        while not self._closing:
            self._turn.wait(max(0.0, due - time.monotonic()))
            self._turn.clear()
            job, self._job = self._job, None
            now = time.monotonic()
            if job is not None:
                job()
            elif self._robot is not None and not self.lost:
                self._cycle(reads=now >= due)
            if now >= due:
                due = max(due + _READ_S, now)
        self._end()

    def _cycle(self, reads: bool) -> None:
        try:
            self._asking = time.monotonic()
            self._robot.poll_motion()  # raises what ended the last motion
            state = self._robot.state if reads else None
            self._asking = None
            if state is not None:
                self._look(state)
            self._send()
        except Exception as error:  # franky also raises what has no base but this
            self.lost = self.lost or type(error).__name__ == 'NetworkException'
            prefix = 'connection lost: ' if self.lost else ''
            self._fail(prefix + ' '.join(str(error).split()))
        self._asking = None

    def _look(self, state: Any) -> None:
        """Take a state of the robot, and doubt it."""
        now = time.monotonic()
        if state.time.to_msec() != self._robot_time:
            self._robot_time, self._alive = state.time.to_msec(), now
            self.reading = read(state, self._settings.now())
        elif now - self._alive > _SILENCE_S:
            self._lose(now - self._alive)
        self._obstacle = obstacle(state)
        if self._obstacle and now < self._due + _RECENT_S:
            self._fail(self._obstacle)
        pushed = int(np.argmax(np.abs(self.reading.torque)))
        torque = self.reading.torque[pushed]
        if moves(state) and not self._fault and not abs(torque) <= self._settings.torque_limit:
            self._fail(self._pushed(pushed, torque))
            self._robot.move(self._settings.motion(np.zeros(7)), asynchronous=True)

    def _pushed(self, joint: int, torque: float) -> str:
        return (
            f'external torque of {torque:.1f} N m on joint {joint + 1}, more than '
            f'{self._settings.torque_limit:g} N m (external_torque_nm)'
        )

    def _send(self) -> None:
        """Start the next motion, if one is wanted and due. A command is sent only once."""
        now = time.monotonic()
        if self._fault or self._obstacle or now < self._due:
            return
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        if not self._robot.is_in_control:
            self._alive = now + _STARTING_S
        self._robot.move(self._settings.motion(wanted), asynchronous=True)
        self.sent += 1
        period = self._settings.period_s
        self._due = max(self._due, now - period) + period  # one per period, and no burst

    def _lose(self, silence: float) -> None:
        """Give the connection up."""
        self.lost = True
        self._fail(f'connection lost: no new state from the robot for {1e3 * silence:.0f} ms')

    def _fail(self, text: str) -> None:
        """Keep the first fault; from now on nothing is sent."""
        self._fault = self._fault or text

    def _open(self) -> None:
        self._robot = None  # first: a robot has one master
        self._robot = self._settings.connect()
        self.lost, self._alive, self._robot_time = False, time.monotonic(), -1

    def _clear(self) -> None:
        self._wanted = None
        if self.lost:
            self._open()
        with contextlib.suppress(Exception):
            self._robot.poll_motion()  # what ended the last motion was told already
        state = self._robot.state
        if state.robot_mode.name == 'UserStopped':
            raise EmppiError(obstacle(state))
        if obstacle(state):
            self._robot.recover_from_errors()
            state = self._robot.state
        torque = np.abs(np.array(state.tau_ext_hat_filtered))
        left, pushed = obstacle(state), int(np.argmax(torque))
        if not left and not torque[pushed] <= self._settings.torque_limit:
            left = self._pushed(pushed, float(torque[pushed]))
        if left:
            raise EmppiError(left)

    def _end(self) -> None:
        with contextlib.suppress(Exception):  # nobody is left to tell
            if self._robot is not None and not self.lost and not self._fault:
                if self._robot.is_in_control:
                    self._robot.move(self._settings.motion(np.zeros(7)), asynchronous=True)
                self._robot.join_motion(_ENDING_S)
        self._robot = None
