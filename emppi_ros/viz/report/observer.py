"""Takes down a run by what is heard of it, and judges success: from live messages or a bag."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.core import weights
from emppi_ros.core.errors import StaleInputError
from emppi_ros.session.hold_timer import Held
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.recording import Recording

Array = npt.NDArray[np.float64]
_STEP_S = 0.02  # between two recorded states


class Observer:
    """Takes down a run, from the call of `start` on; times [s] are stamps."""

    def __init__(self, task: Task) -> None:
        """Know nothing yet."""
        self._task, self._data = task, mujoco.MjData(task.model)
        self.diagnostics: dict[str, Mapping[str, str]] = {}  # by node, as last said
        self.belief: Belief | None = None
        self.success_time: float | None = None
        self.started: float | None = None
        self._held = Held()
        self.rows: dict[str, list[Any]] = defaultdict(list)
        self._first: Mapping[str, str] = {}

    def start(self, now: float) -> None:
        """Record from now on; the clock counts from here."""
        self.started = now
        self._first = self.diagnostics.get('planner', {})
        self.rows.clear()

    def see(self, estimator: Estimator) -> None:
        """Take down the newest estimated state, and judge it."""
        if self.started is None:
            return
        stamp = estimator.stamp
        last = self.rows['times'][-1] if self.rows['times'] else -np.inf
        time = stamp - self.started
        if time < max(0.0, last + _STEP_S - 1e-6):
            return
        try:
            state = estimator.state(stamp)
        except StaleInputError:
            return
        self._data.qpos[:], self._data.qvel[:] = state
        mujoco.mj_forward(self._task.model, self._data)
        error = self._task.error(self._task.model, self._data)
        for name, value in (('times', time), ('qpos', state.qpos), ('error', error)):
            self.rows[name].append(value)
        success = self._task.file.success
        reached = self._held.note(error < success.below, time, success.hold_s)
        if reached and self.success_time is None:
            self.success_time = time

    def believe(self, stamp: float, belief: Belief) -> None:
        """Take what is believed."""
        self.belief = belief
        self.rows['beliefs'].append((stamp - (self.started or 0.0), belief))

    def plan(self, start: float) -> None:
        """Take it that there is a plan."""
        self.rows['plans'].append(start)

    def applied(self, stamp: float) -> None:
        """Take it that something was commanded."""
        self.rows['applied'].append(stamp)

    def diagnose(self, node: str, values: Mapping[str, str]) -> None:
        """Take what a node says of itself."""
        self.diagnostics[node] = values
        if node == 'planner' and self.started is not None:
            self.rows['plan_ms'] += map(float, values.get('plan_ms_recent', '').split())

    def summarize(self, truth: Array) -> tuple[dict[str, Any], Recording]:
        """Return the figures of the run, and its recording; `truth` (P,) is NaN if unknown."""
        task, rows = self._task, self.rows
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
            summary['parameters'] = figures(task, self.belief, truth)
        return summary, record

    def _since_start(self, key: str) -> float:
        last = self.diagnostics.get('planner', {})
        return float(last.get(key, 0.0)) - float(self._first.get(key, 0.0))

    def _recording(self, truth: Array) -> Recording:
        rows, beliefs = self.rows, self.rows['beliefs']
        ess = [weights.effective_sample_size(belief.log_weights) for _, belief in beliefs]
        return Recording(
            times=np.array(rows['times']),
            qpos=np.array(rows['qpos']).reshape(-1, self._task.model.nq),
            error=np.array(rows['error']),
            plan_ms=np.array(rows['plan_ms']),
            bridge_period_ms=1e3 * np.diff(rows['applied']),
            truth=truth,
            ess=np.array(ess),
            **belief_series(beliefs, len(truth)),
        )


def belief_series(beliefs: list[tuple[float, Belief]], parameters: int) -> dict[str, Array]:
    """Return the times and beliefs of a recording of P parameters."""
    shape = (len(beliefs), len(beliefs[0][1].theta) if beliefs else 0)
    logs = np.array([belief.log_weights for _, belief in beliefs]).reshape(shape)
    return {
        'belief_times': np.array([time for time, _ in beliefs]),
        'belief_theta': np.array([b.theta for _, b in beliefs]).reshape(*shape, parameters),
        'belief_weights': np.exp(logs),
    }


def figures(task: Task, belief: Belief, truth: Array) -> dict[str, dict[str, float]]:
    """Return mean, standard deviation and true value of every parameter, by name."""
    mean = weights.mean(belief.log_weights, belief.theta)
    sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, belief.theta)))
    return {
        p.name: {'mean': float(mean[i]), 'sd': float(sd[i]), 'true': float(truth[i])}
        for i, p in enumerate(task.parameters)
    }


def _quantiles(values: Array) -> dict[str, float | None]:
    """Return the median and the 99th percentile; null if there is nothing."""
    if not len(values):
        return {'p50': None, 'p99': None}
    return {'p50': float(np.quantile(values, 0.5)), 'p99': float(np.quantile(values, 0.99))}
