"""
The run of a task for one goal of the action `emppi/run_task`: switching -> running -> ended.

Pure functions of an immutable state. Times [s] are those of the node's clock. A run never arms
the robot.
"""

from collections.abc import Mapping
import enum
import math
from typing import NamedTuple

from emppi_ros.bridge.state_machine import Phase
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.hold_timer import ROUNDING_S
from emppi_ros.tasks.switch_protocol import SwitchReply

SILENCE_S = 3.0  # without a report of the bridge, which sends one a second, or a measurement
SWITCH_S = 60.0  # in which the planner replies: the sum of its own limits is below
_TRUE = 'True'  # in diagnostics


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
    flags = {name: values.get(name) == _TRUE for name in ('armed', 'paused', 'swapping')}
    fault = values.get('fault', '')
    if values.get('lifecycle', 'active') != 'active':
        code = StatusCode.INVALID
    elif fault:
        code = StatusCode.FAULT
    elif not flags['armed']:
        code = StatusCode.NOT_ARMED
    elif flags['swapping']:
        code = StatusCode.SWITCHING
    elif flags['paused']:
        code = StatusCode.PAUSED
    elif values.get('state') == Phase.MOVING.value:
        code = StatusCode.FOLLOWING
    else:
        code = StatusCode.WAITING
    return BridgeReport(code, message, fault, flags['armed'], flags['paused'])


class SuccessRule(NamedTuple):
    """When a task has succeeded: its error was below a limit for a time."""

    below: float
    hold_s: float
    timeout_s: float  # from the start of the run


class Ending(NamedTuple):
    """Why a run ended."""

    code: EndCode
    message: str
    stop: bool = False  # whether the robot still follows plans, and has to be paused

    @property
    def success(self) -> bool:
        """Whether the task succeeded."""
        return self.code is EndCode.NONE


class Observation(NamedTuple):
    """What is known at a time."""

    now: float
    report: BridgeReport  # the last one of the bridge
    reported: float  # when it came, as `now`
    reply: SwitchReply | None = None  # of the planner, to the request of this run
    error: float = math.nan  # norm of the success residual
    measured: float = -math.inf  # stamp of the error
    task: str = ''  # name of the running task
    canceled: bool = False


class TaskRun(NamedTuple):
    """The state of a run."""

    begun: float  # when the goal was accepted
    started: float = math.inf  # when the robot began with the task
    near_since: float = math.inf  # stamp from which on the error was below its limit
    task: str = ''  # name of the task, once it runs
    ending: Ending | None = None


def refusal(report: BridgeReport, silent: bool) -> Ending | None:
    """Return why a run must not begin, if so; `silent`: the report is too old."""
    if silent or report.code is StatusCode.INVALID:
        return Ending(EndCode.NO_REPORT, report.message if not silent else _silence('the bridge'))
    if report.fault:
        return Ending(EndCode.FAULT, f'{report.message} [{report.fault}]')
    if not report.armed:
        return Ending(EndCode.NOT_ARMED, 'not armed: arm the robot by the service emppi/arm first')
    if report.paused:
        return Ending(EndCode.PAUSED, 'paused: resume by the service emppi/pause first')
    return None


def begin(seen: Observation, switches: bool) -> TaskRun:
    """Return the state of a new run; without a switch of the task it starts at once."""
    ending = refusal(seen.report, _is_silent(seen))
    if switches or ending is not None:
        return TaskRun(seen.now, ending=ending)
    return TaskRun(seen.now, seen.now, task=seen.task)


def advance(run: TaskRun, seen: Observation, rule: SuccessRule) -> TaskRun:
    """Return the state after an observation; a run that has ended does not change."""
    if run.ending is not None:
        return run
    ending = _interruption(run, seen)
    if ending is None and math.isinf(run.started):
        ending, run = _after_switch(run, seen)
    elif ending is None:
        ending, run = _after_measurement(run, seen, rule)
    return run._replace(ending=ending)


def _is_silent(seen: Observation) -> bool:
    return seen.now - seen.reported > SILENCE_S


def _interruption(run: TaskRun, seen: Observation) -> Ending | None:
    """Return why the run ends, whatever its phase, if so."""
    report = seen.report
    if seen.canceled:
        return Ending(EndCode.CANCELED, 'canceled', stop=True)
    if _is_silent(seen):
        return Ending(EndCode.NO_REPORT, _silence('the bridge'), stop=True)
    if report.code is StatusCode.INVALID:
        return Ending(EndCode.NO_REPORT, report.message, stop=True)
    if report.fault:
        return Ending(EndCode.FAULT, f'{report.message} [{report.fault}]')
    if not report.armed:
        return Ending(EndCode.NOT_ARMED, 'disarmed during the run')
    if run.task and seen.task != run.task:
        return Ending(EndCode.TASK_CHANGED, f'the task was switched to {seen.task} meanwhile')
    return None


def _after_switch(run: TaskRun, seen: Observation) -> tuple[Ending | None, TaskRun]:
    reply = seen.reply
    if reply is not None and reply.said == switch_protocol.REFUSED:
        return Ending(EndCode.REFUSED, reply.reason), run
    if reply is not None and reply.said == switch_protocol.FAILED:
        return Ending(EndCode.SWITCH_FAILED, reply.reason), run
    if reply is not None and reply.said == switch_protocol.DONE:
        task = str(reply.figures.get('task', ''))
        # the node itself may follow a little later
        if task == seen.task:
            return None, run._replace(started=seen.now, task=task)
    if seen.now - run.begun > SWITCH_S:
        text = f'the planner did not switch the task within {SWITCH_S:g} s: is it running?'
        return Ending(EndCode.SWITCH_FAILED, text, stop=True), run
    return None, run


def _after_measurement(
    run: TaskRun, seen: Observation, rule: SuccessRule
) -> tuple[Ending | None, TaskRun]:
    elapsed = seen.now - run.started
    if seen.measured >= run.started:  # of this run
        near = seen.error < rule.below
        since = min(run.near_since, seen.measured) if near else math.inf
        run = run._replace(near_since=since)
        if seen.measured - since >= rule.hold_s - ROUNDING_S:
            return Ending(EndCode.NONE, f'{run.task} succeeded after {elapsed:.1f} s'), run
    if seen.now - max(seen.measured, run.started) > SILENCE_S:
        return Ending(EndCode.NO_REPORT, _silence('the measurements'), stop=True), run
    if elapsed > rule.timeout_s:
        error = f'error {seen.error:.3g}, success below {rule.below:.3g}'
        text = f'no success within {rule.timeout_s:g} s: {error}'
        return Ending(EndCode.TIMEOUT, text, stop=True), run
    return None, run


def _silence(source: str) -> str:
    return f'nothing from {source} for {SILENCE_S:g} s'
