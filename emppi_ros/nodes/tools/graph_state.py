"""Collect the state of the ROS graph for the web page."""

import math
import time

from diagnostic_msgs.msg import DiagnosticArray
import mujoco
from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.diagnostics import OK
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.markers.inputs import InputSelection, MarkerInputs
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.session.message_tables import statuses
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.viz.shapes.task_shapes import DisplayState
from emppi_ros.viz.web.source import Snapshot

_SILENT_S = 3.0  # diagnostics come once a second
LATENCIES = {'plan': ('planner', 'plan_ms_p50'), 'bridge': ('bridge', 'latency_ms_p50')}


class GraphState:
    """State of the graph: task, stage and diagnostics always, the rest only while watched."""

    def __init__(self, node: Node) -> None:
        """Subscribe."""
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
        self._diagnostics: dict[str, tuple[float, bytes, str, dict[str, str]]] = {}

    def poll(self) -> None:
        """Process received messages."""
        for topic in self._topics:
            topic.poll()

    def unsubscribe(self) -> None:
        """Drop the subscriptions that only the page needs."""
        if self._inputs is not None:
            self._inputs.close()
            self._inputs = None

    def snapshot(self, watched: bool, run: int) -> Snapshot:
        """Return the current state; state, belief and plan only while watched."""
        task, display, problem = self.task, None, ''
        if watched and self._inputs is None:
            self._inputs = MarkerInputs(
                self._node, task, InputSelection(plan=True, candidates=True), lambda _: None
            )
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
        silent = [n for n, last in self._diagnostics.items() if now - last[0] > _SILENT_S]
        notes = [self.problem, problem, *(f'{name} is silent' for name in silent)]
        notes += [f'{n}: {last[2]}' for n, last in self._diagnostics.items() if last[1] != OK]
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
        return self._diagnostics[node][3].get(name, '') if node in self._diagnostics else ''

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
        for name, status, values in statuses(message):
            self._diagnostics[name] = time.monotonic(), status.level, status.message, values


def _number(text: str) -> float:
    """Return a number of the diagnostics; NaN if there is none."""
    return float(text) if text else math.nan
