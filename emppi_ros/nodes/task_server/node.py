"""
The node `task_server`: runs a task for the action `emppi/run_task`, and publishes `emppi/status`.

It needs the package `emppi_msgs`; the robot does not need this node. A goal switches the task
as `emppi task` does, and then waits for success. The node never arms the robot. It pauses the
bridge when a goal is canceled, or ends without success while the robot follows plans.
"""

from collections.abc import Mapping
from dataclasses import dataclass
import math
import sys
import time
from typing import Any, Unpack

from rclpy.action.server import GoalResponse
from rclpy.client import Client
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert, interfaces, process, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Report
from emppi_ros.nodes.common.lifecycle import NodeArguments
from emppi_ros.nodes.common.parameters import declare_all
from emppi_ros.nodes.switching.task_switch import REQUEST
from emppi_ros.nodes.task_server import task_run
from emppi_ros.nodes.task_server.action_server import DeferredActionServer, GoalHandle
from emppi_ros.nodes.task_server.inputs import RunInputs
from emppi_ros.nodes.task_server.status import StatusPublisher
from emppi_ros.nodes.task_server.task_run import (
    EndCode,
    Ending,
    RunObservation,
    RunPhase,
    SuccessRule,
    TaskRun,
)
from emppi_ros.nodes.topics.task import ANSWERS, TaskFollowerNode
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.switch_protocol import SwitchReply
from emppi_ros.tasks.task import Task

RUN_TASK = 'emppi/run_task'
_STEP_S = 0.05  # between two checks of a goal
_GAP_S = 1.0  # between two checks, after which this node was held up itself
_PAUSE_S = 2.0  # in which the bridge confirms a pause


@dataclass(frozen=True)
class TaskServerParameters:
    """Parameters of the node."""

    rate_hz: float = config.between(0.5, 20.0, 5.0, doc='feedback and status messages per second')


@dataclass
class _Goal:
    """The active goal."""

    handle: GoalHandle
    run: TaskRun
    timeout_s: float  # 0: duration_s of the task
    request: str  # to switch the task; '' without
    reply: SwitchReply | None = None
    pause: 'Future[SetBool.Response] | None' = None  # requested when the goal ended
    paused_by: float = math.inf  # when to stop waiting for it
    feedback_at: float = -math.inf


class TaskServerNode(TaskFollowerNode):
    """Runs one goal at a time."""

    def __init__(self, **kwargs: Unpack[NodeArguments]) -> None:
        interfaces.require()
        super().__init__('task_server', **kwargs)
        self._settings = declare_all(self, TaskServerParameters)
        self._status = StatusPublisher(self)
        self._goal: _Goal | None = None
        self._inputs: RunInputs | None = None
        self._switches, self._runs = 0, 0
        self._stepped_at = self._resumed_at = -math.inf  # by the steady clock
        self.create_subscription(String, ANSWERS, self._take_reply, qos.DEFAULT)
        self._requests = self.create_publisher(String, REQUEST, qos.DEFAULT)
        self._pause: Client[SetBool.Request, SetBool.Response] = self.create_client(
            SetBool, 'emppi/pause'
        )
        self._server = DeferredActionServer(
            self, interfaces.RunTask, RUN_TASK, self._accept, self._begin
        )
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_STEP_S, self._step, clock=steady)

    def setup(self) -> None:
        """Take the task."""
        self.task: Task = self.follow.take()

    def start(self) -> None:
        """Accept goals."""

    def stop(self) -> None:
        """Accept no more goals, and end the active one."""
        super().stop()
        self._end_early('the node was deactivated')

    def restart(self) -> None:
        """End the active goal: its times are void."""
        self._end_early('/clock was set back')

    def teardown(self) -> None:
        """Release the task."""
        self._close_inputs()
        super().teardown()

    def swap_task(self) -> None:
        """Take the new task; an active goal goes on, or notes that the task has changed."""
        self._close_inputs()
        self.task = self.follow.take()
        self._switches += 1

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Take the new numbers."""
        self.task = self.task.tuned(data)

    def report(self) -> Report:
        """Return whether a goal is active."""
        doing = self._describe_goal()
        values = {'goals': self._runs, 'goal': doing}
        if self.follow.changed:
            return Report(WARN, self.follow.changed, values)
        return Report(OK, doing, values)

    def _describe_goal(self) -> str:
        if self._goal is None:
            return 'no goal'
        phase = self._goal.run.phase
        if phase is RunPhase.ENDED:
            return 'pausing the robot'
        return f'running {self.task.name}' if phase is RunPhase.RUNNING else phase.value

    def _accept(self, request: Any) -> GoalResponse:
        """Accept a goal unless another one is active; an action has no field for the reason."""
        problem = ''
        if self.state != 'active':
            problem = f'the node is {self.state}'
        elif self._goal is not None:
            problem = 'another goal is active: cancel it, or wait for its end'
        elif (timeout := convert.to_seconds(request.timeout)) < 0.0:
            problem = f'timeout: found {timeout:g} s, expected a positive time, or 0'
        if problem:
            self.get_logger().warning(f'{RUN_TASK}: goal rejected: {problem}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _begin(self, handle: GoalHandle) -> None:
        """Start with the accepted goal."""
        goal, self._runs = handle.request, self._runs + 1
        try:
            text = switch_protocol.request(
                goal.task or (self.follow.text if goal.prior else ''), goal.prior
            )
        except EmppiError as error:
            text, problem = '', switch_protocol.explain(error)
            run = TaskRun(time.monotonic(), False, RunPhase.ENDED)
            run = run._replace(ending=Ending(EndCode.REFUSED, problem))
        else:
            run = TaskRun(time.monotonic(), bool(text))
        request = switch_protocol.tagged(text) if text else ''
        self._goal = _Goal(handle, run, convert.to_seconds(goal.timeout), request)

    def _step(self) -> None:
        """Check the active goal, and publish feedback and status if they are due."""
        goal, period, now = self._goal, 1.0 / self._settings.rate_hz, time.monotonic()
        if now > self._stepped_at + _GAP_S:
            self._resumed_at = now  # messages that wait have not been received yet
        self._stepped_at = now
        if goal is not None:
            if self._inputs is None:  # at the start, and after a switch of the task
                self._inputs = RunInputs(self, self.task)
            inputs, phase = self._inputs, goal.run.phase
            observation = self._observe(goal, inputs)
            goal.run = task_run.advance(goal.run, observation, self._rule(goal))
            if goal.run.phase is not phase and goal.run.phase is RunPhase.SWITCHING:
                self._requests.publish(String(data=goal.request))
            if (ending := goal.run.ending) is not None:
                self._finish(goal, ending)
            elif now >= goal.feedback_at + period:
                goal.feedback_at = now
                goal.handle.publish_feedback(self._feedback(goal, observation, inputs))
        task = self.task.name if self.state in ('inactive', 'active') else ''
        self._status.publish(task, self._goal is not None, period)

    def _observe(self, goal: _Goal, inputs: RunInputs) -> RunObservation:
        error, measured = inputs.measure()
        return RunObservation(
            self.now(),
            time.monotonic(),
            self._status.bridge,
            max(self._status.reported, self._resumed_at),
            goal.reply,
            error,
            measured,
            self.task.name,
            switch_protocol.digest(self.follow.text),
            self._switches,
            goal.handle.is_cancel_requested,
        )

    def _rule(self, goal: _Goal) -> SuccessRule:
        file = self.task.file
        timeout = goal.timeout_s or file.duration_s
        return SuccessRule(file.success.below, file.success.hold_s, timeout)

    def _finish(self, goal: _Goal, ending: Ending) -> None:
        """Pause the robot if it still follows plans; then send the result."""
        if ending.stop and goal.pause is None and self._pause.service_is_ready():
            goal.pause = self._pause.call_async(SetBool.Request(data=True))
            goal.paused_by = time.monotonic() + _PAUSE_S
        text = ending.message
        if ending.stop:
            if goal.pause is not None and not goal.pause.done():
                if time.monotonic() < goal.paused_by:
                    return
            text += f'; {_outcome(goal.pause)}'
        self._send_result(goal, ending, text)

    def _send_result(self, goal: _Goal, ending: Ending, text: str) -> None:
        if ending.success:  # rclpy wants one line of code per severity
            self.get_logger().info(f'{RUN_TASK}: {text}')
        else:
            self.get_logger().warning(f'{RUN_TASK}: {text}')
        result = interfaces.RunTask.Result(
            success=ending.success, error_code=int(ending.code), message=text, task=self.task.name
        )
        result.time = convert.to_duration(self._elapsed(goal))
        if self._inputs is not None:
            result.parameters = self._inputs.estimates()
        self._server.finish(goal.handle, ending.success, result)
        self._goal = None
        self._close_inputs()

    def _end_early(self, reason: str) -> None:
        """End the active goal at once, and ask for a pause without waiting for it."""
        if self._goal is None:
            return
        if self._pause.service_is_ready():
            self._pause.call_async(SetBool.Request(data=True))
        ending = Ending(EndCode.CANCELED, reason)
        self._send_result(self._goal, ending, f'{reason}; a pause of the robot was requested')

    def _elapsed(self, goal: _Goal) -> float:
        started = goal.run.started
        return max(0.0, self.now() - started) if math.isfinite(started) else 0.0

    def _feedback(self, goal: _Goal, observation: RunObservation, inputs: RunInputs) -> Any:
        feedback = interfaces.RunTask.Feedback(stage=self._status.stage, error=observation.error)
        feedback.time = convert.to_duration(self._elapsed(goal))
        running = goal.run.phase is RunPhase.RUNNING
        feedback.message = self._status.bridge.message if running else goal.run.phase.value
        feedback.parameters = inputs.estimates()
        return feedback

    def _close_inputs(self) -> None:
        if self._inputs is not None:
            self._inputs.close()
        self._inputs = None

    def _take_reply(self, message: String) -> None:
        reply, goal = switch_protocol.read_reply(message.data), self._goal
        if reply is None or goal is None or reply.said not in switch_protocol.RESULTS:
            return
        if goal.request and reply.about == switch_protocol.digest(goal.request):
            goal.reply = reply


def _outcome(pause: 'Future[SetBool.Response] | None') -> str:
    """Return in words what came of the request to pause."""
    if pause is None:
        return 'no bridge to pause the robot'
    answer = pause.result() if pause.done() else None
    if answer is None:
        return f'the bridge did not confirm the pause within {_PAUSE_S:g} s'
    return 'the robot is paused' if answer.success else answer.message


def main() -> None:
    """Run the node, without a lower priority: it stops the robot when a goal is canceled."""
    sys.exit(process.run(TaskServerNode))
