"""
The node `task_server`: runs a task for the action `emppi/run_task`, and publishes `emppi/status`.

It needs the package `emppi_msgs`; the robot does not need this node. A goal switches the task
as `emppi task` does, and then waits for success. The node never arms the robot. It pauses the
bridge when a goal is canceled, or ends without success while the robot follows plans.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import math
import time
from typing import Any

from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action.server import ActionServer, CancelResponse, GoalResponse
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool

from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError, EmppiError, StaleInputError
from emppi_ros.nodes.common import convert, interfaces, parameters, qos
from emppi_ros.nodes.common.clock_sync import create_steady_timer
from emppi_ros.nodes.common.diagnostics import OK, WARN, Report
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.nodes.task_server import task_run
from emppi_ros.nodes.task_server.task_run import EndCode, Ending, RunObservation, RunPhase
from emppi_ros.nodes.topics.belief_cloud import BeliefSubscriber
from emppi_ros.nodes.topics.named_belief import estimates
from emppi_ros.nodes.topics.task import ANSWERS, REQUEST, STAGE, TaskFollowerNode
from emppi_ros.recordings.message_tables import statuses
from emppi_ros.state.estimated_scene import EstimatedScene
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

    handle: Any  # ServerGoalHandle
    run: task_run.TaskRun
    request: str  # to switch the task; '' without
    reply: SwitchReply | None = None
    pause: 'Future[SetBool.Response] | None' = None  # requested when the goal ended
    paused_by: float = math.inf  # when to stop waiting for it
    feedback_at: float = -math.inf


class DeferredActionServer(ActionServer):  # type: ignore[type-arg]  # not generic in Jazzy
    """
    Offers an action whose accepted goals execute until `finish`.

    The usual callback of rclpy would have to wait for the end: in a thread of its own, or as a
    coroutine that keeps the executor busy all the time.
    """

    begin: Callable[[Any], None]  # called with the handle of each accepted goal

    def notify_execute(self, goal_handle: Any, execute_callback: object) -> None:
        """Begin with a goal that is now executing; rclpy calls this."""
        self.begin(goal_handle)

    def finish(self, goal_handle: Any, success: bool, result: object) -> None:
        """End a goal as succeeded, canceled or aborted, and send its result."""
        if success:
            goal_handle.succeed()
        elif goal_handle.is_cancel_requested:
            goal_handle.canceled()
        else:
            goal_handle.abort()
        super().notify_execute(goal_handle, lambda _goal: result)


class RunInputs:
    """Measurements and belief, subscribed only while a goal is active."""

    def __init__(self, node: Node, task: Task) -> None:
        self._task, self._scene = task, EstimatedScene(task)
        self._measurements = MeasurementInputs(node, task)
        self._belief = BeliefSubscriber(node, task)

    def close(self) -> None:
        """Unsubscribe."""
        self._measurements.close()
        self._belief.close()

    def measure(self) -> tuple[float, float]:
        """Return the task's error in the newest state, and its stamp [s]; (NaN, -inf) without."""
        self._measurements.poll()
        estimator = self._measurements.estimator
        try:
            stamp = estimator.stamp
            state, tracks = estimator.state(stamp), estimator.tracks(stamp)
        except StaleInputError:
            return math.nan, -math.inf
        data = self._scene.update(state, tracks, self._belief.latest)
        return float(self._task.error(self._scene.model, data)), float(stamp)

    def estimates(self) -> list[Any]:
        """Return the messages of the parameters' estimates, without any before a belief."""
        belief = self._belief.latest
        return [] if belief is None else estimates(self._task.parameters, belief)


class TaskServerNode(TaskFollowerNode):
    """Runs one goal at a time."""

    def __init__(self, **kwargs: Any) -> None:
        if not interfaces.AVAILABLE:
            raise ConfigError(interfaces.MISSING)
        super().__init__('task_server', **kwargs)
        self._settings = parameters.declare_all(self, TaskServerParameters)
        self._bridge, self._stage = task_run.BridgeReport(), ''  # as reported last
        self._status: dict[str, object] = {}
        self._reported = self._status_at = -math.inf  # when they came and went
        self._goal: _Goal | None = None
        self._inputs: RunInputs | None = None
        self._switches, self._runs = 0, 0
        self._stepped_at = self._resumed_at = -math.inf  # by the steady clock
        self.create_subscription(String, ANSWERS, self._take_reply, qos.DEFAULT)
        self.create_subscription(String, STAGE, self._take_stage, qos.LATCHED)
        self.create_subscription(
            DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT
        )
        self._statuses = self.create_publisher(interfaces.Status, 'emppi/status', qos.LATCHED)
        self._requests = self.create_publisher(String, REQUEST, qos.DEFAULT)
        self._pause: Client[Any, Any] = self.create_client(SetBool, 'emppi/pause')
        self._server = DeferredActionServer(
            self,
            interfaces.RunTask,
            RUN_TASK,
            lambda _goal: None,
            goal_callback=self._accept,
            cancel_callback=lambda _goal: CancelResponse.ACCEPT,
        )
        self._server.begin = self._begin
        create_steady_timer(self, _STEP_S, self._step)

    def setup(self) -> None:
        """Take the task."""
        self.task: Task = self.follow.take()

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
        if self._goal.run.ending is not None:
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

    def _begin(self, handle: Any) -> None:
        goal, self._runs = handle.request, self._runs + 1
        try:
            text = switch_protocol.request(
                goal.task or (self.follow.text if goal.prior else ''), goal.prior
            )
        except EmppiError as error:
            text, ending = '', Ending(EndCode.REFUSED, switch_protocol.explain(error))
            run = task_run.TaskRun(time.monotonic(), False, ending=ending)
        else:
            run = task_run.TaskRun(time.monotonic(), bool(text))
        self._goal = _Goal(handle, run, switch_protocol.tagged(text) if text else '')

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
            file = self.task.file
            timeout = convert.to_seconds(goal.handle.request.timeout) or file.duration_s
            goal.run = task_run.advance(goal.run, observation, file.success, timeout)
            if goal.run.phase is not phase and goal.run.phase is RunPhase.SWITCHING:
                self._requests.publish(String(data=goal.request))
            if (ending := goal.run.ending) is not None:
                self._finish(goal, ending)
            elif now >= goal.feedback_at + period:
                goal.feedback_at = now
                goal.handle.publish_feedback(self._feedback(goal, observation, inputs))
        self._publish_status(period)

    def _publish_status(self, period: float) -> None:
        """Publish the status if it has changed, or if the last one is older than a period [s]."""
        now = time.monotonic()
        silent = now - self._reported > task_run.SILENCE_S
        bridge = task_run.BridgeReport() if silent else self._bridge
        values = {
            'code': int(bridge.code),
            'message': bridge.message,
            'fault': bridge.fault,
            'armed': bridge.armed,
            'task': self.task.name if self.state in ('inactive', 'active') else '',
            'stage': self._stage,
            'running': self._goal is not None,
        }
        if values == self._status and now < self._status_at + period:
            return
        self._status, self._status_at = values, now
        status = interfaces.Status(**values)
        status.header.stamp = self.get_clock().now().to_msg()
        self._statuses.publish(status)

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for name, status, values in statuses(message, self.get_namespace()):
            if name == 'bridge':
                self._bridge = task_run.read_report(status.message, values)
                self._reported = time.monotonic()

    def _take_stage(self, message: String) -> None:
        self._stage = message.data

    def _observe(self, goal: _Goal, inputs: RunInputs) -> RunObservation:
        error, measured = inputs.measure()
        return RunObservation(
            self.now(),
            time.monotonic(),
            self._bridge,
            max(self._reported, self._resumed_at),
            goal.reply,
            error,
            measured,
            self.task.name,
            switch_protocol.digest(self.follow.text),
            self._switches,
            goal.handle.is_cancel_requested,
        )

    def _finish(self, goal: _Goal, ending: Ending) -> None:
        """Pause the robot if it still follows plans; then send the result."""
        text, now = ending.message, time.monotonic()
        if ending.stop:
            if goal.pause is None and self._pause.service_is_ready():
                goal.pause = self._pause.call_async(SetBool.Request(data=True))
                goal.paused_by = now + _PAUSE_S
            if goal.pause is not None and not goal.pause.done() and now < goal.paused_by:
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
        result.time = self._elapsed(goal)
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

    def _elapsed(self, goal: _Goal) -> Duration:
        return convert.to_duration(max(0.0, self.now() - goal.run.started))

    def _feedback(self, goal: _Goal, observation: RunObservation, inputs: RunInputs) -> Any:
        feedback = interfaces.RunTask.Feedback(stage=self._stage, error=observation.error)
        feedback.time = self._elapsed(goal)
        running = goal.run.phase is RunPhase.RUNNING
        feedback.message = self._bridge.message if running else goal.run.phase.value
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
