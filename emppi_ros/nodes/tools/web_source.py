"""The running graph as a source of the live page: what it sees, and what it may ask for."""

from collections.abc import Mapping
import contextlib
import math
import threading
import time
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from std_srvs.srv import SetBool, Trigger

from emppi_ros.core.errors import SwapError, ViewError
from emppi_ros.nodes.common import client_node, middleware
from emppi_ros.nodes.switching import client as asking
from emppi_ros.nodes.tools.graph_state import TAKES, Seeing
from emppi_ros.nodes.topics.task import TOPIC
from emppi_ros.tasks import switch_protocol, tuning
from emppi_ros.tasks.task import task_text
from emppi_ros.tasks.tuning import Value
from emppi_ros.viz.web.source import Snapshot

_POLL_S, _PICTURE_S = 0.01, 0.04
_ANSWER_S, _SWAP_S, _REST_S = 5.0, 20.0, 5.0


class Graph:
    """Listens from a node of its own; asks by the same services and parameters as anybody."""

    takes = tuple(TAKES)
    resets = (
        'the simulated robot and objects at their start (no real ones), disarmed; '
        'the belief at its prior'
    )

    def __init__(
        self, namespace: str = '', patience_s: float = 20.0, context: rclpy.Context | None = None
    ) -> None:
        """Wait for the task; ViewError if no planner says which."""
        middleware.set_up()
        self._own = context is None
        self._context = rclpy.Context() if context is None else context
        if self._own:
            self._context.init()
        self._namespace = namespace
        self._node = client_node.node('view', namespace, self._context)
        self.name = f'the ROS graph in namespace {self._node.get_namespace()}'
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._seeing = Seeing(self._node)
        self._switches = {
            name: self._node.create_client(SetBool, f'emppi/{name}') for name in ('arm', 'pause')
        }
        self._resets = {
            name: self._node.create_client(Trigger, name)
            for name in ('simulator/reset', 'emppi/reset_belief')
        }
        self._parameters = AsyncParameterClient(self._node, 'planner')
        self._watched, self._resetted, self._ending = False, 0, threading.Event()
        self._snapshot: Snapshot | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name='graph', daemon=True)
        self._thread.start()
        if not self._wait(lambda: self._snapshot is not None, patience_s):
            self.close()
            reason = self._seeing.problem or 'is a graph running, in this ROS domain?'
            raise ViewError(f'no task on {TOPIC} within {patience_s:g} s: {reason}')

    def look(self) -> Snapshot | None:
        """Return what is known now; ViewError once nothing is heard any more."""
        if self._failure is not None:
            raise ViewError(f'the graph is no longer heard ({self._failure!r}): start anew')
        return self._snapshot

    def watch(self, watched: bool) -> None:
        """Listen to what only pictures need, or no longer."""
        self._watched = watched

    def arm(self, armed: bool) -> None:
        """Call `emppi/arm`."""
        self._call(self._switches['arm'], SetBool.Request(data=armed))

    def pause(self, paused: bool) -> None:
        """Call `emppi/pause`."""
        self._call(self._switches['pause'], SetBool.Request(data=paused))

    def reset(self) -> None:
        """Disarm; at rest, reset simulator, if there is one, and belief."""
        self.arm(False)
        if not self._wait(lambda: self._seeing.figure('bridge', 'state') == 'inactive', _REST_S):
            raise ViewError(f'the arm is not at rest {_REST_S:g} s after it was disarmed')
        for name, client in self._resets.items():
            if name != 'simulator/reset' or client.service_is_ready():
                self._call(client, Trigger.Request())
        self._resetted += 1

    def tune(self, values: Mapping[str, Value]) -> None:
        """Set parameters of the planner, all or none."""
        tuning.tune(self._seeing.task.data, values)  # a wrong one is told here, with its range
        given = [
            Parameter(name, value=list(v) if isinstance(v, tuple) else float(v))
            for name, v in values.items()
        ]
        if not self._parameters.services_are_ready():
            raise ViewError('the planner is not there: nobody takes other numbers')
        answer = self._finish(self._parameters.set_parameters_atomically(given), 'planner')
        if not answer.result.successful:
            raise ViewError(answer.result.reason)

    def go_over(self, task: str) -> None:
        """Ask for another task, as `emppi task` does."""
        answer = asking.ask(task_text(task), self._namespace, _SWAP_S)
        if answer.said != switch_protocol.DONE:
            raise SwapError(f'{answer.said}: {answer.reason}')
        self._wait(lambda: self._snapshot.task.name == task, _ANSWER_S)  # what `look` returns

    def close(self) -> None:
        """Listen no more; the graph goes on."""
        self._ending.set()
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()
        if self._own:
            self._context.try_shutdown()

    def _call(self, client: Any, request: Any) -> None:
        """Call a service; ViewError with what it says if it refuses, or does not answer."""
        if not client.wait_for_service(1.0):
            raise ViewError(f'{client.srv_name}: nobody offers this service')
        answer = self._finish(client.call_async(request), client.srv_name)
        if not answer.success:
            raise ViewError(answer.message)

    def _finish(self, future: Any, what: str) -> Any:
        if not self._wait(future.done, _ANSWER_S):
            raise ViewError(f'{what}: no answer within {_ANSWER_S:g} s')
        return future.result()

    def _wait(self, condition: Any, limit_s: float) -> bool:
        """Wait, while the thread listens; return whether the condition came to hold."""
        end = time.monotonic() + limit_s
        while not (held := bool(condition())) and time.monotonic() < end:
            time.sleep(_POLL_S)
        return held

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # an old picture must not pass for the robot as it is
            self._failure = error

    def _work(self) -> None:
        shown = -math.inf
        while not self._ending.is_set():
            with contextlib.suppress(rclpy.executors.ExternalShutdownException):
                self._executor.spin_once(timeout_sec=_POLL_S)
            self._seeing.poll()
            task, shown_task = self._seeing.task, self._snapshot and self._snapshot.task
            due = self._watched or task is not shown_task
            if task is not None and due and time.monotonic() > shown + _PICTURE_S:
                shown = time.monotonic()
                self._snapshot = self._seeing.picture(self._watched, self._resetted)
            if not self._watched:
                self._seeing.hush()
        self._seeing.hush()
