"""The running ROS graph as a source of the web page."""

from collections.abc import Callable, Mapping
import contextlib
import math
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import mujoco
from rclpy.client import Client
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError, SwapError, ViewError
from emppi_ros.nodes.common import process, qos
from emppi_ros.nodes.common.diagnostics import OK
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.markers.inputs import OPTIONAL, MarkerInputs
from emppi_ros.nodes.planner import task_switch
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.recordings.message_tables import statuses
from emppi_ros.tasks import switch_protocol, tuning
from emppi_ros.tasks.task import Task, parse_task, task_text
from emppi_ros.tasks.tuning import Value
from emppi_ros.viz.shapes.task_shapes import DisplayState
from emppi_ros.viz.web.robot_source import Snapshot

_SILENT_S = 3.0  # diagnostics come once a second
_POLL_S, _SNAPSHOT_S = 0.01, 0.04
_ANSWER_S, _SWAP_S, _REST_S = 5.0, 20.0, 5.0
LATENCIES = {'plan': ('planner', 'plan_ms_p50'), 'bridge': ('bridge', 'latency_ms_p50')}


class GraphState:
    """State of the graph: task, stage and diagnostics always, the rest only while watched."""

    def __init__(self, node: Node) -> None:
        self._node = node
        topics = (
            (String, TOPIC, self._take_task, qos.LATCHED),
            (String, STAGE, self._take_stage, qos.LATCHED),
            (DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT),
        )
        self._topics = [PolledSubscription(node, *entry) for entry in topics]
        self.task: Task | None = None
        self.problem, self.runs = '', 0  # of the received task; number of tasks so far
        self._inputs: MarkerInputs | None = None
        self._stage, self._first = '', math.nan
        self._received: dict[str, float] = {}  # when, by node that publishes diagnostics
        self._statuses: dict[str, tuple[bytes, str]] = {}
        self._values: dict[str, dict[str, str]] = {}

    def poll(self) -> None:
        """Process received messages."""
        for topic in self._topics:
            topic.poll()

    def unsubscribe(self) -> None:
        """Drop the subscriptions that only the page needs."""
        if self._inputs is not None:
            self._inputs.close()
            self._inputs = None

    def snapshot(self, task: Task, watched: bool, run: int) -> Snapshot:
        """Return the current state of the task; state, belief and plan only while watched."""
        display, problem = None, ''
        if watched and self._inputs is None:
            self._inputs = MarkerInputs(self._node, task, OPTIONAL, lambda _: None)
        try:
            display = None if self._inputs is None else self._inputs.read()
        except EmppiError as error:  # a missing or unusable input
            problem = str(error)
        state = display.state if display is not None else task.start()
        data = mujoco.MjData(task.model)
        data.qpos[:], data.qvel[:] = state
        mujoco.mj_forward(task.model, data)
        stages = {stage.name for stage in task.stages}
        now = time.monotonic()
        notes = [self.problem, problem]
        notes += [f'{n} is silent' for n, at in self._received.items() if now - at > _SILENT_S]
        notes += [f'{n}: {said}' for n, (level, said) in self._statuses.items() if level != OK]
        return Snapshot(
            task,
            self.runs + run,
            self._clock(display),
            state.qpos.copy(),
            data.mocap_quat.copy(),
            None,
            display,
            self._stage if self._stage in stages else task.stages[0].name,
            task.error(task.model, data) if display is not None else math.nan,
            _number(self.value('belief', 'ess')),
            {name: _number(self.value(*where)) for name, where in LATENCIES.items()},
            self.value('bridge', 'state') or 'no bridge',
            self.value('bridge', 'armed') == 'True',
            self.value('bridge', 'paused') == 'True',
            tuple(filter(None, notes)),
        )

    def _clock(self, display: DisplayState | None) -> float:
        """Return the time since the first complete state [s]."""
        if display is None:
            return 0.0
        self._first = display.stamp if math.isnan(self._first) else self._first
        return display.stamp - self._first

    def value(self, node: str, name: str) -> str:
        """Return a value of a node's diagnostics, '' if there is none."""
        return self._values.get(node, {}).get(name, '')

    def _take_task(self, message: String) -> None:
        try:
            data = config.parse(message.data, TOPIC)
            if self.task is not None and tuning.is_tuned(self.task.data, data):
                self.task = self.task.tuned(data)
                return
            self.task, self.problem = parse_task(message.data, TOPIC), ''
        except EmppiError as error:  # the last valid one stays
            self.problem = str(error)
            return
        self.unsubscribe()
        self.runs += 1

    def _take_stage(self, message: String) -> None:
        self._stage = message.data

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for name, status, values in statuses(message, self._node.get_namespace()):
            self._received[name], self._values[name] = time.monotonic(), values
            self._statuses[name] = status.level, status.message


def _number(text: str) -> float:
    """Return a number of the diagnostics; NaN if there is none."""
    return float(text) if text else math.nan


class RosSource:
    """A node that observes the graph and controls it by its public services and parameters."""

    latency_names = tuple(LATENCIES)
    reset_effect = (
        'the simulated robot and objects (not real ones) to their start, disarmed, '
        'and the belief to its prior'
    )

    def __init__(
        self, namespace: str = '', patience_s: float = 20.0, domain: int | None = None
    ) -> None:
        """Wait for the task; ViewError if no planner publishes it in time."""
        self._namespace = namespace
        self._client = process.CommandNode('view', namespace, domain)
        self._node = self._client.node
        self.name = f'the ROS graph in namespace {self._node.get_namespace()}'
        self._graph = GraphState(self._node)
        services = {'emppi/arm': SetBool, 'emppi/pause': SetBool}
        services |= {'simulator/reset': Trigger, 'emppi/reset_belief': Trigger}
        self._clients: dict[str, Client[Any, Any]] = {
            name: self._node.create_client(kind, name) for name, kind in services.items()
        }
        self._parameters = AsyncParameterClient(self._node, 'planner')
        self._watched, self._reset_count, self._ending = False, 0, threading.Event()
        self._snapshot: Snapshot | None = None
        self._shown = -math.inf
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name='graph', daemon=True)
        self._thread.start()
        if not self._wait(lambda: self._snapshot is not None, patience_s):
            self.close()
            reason = self._graph.problem or 'is a graph running in this ROS domain?'
            raise ViewError(f'no task on {TOPIC} within {patience_s:g} s: {reason}')

    def snapshot(self) -> Snapshot | None:
        """Return the current state; ViewError once the subscriptions have failed."""
        if self._failure is not None:
            raise ViewError(
                f'lost the connection to the graph ({self._failure!r}): restart `emppi view`'
            )
        return self._snapshot

    def set_watched(self, watched: bool) -> None:
        """Subscribe to what only the page needs, or unsubscribe."""
        self._watched = watched

    def arm(self, armed: bool) -> None:
        """Call `emppi/arm`."""
        self._call('emppi/arm', SetBool.Request(data=armed))

    def pause(self, paused: bool) -> None:
        """Call `emppi/pause`."""
        self._call('emppi/pause', SetBool.Request(data=paused))

    def reset(self) -> None:
        """Disarm; once at rest, reset the simulator, if there is one, and the belief."""
        self.arm(False)
        if not self._wait(lambda: self._graph.value('bridge', 'state') == 'inactive', _REST_S):
            raise ViewError(f'the arm did not come to rest within {_REST_S:g} s of being disarmed')
        if self._clients['simulator/reset'].service_is_ready():
            self._call('simulator/reset', Trigger.Request())
        self._call('emppi/reset_belief', Trigger.Request())
        self._reset_count += 1

    def tune(self, values: Mapping[str, Value]) -> None:
        """Set parameters of the planner, all or none."""
        if (task := self._graph.task) is not None:
            tuning.tune(task.data, values)  # checks names and ranges
        parameters = [
            Parameter(name, value=list(v) if isinstance(v, tuple) else float(v))
            for name, v in values.items()
        ]
        if not self._parameters.services_are_ready():
            raise ViewError('no planner is running: parameters cannot be changed')
        answer = self._finish(self._parameters.set_parameters_atomically(parameters), 'planner')
        if not answer.result.successful:
            raise ViewError(answer.result.reason)

    def switch_task(self, task: str) -> None:
        """Switch to another task, as `emppi task` does."""
        answer = task_switch.request_switch(task_text(task), self._namespace, _SWAP_S)
        if answer.said != switch_protocol.DONE:
            raise SwapError(f'{answer.said}: {answer.reason}')
        # until it is in the snapshot
        self._wait(lambda: self._snapshot and self._snapshot.task.name == task, _ANSWER_S)

    def close(self) -> None:
        """Disconnect; the graph keeps running."""
        self._ending.set()
        self._thread.join()
        self._client.close()

    def _call(self, name: str, request: Any) -> None:
        """Call a service; ViewError if it refuses or does not answer."""
        client = self._clients[name]
        if not client.wait_for_service(1.0):
            raise ViewError(f'{client.srv_name}: service not available')
        answer = self._finish(client.call_async(request), client.srv_name)
        if not answer.success:
            raise ViewError(answer.message)

    def _finish(self, future: 'Future[Any]', what: str) -> Any:
        if not self._wait(future.done, _ANSWER_S):
            raise ViewError(f'{what}: no answer within {_ANSWER_S:g} s')
        return future.result()

    def _wait(self, condition: Callable[[], object], limit_s: float) -> bool:
        """Wait for a condition on the thread's data; return whether it came to hold."""
        end = time.monotonic() + limit_s
        while not (held := bool(condition())) and time.monotonic() < end:
            time.sleep(_POLL_S)
        return held

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                with contextlib.suppress(ExternalShutdownException):
                    self._client.executor.spin_once(timeout_sec=_POLL_S)
                self._update()
        except Exception as error:  # an old snapshot must not pass for the current state
            self._failure = error
        self._graph.unsubscribe()

    def _update(self) -> None:
        self._graph.poll()
        task, shown_task = self._graph.task, self._snapshot and self._snapshot.task
        due = self._watched or task is not shown_task
        if task is not None and due and time.monotonic() > self._shown + _SNAPSHOT_S:
            self._shown = time.monotonic()
            self._snapshot = self._graph.snapshot(task, self._watched, self._reset_count)
        if not self._watched:
            self._graph.unsubscribe()
