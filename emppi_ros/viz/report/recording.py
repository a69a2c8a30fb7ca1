"""Records of runs: the data of plots and videos, from a closed loop, live messages or a bag."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from emppi_ros.app.trace import Trace
from emppi_ros.belief import belief_monitor, explanations
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.model.parameters import with_parameters
from emppi_ros.priors.particles import Belief
from emppi_ros.recordings.message_tables import NANO, read_cloud, stamp_ns, statuses
from emppi_ros.state import articulation
from emppi_ros.state.estimated_scene import EstimatedScene
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.task import Task

_STEP_S = 0.02  # between two recorded states
_PLAN, _APPLIED, _BELIEF = 'emppi/plan', 'emppi/applied', 'emppi/belief'
_DIAGNOSTICS = '/diagnostics'
TOPICS = _PLAN, _APPLIED, _BELIEF, _DIAGNOSTICS  # that an observer takes
_CHANGED = 'changed '  # before the name of a parameter, in diagnostics


@dataclass(frozen=True)
class RunRecord:
    """Time series of a run; times [s] count from its start, durations are in milliseconds."""

    times: Array  # (n,)
    qpos: Array  # (n, nq) true positions
    error: Array  # (n,) norm of the success residual
    belief_times: Array  # (b,)
    belief_theta: Array  # (b, M, P)
    belief_weights: Array  # (b, M), each row sums to 1
    plan_ms: Array  # (c,)
    bridge_period_ms: Array  # (k,), empty without a bridge on the wall clock
    truth_times: Array  # (k,) from when on the values below hold
    truths: Array  # (k, P) true parameters, NaN if unknown
    ess: Array  # (b,) effective sample size before resampling
    changes: tuple[tuple[float, str], ...] = ()  # time and parameter of each detected change
    success_s: float | None = None  # time of success

    def until_success(self) -> 'RunRecord':
        """Return the record up to success: all of it without one."""
        if self.success_s is None:
            return self
        end = self.success_s + 1e-9
        series = {
            'times': ('times', 'qpos', 'error'),
            'belief_times': ('belief_times', 'belief_theta', 'belief_weights', 'ess'),
            'truth_times': ('truth_times', 'truths'),
        }
        shorter: dict[str, Any] = {
            name: getattr(self, name)[getattr(self, times) <= end]
            for times, names in series.items()
            for name in names
        }
        changes = tuple(change for change in self.changes if change[0] <= end)
        return dataclasses.replace(self, **shorter, changes=changes)

    @property
    def truth(self) -> Array:
        """The true parameters (P,) at the end of the run."""
        return self.truths[-1]

    def belief_at(self, time: float) -> Belief:
        """Return the last belief up to a time [s], or the first one."""
        row = max(int(np.searchsorted(self.belief_times, time, side='right')) - 1, 0)
        with np.errstate(divide='ignore'):  # a weight of 0 is a log weight of -inf
            return Belief(self.belief_theta[row], np.log(self.belief_weights[row]))

    def row_at(self, time: float) -> int:
        """Return the row of the first state from a time [s] on, or of the last one."""
        return min(int(np.searchsorted(self.times, time)), len(self.times) - 1)

    def truth_at(self, time: float) -> Array:
        """Return the true parameters (P,) at a time [s]."""
        return self.truths[max(int(np.searchsorted(self.truth_times, time, side='right')) - 1, 0)]


def of_trace(trace: Trace) -> RunRecord:
    """Return the record of a closed loop's trace."""
    frames = trace.frames
    return RunRecord(
        times=np.array([frame.time for frame in frames]),
        qpos=np.array([frame.qpos for frame in frames]),
        error=np.array([frame.error for frame in frames]),
        plan_ms=1e3 * np.array(trace.plan_s),
        bridge_period_ms=np.empty(0),
        truth_times=np.array([time for time, _ in trace.truths]),
        truths=np.array([theta for _, theta in trace.truths]),
        ess=np.array(trace.ess),
        changes=tuple((change.stamp, change.parameter) for change in trace.changes),
        success_s=trace.success_time,
        **belief_series(trace.beliefs, len(trace.truth)),
    )


class RunObserver:
    """Records a run from its messages and judges success; times [s] are stamps."""

    def __init__(self, task: Task) -> None:
        """Record nothing until `start`."""
        self._task, self._scene = task, EstimatedScene(task)
        self.diagnostics: dict[str, Mapping[str, str]] = {}  # by node, the latest
        self.messages: dict[str, str] = {}  # of their diagnostics
        self.belief: Belief | None = None
        self.success_time: float | None = None
        self.started: float | None = None
        self._held = HoldTimer()
        self.rows: dict[str, list[Any]] = defaultdict(list)
        self._first: Mapping[str, str] = {}
        self._changes: dict[tuple[str, str], None] = {}  # stamps and parameters, in order
        self._truths: list[tuple[float, dict[str, float]]] = []  # that a simulator published

    def start(self, now: float) -> None:
        """Record from now on; recorded times count from here."""
        self.started = now
        self._first = self.diagnostics.get('planner', {})
        self.rows.clear()

    def record_state(self, estimator: Estimator) -> None:
        """Record the newest estimated state, and check success."""
        if self.started is None:
            return
        stamp = estimator.stamp
        last = self.rows['times'][-1] if self.rows['times'] else -np.inf
        time = stamp - self.started
        if time < max(0.0, last + _STEP_S - 1e-6):
            return
        try:
            state, tracks = estimator.state(stamp), estimator.tracks(stamp)
        except StaleInputError:
            return
        data = self._scene.update(state, tracks, self.belief)
        error = self._task.error(self._scene.model, data)
        row = ('times', time), ('qpos', state.qpos), ('tracks', tracks), ('error', error)
        for name, value in row:
            self.rows[name].append(value)
        success = self._task.file.success
        reached = self._held.update(error < success.below, time, success.hold_s)
        if reached and self.success_time is None:
            self.success_time = time

    def record_belief(self, stamp: float, belief: Belief) -> None:
        """Record a belief."""
        self.belief = belief
        self.rows['beliefs'].append((stamp - (self.started or 0.0), belief))

    def take(self, topic: str, message: Any, namespace: str = '') -> None:
        """Record a message of TOPICS as ROS or a bag gives it; an invalid belief is ignored."""
        stamp = stamp_ns(message.header.stamp) / NANO
        if topic == _BELIEF:
            with contextlib.suppress(EmppiError):  # the planner reports it in its diagnostics
                names, points = read_cloud(message, topic)
                if names == ['weight', *(p.name for p in self._task.parameters)]:
                    with np.errstate(divide='ignore'):
                        logs = weights.normalize(np.log(points[:, 0]))
                    self.record_belief(stamp, Belief(points[:, 1:], logs))
        elif topic == _DIAGNOSTICS:
            for node, status, values in statuses(message, namespace):
                self.messages[node] = status.message
                self.record_diagnostics(node, stamp, values)
        else:
            self.rows[topic].append(stamp)

    def record_diagnostics(self, node: str, stamp: float, values: Mapping[str, str]) -> None:
        """Record the diagnostics of a node."""
        self.diagnostics[node] = values
        if node == 'simulator':
            truth = _true_values(values)
            if truth and not (self._truths and truth == self._truths[-1][1]):
                self._truths.append((stamp, truth))
        if node == 'belief':
            for key, text in values.items():
                if key.startswith(_CHANGED):
                    self._changes[text, key.removeprefix(_CHANGED)] = None
        if node == 'planner' and self.started is not None:
            self.rows['plan_ms'] += map(float, values.get('plan_ms_recent', '').split())

    @property
    def changes(self) -> tuple[tuple[float, str], ...]:
        """Time [s] since the start and parameter of each change that was detected after it."""
        stamps = ((float(text) - (self.started or 0.0), name) for text, name in self._changes)
        return tuple(sorted(pair for pair in stamps if pair[0] >= 0.0))

    def truths(self, task: Task) -> dict[str, Array]:
        """Return the fields of a record that hold the true parameters of a task."""
        names = [parameter.name for parameter in task.parameters]
        published = [
            (max(stamp - (self.started or 0.0), 0.0), [truth.get(name, np.nan) for name in names])
            for stamp, truth in self._truths
        ] or [(0.0, [np.nan] * len(names))]
        since = max(sum(time == 0.0 for time, _ in published) - 1, 0)  # the newest at the start
        return {
            'truth_times': np.array([time for time, _ in published[since:]]),
            'truths': np.array([values for _, values in published[since:]]),
        }

    def summarize(self) -> tuple[dict[str, Any], RunRecord]:
        """Return the summary of the run and its record."""
        task, rows = self._task, self.rows
        record = self._record()
        plans, doubts = rows[_PLAN], self.diagnostics.get('belief', {})
        summary: dict[str, Any] = {
            'task': task.name,
            'success': self.success_time is not None,
            'time_s': self.success_time or (rows['times'][-1] if rows['times'] else 0.0),
            'rate_hz': (len(plans) - 1) / (plans[-1] - plans[0]) if len(plans) > 1 else 0.0,
            'plan_ms': _quantiles(record.plan_ms),
            # the cycle during which recording starts is not counted, but may miss its deadline
            'deadline_misses': min(
                1.0, self._since_start('deadline_misses') / max(self._since_start('cycles'), 1.0)
            ),
            'bridge_period_ms': _quantiles(record.bridge_period_ms),
            'bridge_latency_ms': {  # from a joint state's stamp to the command
                name: float(self.diagnostics.get('bridge', {}).get(f'latency_ms_{name}', 'nan'))
                for name in ('p50', 'p99')
            },
            'belief_updates': len(rows['beliefs']),
            'late_measurements': explanations.late_share(doubts),
            'ess_min': float(doubts.get('ess_min', 'nan')),
            'misfit': _names(doubts, 'misfit'),
            'collapsed': _names(doubts, 'collapsed'),
            'reinjected': int(doubts.get('reinjected', 0)),
            'changes': [
                {'parameter': name, 'time_s': round(time, 3)} for time, name in record.changes
            ],
            'unresolved': [],
            'parameters': {},
        }
        if self.belief is not None:
            summary['parameters'] = belief_monitor.parameter_summary(
                task, self.belief, record.truth
            )
            summary['unresolved'] = belief_monitor.unresolved(task.prior, self.belief)
            for flag in ('out_of_prior', 'unidentifiable'):
                for name, values in summary['parameters'].items():
                    values[flag] = name in _names(doubts, flag)
        return summary, record

    def _since_start(self, key: str) -> float:
        last = self.diagnostics.get('planner', {})
        return float(last.get(key, 0.0)) - float(self._first.get(key, 0.0))

    def _record(self) -> RunRecord:
        rows, beliefs = self.rows, self.rows['beliefs']
        ess = [weights.effective_sample_size(belief.log_weights) for _, belief in beliefs]
        return RunRecord(
            times=np.array(rows['times']),
            qpos=self._positions(),
            error=np.array(rows['error']),
            plan_ms=np.array(rows['plan_ms']),
            bridge_period_ms=1e3 * np.diff(rows[_APPLIED]),
            ess=np.array(ess),
            changes=self.changes,
            success_s=self.success_time,
            **self.truths(self._task),
            **belief_series(beliefs, len(self._task.parameters)),
        )

    def _positions(self) -> Array:
        """Return the positions (n, nq), of drawers and doors those of the true joint if known."""
        task, rows = self._task, self.rows
        qpos = np.array(rows['qpos']).reshape(-1, task.model.nq)
        truth = self.truths(task)['truths']
        if not task.jointed or not np.isfinite(truth[-1]).all():
            return qpos
        model = with_parameters(task.model, task.parameters, truth[-1])
        for name, item in task.jointed.items():
            joint = articulation.for_model(model, item)
            for row, tracks in zip(qpos, rows['tracks'], strict=True):
                ((row[item.qpos],), _) = articulation.fit(item, joint, tracks[name])
        return qpos


def belief_series(beliefs: Sequence[tuple[float, Belief]], parameters: int) -> dict[str, Array]:
    """Return the fields of a record that hold beliefs about P parameters."""
    shape = (len(beliefs), len(beliefs[0][1].theta) if beliefs else 0)
    logs = np.array([belief.log_weights for _, belief in beliefs]).reshape(shape)
    return {
        'belief_times': np.array([time for time, _ in beliefs]),
        'belief_theta': np.array([b.theta for _, b in beliefs]).reshape(*shape, parameters),
        'belief_weights': np.exp(logs),
    }


def _true_values(values: Mapping[str, str]) -> dict[str, float]:
    """Return the true parameters in a simulator's diagnostics."""
    prefix = 'true '
    return {k.removeprefix(prefix): float(v) for k, v in values.items() if k.startswith(prefix)}


def _names(values: Mapping[str, str], key: str) -> list[str]:
    """Return the names in a value of diagnostics."""
    return [name for name in values.get(key, '').split(', ') if name]


def _quantiles(values: Array) -> dict[str, float | None]:
    """Return the median and the 99th percentile; None without values."""
    if not len(values):
        return {'p50': None, 'p99': None}
    return {'p50': float(np.quantile(values, 0.5)), 'p99': float(np.quantile(values, 0.99))}
