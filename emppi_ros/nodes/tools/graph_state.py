"""What is heard of the running graph, as the live page sees it."""

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
from emppi_ros.nodes.markers.inputs import Ears, Wanted
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.session.message_tables import statuses
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.viz.shapes.layers import Seen
from emppi_ros.viz.web.source import Snapshot

_SILENT_S = 3.0  # diagnostics come once a second
TAKES = {'plan': ('planner', 'plan_ms_p50'), 'bridge': ('bridge', 'latency_ms_p50')}


class Seeing:
    """Follows the task, the stage and the diagnostics; all else while it is watched."""

    def __init__(self, node: Node) -> None:
        """Subscribe."""
        self._node = node
        heard = (
            (String, TOPIC, self._take_task, qos.LATCHED),
            (String, STAGE, self._take_stage, qos.LATCHED),
            (DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT),
        )
        self._topics = [PolledSubscription(node, *entry) for entry in heard]
        self.task: Task | None = None
        self.problem, self.runs = '', 0  # with the task on the topic; tasks so far
        self._ears: Ears | None = None
        self._stage, self._first = '', math.nan
        self._said: dict[str, tuple[float, bytes, str, dict[str, str]]] = {}

    def poll(self) -> None:
        """Take what has arrived."""
        for topic in self._topics:
            topic.poll()

    def hush(self) -> None:
        """Listen to nothing that only pictures need."""
        if self._ears is not None:
            self._ears.close()
            self._ears = None

    def picture(self, watched: bool, run: int) -> Snapshot:
        """Return what is known now; all of it only while watched."""
        task, seen, problem = self.task, None, ''
        if watched and self._ears is None:
            self._ears = Ears(self._node, task, Wanted(plan=True, candidates=True), lambda _: None)
        try:
            seen = None if self._ears is None else self._ears.hear()
        except EmppiError as error:  # what is missing, or cannot be used
            problem = str(error)
        state = seen.state if seen is not None else task.start()
        data = mujoco.MjData(task.model)
        data.qpos[:], data.qvel[:] = state
        mujoco.mj_forward(task.model, data)
        stages = {stage.name for stage in task.stages}
        now = time.monotonic()
        silent = [n for n, said in self._said.items() if now - said[0] > _SILENT_S]
        notes = [self.problem, problem, *(f'{name} is silent' for name in silent)]
        notes += [f'{n}: {said[2]}' for n, said in self._said.items() if said[1] != OK]
        return Snapshot(
            task,
            self.runs + run,
            self._since(seen),
            state.qpos.copy(),
            data.mocap_quat.copy(),
            None,
            seen,
            self._stage if self._stage in stages else task.stages[0].name,
            task.error(task.model, data) if seen is not None else math.nan,
            _number(self.figure('belief', 'ess')),
            {name: _number(self.figure(*where)) for name, where in TAKES.items()},
            self.figure('bridge', 'state') or 'no bridge is heard',
            self.figure('bridge', 'armed') == 'True',
            self.figure('bridge', 'paused') == 'True',
            tuple(filter(None, notes)),
        )

    def _since(self, seen: Seen | None) -> float:
        """Return the time since the first picture [s]."""
        if seen is None:
            return 0.0
        self._first = seen.stamp if math.isnan(self._first) else self._first
        return seen.stamp - self._first

    def figure(self, node: str, name: str) -> str:
        """Return a figure that a node said of itself, '' if it did not."""
        return self._said[node][3].get(name, '') if node in self._said else ''

    def _take_task(self, message: String) -> None:
        try:
            data = config.parse(message.data, TOPIC)
            if self.task is not None and tuning.is_tuned(self.task.data, data):
                self.task = self.task.tuned(data)
                return
            self.task, self.problem = parse_task(message.data, TOPIC), ''
        except EmppiError as error:  # the last good one stays
            self.problem = str(error)
            return
        self.hush()
        self.runs += 1

    def _take_stage(self, message: String) -> None:
        self._stage = message.data

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for name, status, values in statuses(message):
            self._said[name] = time.monotonic(), status.level, status.message, values


def _number(text: str) -> float:
    """Return a figure of the diagnostics; NaN where there is none."""
    return float(text) if text else math.nan
