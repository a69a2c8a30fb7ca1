"""
Likelihood of recordings for each of many particles, from the predictions of the belief.

A particle follows a recording as in a belief that is never resampled: it predicts from one
observation to the next, and continues from measured joints, and from its corrected prediction of
tracked objects (`belief/measurement_model.py`): one Kalman filter per particle, whose gain is the
task's `object_gain`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.belief import measurement_model, noise
from emppi_ros.belief.belief_monitor import normalized_innovations
from emppi_ros.belief.measurement_model import LONGEST_S, Deviation, Predictor
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.pose import Pose
from emppi_ros.journal.journal import Measurements
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import uniform
from emppi_ros.recordings import matching
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands, TimeSeries
from emppi_ros.tasks.task import Task

_MIN_OBSERVATIONS = 10


class BeliefData(NamedTuple):
    """The stamped observations of a recording, and its commands."""

    observations: list[tuple[float, Observation]]
    commands: Commands


class RecordingLikelihood:
    """The likelihood of recordings of one system for N particles; every call starts afresh."""

    def __init__(
        self, task: Task, data: Sequence[BeliefData], particles: int, threads: int = 0
    ) -> None:
        self._likelihood, self._window = task.belief.likelihood, task.belief.window
        self._data = data
        self._predictor = Predictor(task, particles, threads)

    def log_likelihood(self, theta: Array) -> Array:
        """Return the log likelihood (N,) of particles (N, P), up to a common constant."""
        total = np.zeros(len(theta))
        for data in self._data:
            recent: Array | None = None
            for predicted, deviations in self._follow(theta, data):
                summed, recent = noise.sum_window(deviations, self._window, recent)
                each = measurement_model.log_likelihoods(self._likelihood, predicted, summed)
                total += each.sum(axis=1) / self._window
        return total

    def innovations(self, theta: Array) -> dict[str, float]:
        """Return mean square innovations of quantities for particles (N, P); 1 is expected."""
        log_weights, innovations = uniform(theta).log_weights, dict[str, list[Array]]()
        for data in self._data:
            for _, deviations in self._follow(theta, data):
                for quantity, values in normalized_innovations(log_weights, deviations).items():
                    innovations.setdefault(quantity, []).append(values)
        return {name: float(np.mean(np.concatenate(v) ** 2)) for name, v in innovations.items()}

    def _follow(self, theta: Array, data: BeliefData) -> Iterator[tuple[State, list[Deviation]]]:
        """Yield the predictions of each observation, and their deviations from it."""
        predictor = self._predictor
        predictor.write(theta)
        last: tuple[float, State] | None = None
        for stamp, observation in data.observations:
            fitted, before = predictor.fit(observation), last
            last = stamp, fitted
            if before is None or stamp - before[0] > LONGEST_S:
                continue
            predicted = predictor.predict(before, stamp, data.commands)
            yield predicted, predictor.compare(predicted, observation)
            elapsed = stamp - before[0]
            last = stamp, predictor.correct(predicted, observation, fitted, elapsed)


def build(task: Task, recording: Recording) -> BeliefData:
    """Return the observations of a recording, as in the node; IdentificationError if too few."""
    _check(task, recording)
    signals = recording.signals
    joints = [
        signals[kind, name] for kind in ('position', 'velocity') for name in task.robot.joints
    ]
    commands = [s for (kind, _), s in signals.items() if kind == 'command']
    places = {name: signals['pose', name] for name in task.tracked}
    used = [*joints, *commands, *places.values()]
    begin, end = max(s.time[0] for s in used), min(s.time[-1] for s in used)
    times = joints[0].time
    first = max(np.searchsorted(times, begin, side='right') - 1, 0)
    times = times[first : np.searchsorted(times, end) + 1]  # and the nearest outside
    rows = np.column_stack([np.interp(times, s.time, s.values) for s in joints])
    measurements = Measurements(task)
    # keep all of them
    measurements.applied = TimeSeries('applied commands', span_s=np.inf, reach_s=np.inf)
    for stamp, row in _commands(task, commands):
        measurements.add_command(stamp, row)
    poses = [
        (float(stamp), name, Pose(*np.split(row, [3])))
        for name, signal in places.items()
        for stamp, row in zip(signal.time, signal.values, strict=True)
        if begin <= stamp <= end
    ]
    poses.sort(key=lambda pose: pose[0])
    observations = _observations(measurements, times, rows, poses)
    if len(observations) < _MIN_OBSERVATIONS:
        raise IdentificationError(
            f'unsynchronised: {len(observations)} observations from {begin:.6g} to {end:.6g} s, '
            f'which all signals cover; expected {_MIN_OBSERVATIONS} or more: record longer, on '
            'one clock'
        )
    return BeliefData(observations, measurements.applied)


def _check(task: Task, recording: Recording) -> None:
    """Raise IdentificationError unless the belief can learn from this recording."""
    if task.stages and any(stage.grasp for stage in task.stages):
        raise IdentificationError(
            f'task {task.name!r} grasps in some of its stages, which recordings do not contain: '
            'use a task without stages'
        )
    bodies = {name: settings.body for name, settings in task.tracked.items()}
    matching.check_names(recording, task.model, bodies)
    for name in task.robot.joints:
        if ('velocity', name) not in recording.signals:
            raise IdentificationError(
                f'joint {name!r}: its velocity was not recorded, and predictions start with it: '
                'record it, or use --method states'
            )
    for name in task.tracked:
        if ('pose', name) not in recording.signals:
            raise IdentificationError(
                f'the task tracks {name!r}, whose pose was not recorded; recorded poses: '
                f'{recording.listed("pose")}'
            )
    for signal in recording.signals.values():
        if signal.kind == 'torque':
            raise IdentificationError(
                f'{signal.where}: external forces are not an input of this method: leave the '
                'column out, or use --method states'
            )
        if signal.kind == 'position':
            matching.check_motion(recording, signal)


def _commands(task: Task, signals: Sequence[Signal]) -> list[tuple[float, Array]]:
    """Return stamped commands, in the order of the commanded joints; each holds until the next."""
    times = np.unique(np.concatenate([signal.time for signal in signals]))
    times = times[times >= max(signal.time[0] for signal in signals)]
    rows = np.empty((len(times), task.model.nu))
    for signal in signals:
        last = np.searchsorted(signal.time, times, side='right') - 1
        rows[:, matching.find_actuator(task.model, signal)] = signal.values[last]
    return list(zip(times.tolist(), rows[:, task.map.ctrl], strict=True))


def _observations(
    measurements: Measurements, times: Array, rows: Array, poses: Sequence[tuple[float, str, Pose]]
) -> list[tuple[float, Observation]]:
    """Return the observations: joint readings are added up to each pose, and one beyond it."""
    task, estimator = measurements.task, measurements.estimator
    readings = iter(zip(times.tolist(), rows, strict=True))
    observations: list[tuple[float, Observation]] = []
    if not task.tracked:
        for stamp, row in readings:
            measurements.add_joints(stamp, *np.split(row, 2))
            if not observations or stamp - observations[-1][0] >= task.belief.interval_s - 1e-9:
                observations.append((stamp, estimator.observation(stamp)))
        return observations
    for stamp, name, pose in poses:
        while estimator.joints_stamp < stamp:
            reading, row = next(readings)
            measurements.add_joints(reading, *np.split(row, 2))
        taken = estimator.add_pose(name, stamp, pose)
        if taken is not None and np.isfinite(estimator.stamp):
            observations.append((stamp, estimator.observation(stamp, name, taken)))
    return observations
