"""
The run of a task for one goal of the action `emppi/run_task`: pure functions.

It first checks for a moment that the robot may move, which the bridge reports with a delay. Times
[s] of the task are those of the node's clock, which may be simulated; what other nodes take for an
answer is measured on a steady clock.
"""

from collections.abc import Mapping
import enum
import math
from typing import NamedTuple

from emppi_ros.bridge.state_machine import Phase
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.hold_timer import has_held, holding_since
from emppi_ros.tasks.schema import Condition
from emppi_ros.tasks.switch_protocol import SwitchReply

SILENCE_S = 5.0  # without a report of the bridge, which sends one a second, or a measurement
CHECK_S = 1.5  # in which the bridge, which reports once a second, must report an armed robot
SWITCH_S = 60.0  # in which the planner replies: the sum of its own limits is below


class EndCode(enum.IntEnum):
    """Why a run ended: `error_code` of the action's result."""

    NONE = 0
    REFUSED = 1
    SWITCH_FAILED = 2
    NOT_ARMED = 3
    PAUSED = 4
    FAULT = 5
    TIMEOUT = 6
    CANCELED = 7
    TASK_CHANGED = 8
    NO_REPORT = 9


class StatusCode(enum.IntEnum):
    """What the robot does: `code` of the topic `emppi/status`."""

    INVALID = -1
    FOLLOWING = 0
    WAITING = 1
    NOT_ARMED = 2
    PAUSED = 3
    SWITCHING = 4
    FAULT = 5


class BridgeReport(NamedTuple):
    """What the bridge reports in its diagnostics."""

    code: StatusCode = StatusCode.INVALID
    message: str = 'no report from the bridge: is it running?'
    fault: str = ''  # its code
    armed: bool = False
    paused: bool = False


def read_report(message: str, values: Mapping[str, str]) -> BridgeReport:
    """Return the report in the message and values of the bridge's diagnostics."""
    if 'armed' not in values:
        return BridgeReport(message=f'the bridge is not active: {message}')
    fault = values.get('fault', '')
    armed, paused, swapping = (
        values.get(name) == 'True' for name in ('armed', 'paused', 'swapping')
    )
    codes = (
        (values.get('lifecycle', 'active') != 'active', StatusCode.INVALID),
        (fault, StatusCode.FAULT),
        (not armed, StatusCode.NOT_ARMED),
        (swapping, StatusCode.SWITCHING),
        (paused, StatusCode.PAUSED),
        (values.get('state') == Phase.MOVING.value, StatusCode.FOLLOWING),
    )
    code = next((code for applies, code in codes if applies), StatusCode.WAITING)
    return BridgeReport(code, message, fault, armed, paused)


class Ending(NamedTuple):
    """Why a run ended."""

    code: EndCode
    message: str
    stop: bool = False  # whether the robot still follows plans, and has to be paused

    @property
    def success(self) -> bool:
        """Whether the task succeeded."""
        return self.code is EndCode.NONE


class RunObservation(NamedTuple):
    """What is known at a time."""

    now: float  # by the node's clock
    steady: float  # by the steady clock
    report: BridgeReport  # the last one of the bridge
    reported: float  # when it came, by the steady clock
    reply: SwitchReply | None = None  # of the planner, to the request of this run
    error: float = math.nan  # norm of the success residual
    measured: float = -math.inf  # stamp of the error
    task: str = ''  # name of the running task
    text: str = ''  # digest of its YAML
    switches: int = 0  # how often this node followed a switch
    canceled: bool = False


class RunPhase(enum.Enum):
    """What a run waits for, until it ends."""

    CHECKING = 'checking the robot'
    SWITCHING = 'switching the task'
    RUNNING = 'running'


class TaskRun(NamedTuple):
    """The state of a run."""

    begun: float  # when the phase began, by the steady clock
    switches_task: bool  # whether the goal asks for a switch
    phase: RunPhase = RunPhase.CHECKING
    started: float = math.inf  # when the robot began with the task, by the node's clock
    switches: int = 0  # that this node had followed then
    near_since: float = math.inf  # stamp from which on the error was below its limit
    ending: Ending | None = None  # once it has ended


def _problem(observation: RunObservation, not_armed: str) -> Ending | None:
    """Return why the robot follows no plans, if so, other than that it is paused."""
    report = observation.report
    if observation.steady - observation.reported > SILENCE_S:
        return Ending(EndCode.NO_REPORT, _silence('the bridge'), stop=True)
    if report.code is StatusCode.INVALID:
        return Ending(EndCode.NO_REPORT, report.message, stop=True)
    if report.fault:
        return Ending(EndCode.FAULT, f'{report.message} [{report.fault}]')
    return None if report.armed else Ending(EndCode.NOT_ARMED, not_armed)


def advance(
    run: TaskRun, observation: RunObservation, success: Condition, timeout_s: float
) -> TaskRun:
    """Return the state after an observation; a run has `timeout_s` from its start to succeed."""
    if run.ending is not None:
        return run
    if observation.canceled:
        following = run.phase is not RunPhase.CHECKING
        return run._replace(ending=Ending(EndCode.CANCELED, 'canceled', stop=following))
    if run.phase is RunPhase.CHECKING:
        return _check(run, observation)
    if (ending := _problem(observation, 'disarmed during the run')) is not None:
        return run._replace(ending=ending)
    if run.phase is RunPhase.SWITCHING:
        return _await_switch(run, observation)
    if observation.switches != run.switches:
        text = f'the task was switched to {observation.task} meanwhile'
        return run._replace(ending=Ending(EndCode.TASK_CHANGED, text))
    return _await_success(run, observation, success, timeout_s)


def _started(run: TaskRun, observation: RunObservation) -> TaskRun:
    return run._replace(
        phase=RunPhase.RUNNING, started=observation.now, switches=observation.switches
    )


def _check(run: TaskRun, observation: RunObservation) -> TaskRun:
    """Go on if the robot may move; end the run if it still may not after a while."""
    ending = _problem(observation, 'not armed: arm the robot by the service emppi/arm first')
    if ending is None and observation.report.paused:
        ending = Ending(EndCode.PAUSED, 'paused: resume by the service emppi/pause first')
    if ending is not None:
        waits = observation.steady - run.begun <= CHECK_S
        return run if waits else run._replace(ending=ending._replace(stop=False))
    if run.switches_task:
        return run._replace(phase=RunPhase.SWITCHING, begun=observation.steady)
    return _started(run, observation)


def _await_switch(run: TaskRun, observation: RunObservation) -> TaskRun:
    reply = observation.reply
    if reply is not None and reply.said == switch_protocol.REFUSED:
        return run._replace(ending=Ending(EndCode.REFUSED, reply.reason))
    if reply is not None and reply.said == switch_protocol.FAILED:
        return run._replace(ending=Ending(EndCode.SWITCH_FAILED, reply.reason))
    if reply is not None and reply.figures.get('digest') == observation.text:
        return _started(run, observation)  # this node may follow later than others
    if observation.steady - run.begun > SWITCH_S:
        text = f'the planner did not switch the task within {SWITCH_S:g} s: is it running?'
        return run._replace(ending=Ending(EndCode.SWITCH_FAILED, text, stop=True))
    return run


def _await_success(
    run: TaskRun, observation: RunObservation, success: Condition, timeout_s: float
) -> TaskRun:
    elapsed = observation.now - run.started
    if observation.measured >= run.started:  # of this run
        near = observation.error < success.below
        since = holding_since(run.near_since, near, observation.measured)
        run = run._replace(near_since=since)
        if has_held(since, observation.measured, success.hold_s):
            text = f'{observation.task} succeeded after {elapsed:.1f} s'
            return run._replace(ending=Ending(EndCode.NONE, text))
    if observation.now - max(observation.measured, run.started) > SILENCE_S:
        text = _silence('the measurements')
        return run._replace(ending=Ending(EndCode.NO_REPORT, text, stop=True))
    if elapsed > timeout_s:
        error = f'error {observation.error:.3g}, success below {success.below:.3g}'
        text = f'no success within {timeout_s:g} s: {error}'
        return run._replace(ending=Ending(EndCode.TIMEOUT, text, stop=True))
    return run


def _silence(source: str) -> str:
    return f'nothing from {source} for {SILENCE_S:g} s'
