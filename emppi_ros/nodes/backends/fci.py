"""
A connection to a Franka robot (FCI) through `franky`, on a thread of its own.

Every call to the robot may block: reading its state for a millisecond, and for a second after the
connection is lost. Only this thread makes such calls; the bridge leaves velocities and picks up
readings. Below it, franky's own C++ thread answers the robot every millisecond without Python.
"""

from collections.abc import Callable
from concurrent.futures import Future
import contextlib
import threading
import time
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.backends import BackendState

_READ_S = 0.004  # between two readings
_SILENCE_S = 0.08  # without a new state of the robot, after which the connection counts as lost
_STARTING_S = 0.5  # the longest time that taking control may need
_AWAY_S = 0.04  # between two calls of `fault`: then this process was interrupted, not the robot
_PATIENCE_S = 10.0  # the longest time that an operator's request may need
_ENDING_S = 2.0  # for the last motion to end
_RECENT_S = 1.0  # after a motion, in which an error of the robot is a fault
_READY_MODES = ('Idle', 'Move')  # of a robot that takes commands
_MODES = {
    'UserStopped': 'the user stop is pressed: release it',
    'Guiding': 'the robot is being guided by hand',
    'Reflex': 'a reflex stopped the robot',
    'AutomaticErrorRecovery': 'the robot is recovering from an error',
    'Other': 'the robot takes no commands: unlock its brakes and activate FCI',
}


class FciConnection:
    """Takes velocities and returns readings; sends nothing from a fault until `recover`."""

    def __init__(
        self,
        connect: Callable[[], Any],
        motion: Callable[[Array], Any],
        now: Callable[[], float],
        period_s: float,
        torque_limit: float,
    ) -> None:
        """
        Connect; raises what franky raises.

        `connect` returns a new connection, `motion` one that holds a velocity (7,) briefly, then
        brakes; `now` is the clock that stamps messages. Motions start every `period_s`. An
        external torque above `torque_limit` [N m] is a fault.
        """
        self._connect, self._motion, self._now = connect, motion, now
        self._period, self._torque_limit = period_s, torque_limit
        self.reading: BackendState | None = None  # of 7 joints
        self.following: Array = np.zeros(7)  # rad/s, the velocity that the robot follows
        self.sent = 0  # motions
        self.lost = False  # whether only a new connection helps
        self._fault = ''  # until it is cleared
        self._refusal = ''  # why the robot takes no commands now
        self._next: Array | None = None
        self._due = -np.inf
        self._robot_time, self._alive, self._polled = -1, time.monotonic(), time.monotonic()
        self._asking: float | None = None  # since when a call to the robot is under way
        self._turn, self._closing = threading.Event(), False
        self._job: Callable[[], None] | None = None
        self._robot: Any = None
        self._thread = threading.Thread(target=self._run, name='fci', daemon=True)
        self._thread.start()
        self._call(self._open)

    def set_velocity(self, velocity: Array | None) -> None:
        """Move with a velocity (7,); None sends nothing, so that the last motion ends."""
        self._next = velocity
        self._turn.set()

    def fault(self) -> str:
        """Return why the robot stopped, '' if it did not; to be called every cycle."""
        now, asking = time.monotonic(), self._asking
        was_away, self._polled = now - self._polled > _AWAY_S, now
        if was_away:
            self._alive = now
            if asking is not None:
                self._asking = now
        elif asking is not None and now - asking > _SILENCE_S:
            self._lose(now - asking)
        return self._fault or self._refusal

    def recover(self) -> None:
        """Clear the robot's fault, reconnecting if necessary; EmppiError if it stays."""
        self._call(self._clear)
        self._alive, self._fault, self._refusal = time.monotonic(), '', ''

    def close(self) -> None:
        """Let the last motion end at rest, then disconnect."""
        self._closing = True
        self._turn.set()
        self._thread.join(2 * _ENDING_S)

    def _call(self, work: Callable[[], None]) -> None:
        """Run a function on the thread, and wait for its result for a limited time."""
        done: Future[None] = Future()

        def job() -> None:
            try:
                work()
            except Exception as error:  # franky raises exceptions of no common base
                done.set_exception(error)
            else:
                done.set_result(None)

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
                self._take_state(state)
            self._send()
        except Exception as error:  # franky raises exceptions of no common base
            self.lost = self.lost or type(error).__name__ == 'NetworkException'
            prefix = 'connection lost: ' if self.lost else ''
            self._fail(prefix + ' '.join(str(error).split()))
        self._asking = None

    def _take_state(self, state: Any) -> None:
        now, moves = time.monotonic(), state.robot_mode.name == 'Move'
        if state.time.to_msec() != self._robot_time:
            self._robot_time, self._alive = state.time.to_msec(), now
            self.following = np.array(state.dq_d) if moves else np.zeros(7)
            self.reading = BackendState(self._now(), np.array(state.q), np.array(state.dq))
        elif now - self._polled > _AWAY_S:
            self._alive = now
        elif now - self._alive > _SILENCE_S:
            self._lose(now - self._alive)
        self._refusal = _refusal(state)
        if self._refusal and now < self._due + _RECENT_S:
            self._fail(self._refusal)
        if moves and not self._fault and (pushed := self._pushed(state)):
            self._fail(pushed)
            self._move(np.zeros(7))

    def _pushed(self, state: Any) -> str:
        """Return why the external torques are too large, '' if they are not."""
        torques = np.array(state.tau_ext_hat_filtered)  # (7,) N m, as the robot estimates them
        joint = int(np.argmax(np.abs(torques)))
        torque = torques[joint]
        if abs(torque) <= self._torque_limit:
            return ''
        return (
            f'external torque of {torque:.1f} N m on joint {joint + 1}, more than '
            f'{self._torque_limit:g} N m (external_torque_nm)'
        )

    def _move(self, velocity: Array) -> None:
        self._robot.move(self._motion(velocity), asynchronous=True)

    def _send(self) -> None:
        """Start the next motion if one is due. A velocity is sent only once."""
        now = time.monotonic()
        if self._fault or self._refusal or now < self._due:
            return
        velocity, self._next = self._next, None
        if velocity is None:
            return
        if not self._robot.is_in_control:
            self._alive = now + _STARTING_S
        self._move(velocity)
        self.sent += 1
        # one per period, without bursts
        self._due = max(self._due, now - self._period) + self._period

    def _lose(self, silence: float) -> None:
        self.lost = True
        self._fail(f'connection lost: no new state from the robot for {1e3 * silence:.0f} ms')

    def _fail(self, text: str) -> None:
        """Keep the first fault; nothing is sent from now on."""
        self._fault = self._fault or text

    def _open(self) -> None:
        self._robot = None  # closes the old connection: a robot accepts only one
        self._robot = self._connect()
        self.lost, self._alive, self._robot_time = False, time.monotonic(), -1

    def _clear(self) -> None:
        self._next = None
        if self.lost:
            self._open()
        with contextlib.suppress(Exception):
            self._robot.poll_motion()  # it reports again what ended the last motion
        state = self._robot.state
        if state.robot_mode.name == 'UserStopped':
            raise EmppiError(_refusal(state))
        if _refusal(state):
            self._robot.recover_from_errors()
            state = self._robot.state
        if reason := _refusal(state) or self._pushed(state):
            raise EmppiError(reason)

    def _end(self) -> None:
        with contextlib.suppress(Exception):  # the connection is closed anyway
            if self._robot is not None and not self.lost and not self._fault:
                if self._robot.is_in_control:
                    self._move(np.zeros(7))
                self._robot.join_motion(_ENDING_S)
        self._robot = None


def _active(errors: Any) -> list[str]:
    """Return the names of franky's error flags that are set."""
    return [name for name in dir(errors) if name[0] != '_' and getattr(errors, name) is True]


def _refusal(state: Any) -> str:
    """Return why a robot in this state takes no commands, for the operator; '' if it does."""
    mode, current = state.robot_mode.name, _active(state.current_errors)
    if mode in _READY_MODES and not current:
        return ''
    names = ', '.join(current or _active(state.last_motion_errors))
    text = _MODES.get(mode, f'the robot is in mode {mode}')
    return f'{text}: {names}' if names and mode != 'UserStopped' else text
