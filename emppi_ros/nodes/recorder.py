"""The recorder: listens to a running graph, and judges success by what it hears."""

from collections import defaultdict
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import mujoco
import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import JointState, PointCloud2
from trajectory_msgs.msg import JointTrajectory

from emppi_ros import weights
from emppi_ros.belief.particles import Belief
from emppi_ros.errors import EmppiError, StaleInputError
from emppi_ros.loop.held import Held
from emppi_ros.nodes import cloud, convert, qos
from emppi_ros.nodes.believing import BELIEF
from emppi_ros.nodes.inputs import APPLIED, Inputs
from emppi_ros.nodes.polling import PolledSubscription
from emppi_ros.report.recording import Recording
from emppi_ros.tasks.task import Task

_STEP_S = 0.02  # between two recorded states


class Recorder:
    """Takes down a run, from the call of `start` on."""

    def __init__(self, node: Node, task: Task) -> None:
        """Subscribe."""
        self._task, self._data = task, mujoco.MjData(task.model)
        self._inputs = Inputs(node, task)
        self._subscriptions = [
            PolledSubscription(node, PointCloud2, BELIEF, self._take_belief, qos.EVERY),
            PolledSubscription(node, JointTrajectory, 'emppi/plan', self._take_plan, qos.DEFAULT),
            PolledSubscription(node, JointState, APPLIED, self._take_applied, qos.DEFAULT),
            PolledSubscription(
                node, DiagnosticArray, '/diagnostics', self._take_diagnostics, qos.DEFAULT
            ),
        ]
        self.diagnostics: dict[str, dict[str, str]] = {}  # by node, as last said
        self.messages: dict[str, str] = {}
        self.belief: Belief | None = None
        self.success_time: float | None = None
        self.started: float | None = None
        self._held = Held()
        self._rows: dict[str, list[Any]] = defaultdict(list)
        self._first: dict[str, str] = {}

    @property
    def complete(self) -> bool:
        """Whether everything that is to be recorded has been heard, and the belief learns."""
        updates = int(self.diagnostics.get('belief', {}).get('updates', 0))
        return (
            all(self._rows[name] for name in ('plans', 'applied', 'beliefs'))
            and {'planner', 'bridge', 'simulator'} <= set(self.diagnostics)
            and np.isfinite(self._inputs.estimator.stamp)
            and (updates > 0 or not self._task.parameters)
        )

    @property
    def problem(self) -> str:
        """Why a node could not be configured or activated, or ''."""
        problems = ((name, values.get('problem')) for name, values in self.diagnostics.items())
        return '; '.join(f'{name}: {problem}' for name, problem in problems if problem)

    @property
    def fault(self) -> str:
        """Code of the fault for which the bridge holds the arm, or is about to; or ''."""
        return self.diagnostics.get('bridge', {}).get('fault', '')

    def start(self, now: float) -> None:
        """Record from now on; the clock counts from here."""
        self.started = now
        self._first = dict(self.diagnostics.get('planner', {}))
        self._rows.clear()

    def poll(self) -> None:
        """Take what has arrived."""
        self._inputs.poll()
        for subscription in self._subscriptions:
            subscription.poll()
        if self.started is not None:
            self._record()

    def _record(self) -> None:
        """Take down the newest estimated state, and judge it."""
        stamp = self._inputs.estimator.stamp
        last = self._rows['times'][-1] if self._rows['times'] else -np.inf
        time = stamp - self.started
        if time < max(0.0, last + _STEP_S - 1e-6):
            return
        try:
            state = self._inputs.estimator.state(stamp)
        except StaleInputError:
            return
        self._data.qpos[:], self._data.qvel[:] = state
        mujoco.mj_forward(self._task.model, self._data)
        error = self._task.error(self._task.model, self._data)
        for name, value in (('times', time), ('qpos', state.qpos), ('error', error)):
            self._rows[name].append(value)
        success = self._task.file.success
        reached = self._held.note(error < success.below, time, success.hold_s)
        if reached and self.success_time is None:
            self.success_time = time

    def _take_belief(self, message: PointCloud2) -> None:
        try:
            self.belief = cloud.read_belief(self._task, message)
        except EmppiError:  # the planner says why in its diagnostics
            return
        time = convert.to_seconds(message.header.stamp) - (self.started or 0.0)
        self._rows['beliefs'].append((time, self.belief))

    def _take_plan(self, message: JointTrajectory) -> None:
        self._rows['plans'].append(convert.to_seconds(message.header.stamp))

    def _take_applied(self, message: JointState) -> None:
        self._rows['applied'].append(convert.to_seconds(message.header.stamp))

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.removeprefix('emppi: ')
            values = {pair.key: pair.value for pair in status.values}
            self.diagnostics[name], self.messages[name] = values, status.message
            if name == 'planner' and self.started is not None:
                self._rows['plan_ms'] += map(float, values.get('plan_ms_recent', '').split())

    def summarize(self, truth: npt.NDArray[np.float64]) -> tuple[dict[str, Any], Recording]:
        """Return the figures of the run, and its recording."""
        task, rows = self._task, self._rows
        record = self._recording(truth)
        plans = rows['plans']
        summary: dict[str, Any] = {
            'task': task.name,
            'success': self.success_time is not None,
            'time_s': self.success_time or (rows['times'][-1] if rows['times'] else 0.0),
            'rate_hz': (len(plans) - 1) / (plans[-1] - plans[0]) if len(plans) > 1 else 0.0,
            'plan_ms': _quantiles(record.plan_ms),
            'deadline_misses': self._since_start('deadline_misses')
            / max(self._since_start('cycles'), 1.0),
            'bridge_period_ms': _quantiles(record.bridge_period_ms),
            'bridge_latency_ms': {  # from a joint state's stamp to the command, as it says itself
                name: float(self.diagnostics.get('bridge', {}).get(f'latency_ms_{name}', 'nan'))
                for name in ('p50', 'p99')
            },
            'belief_updates': len(rows['beliefs']),
            'ess_min': float(self.diagnostics.get('belief', {}).get('ess_min', 'nan')),
            'parameters': {},
        }
        if self.belief is not None:
            mean = weights.mean(self.belief.log_weights, self.belief.theta)
            sd = np.sqrt(np.diag(weights.covariance(self.belief.log_weights, self.belief.theta)))
            summary['parameters'] = {
                p.name: {'mean': float(mean[i]), 'sd': float(sd[i]), 'true': float(truth[i])}
                for i, p in enumerate(task.parameters)
            }
        return summary, record

    def _since_start(self, key: str) -> float:
        last = self.diagnostics.get('planner', {})
        return float(last.get(key, 0.0)) - float(self._first.get(key, 0.0))

    def _recording(self, truth: npt.NDArray[np.float64]) -> Recording:
        rows, beliefs, task = self._rows, self._rows['beliefs'], self._task
        shape = (len(beliefs), len(beliefs[0][1].theta) if beliefs else 0)
        theta = np.array([belief.theta for _, belief in beliefs]).reshape(*shape, len(truth))
        log_weights = np.array([belief.log_weights for _, belief in beliefs]).reshape(shape)
        return Recording(
            times=np.array(rows['times']),
            qpos=np.array(rows['qpos']).reshape(-1, task.model.nq),
            error=np.array(rows['error']),
            belief_times=np.array([time for time, _ in beliefs]),
            belief_theta=theta,
            belief_weights=np.exp(log_weights),
            plan_ms=np.array(rows['plan_ms']),
            bridge_period_ms=1e3 * np.diff(rows['applied']),
            truth=truth,
            ess=np.array([weights.effective_sample_size(row) for row in log_weights]),
        )


def _quantiles(values: npt.NDArray[np.float64]) -> dict[str, float | None]:
    """Return the median and the 99th percentile; null if there is nothing."""
    if not len(values):
        return {'p50': None, 'p99': None}
    return {'p50': float(np.quantile(values, 0.5)), 'p99': float(np.quantile(values, 0.99))}
