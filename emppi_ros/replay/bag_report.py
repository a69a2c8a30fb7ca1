"""`emppi report`: what a bag shows of a run, for the same plots as a demo's."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.core import config, weights
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.replay.bag_reader import Bag, Heard
from emppi_ros.robots.joints import select_joints
from emppi_ros.session.message_tables import NANO, read_cloud, stamp_ns, statuses
from emppi_ros.state.measurements import Measurements
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.viz.report.recording import RunObserver

Array = npt.NDArray[np.float64]
_TASK, _DIAGNOSTICS = 'emppi/task', '/diagnostics'
_MOVING = ('armed', 'moving')  # phases of the bridge


class Observed(NamedTuple):
    """What a bag shows."""

    task: Task
    observer: RunObserver
    truth: dict[str, float]  # true parameters, where a simulator tells them
    notes: list[str]  # what of the bag it leaves out, in words


def observe(bag: Bag) -> Observed:
    """
    Return what a bag shows.

    Time counts from when the bridge was first armed; where nothing says so, from the first
    joint state. Where the bag goes over to another task it ends.
    """
    text, started, truth, end = None, None, {}, None
    for heard in bag.messages({_TASK, _DIAGNOSTICS}):
        if heard.topic == _TASK and text is not None and not _goes_on(text, heard.data.data):
            end = heard.time_ns
            break
        if heard.topic == _TASK:
            text = heard.data.data
            continue
        for node, _, values in statuses(heard.data):
            if node == 'bridge' and started is None and values.get('state') in _MOVING:
                started = _seconds(heard.data)
            if node == 'simulator':
                truth |= _true(values)
    if text is None:
        found = ', '.join(sorted(bag.counts)) or 'no messages'
        raise ReplayError(f'{bag.path}: no {_TASK} in it; it holds: {found}')
    try:
        task = parse_task(text, 'task')
    except EmppiError as error:
        raise ReplayError(f'{bag.path}: the task in it can no longer be used: {error}') from None
    observer = _Ear(task, bag, started).hear(end)
    if not observer.rows['times']:
        raise ReplayError(
            f'{bag.path}: nothing to report: no joint states'
            + ''.join(f', or no tracking/{name}' for name in task.tracked)
        )
    notes = [bag.cut] if bag.cut else []
    if end is not None:
        seconds = (end - bag.span_ns[0]) * 1e-9
        notes.append(f'after {seconds:.2f} s it goes over to another task: shown is {task.name}')
    return Observed(task, observer, truth, notes)


def _goes_on(before: str, after: str) -> bool:
    """Return whether a task stays the same, but for numbers that were tuned."""
    if before == after:
        return True
    try:
        return tuning.is_tuned(config.parse(before, _TASK), config.parse(after, _TASK))
    except EmppiError:
        return False


def true_values(task: Task, truth: Mapping[str, float]) -> Array:
    """Return a task's true parameters (P,), NaN where nobody tells them."""
    return np.array([truth.get(parameter.name, np.nan) for parameter in task.parameters])


def _true(values: Mapping[str, str]) -> dict[str, float]:
    """Return the true parameters that a simulator tells."""
    prefix = 'true '
    return {k.removeprefix(prefix): float(v) for k, v in values.items() if k.startswith(prefix)}


class _Ear:
    """Gives the messages of a bag to an observer."""

    def __init__(self, task: Task, bag: Bag, started: float | None) -> None:
        self._task, self._bag, self._started = task, bag, started
        self._observer, self._measured = RunObserver(task), Measurements(task)
        self._joints = task.robot.topics.joint_states.removeprefix('/')
        tracked = {f'tracking/{name}': name for name in task.tracked}
        self._takes = {
            self._joints: self._take_joints,
            **dict.fromkeys(tracked, self._take_pose),
            'emppi/belief': self._take_belief,
            'emppi/plan': lambda heard: self._observer.record_plan(_seconds(heard.data)),
            'emppi/applied': lambda heard: self._observer.record_command(_seconds(heard.data)),
            _DIAGNOSTICS: self._take_diagnostics,
        }

    def hear(self, end: int | None) -> RunObserver:
        """Hear all of it, or what was recorded before `end` [ns]."""
        for heard in self._bag.messages(self._takes):
            if end is not None and heard.time_ns >= end:
                continue  # to the bag's end: it may be cut
            try:
                self._takes[heard.topic](heard)
            except EmppiError:  # as the nodes did: they say why in their diagnostics
                continue
        return self._observer

    def _take_joints(self, heard: Heard) -> None:
        message, stamp = heard.data, _seconds(heard.data)
        if self._observer.started is None and stamp >= (self._started or 0.0):
            self._observer.start(self._started or stamp)
        values = {'position': message.position, 'velocity': message.velocity}
        rows = select_joints(self._task.robot.joints, message.name, values)
        self._measured.joints(stamp, rows['position'], rows['velocity'])
        if np.isfinite(self._measured.estimator.stamp):
            self._observer.record_state(self._measured.estimator)

    def _take_pose(self, heard: Heard) -> None:
        p, q = heard.data.pose.position, heard.data.pose.orientation
        pose = Pose(np.array([p.x, p.y, p.z]), np.array([q.w, q.x, q.y, q.z]))
        name = heard.topic.removeprefix('tracking/')
        self._measured.pose(name, _seconds(heard.data), *pose)

    def _take_belief(self, heard: Heard) -> None:
        names, points = read_cloud(heard.data, heard.topic)
        if names != ['weight', *(p.name for p in self._task.parameters)]:
            return
        with np.errstate(divide='ignore'):
            belief = Belief(points[:, 1:], weights.normalize(np.log(points[:, 0])))
        self._observer.record_belief(_seconds(heard.data), belief)

    def _take_diagnostics(self, heard: Heard) -> None:
        for node, _, values in statuses(heard.data):
            self._observer.record_diagnostics(node, values)


def _seconds(message: Any) -> float:
    return stamp_ns(message.header.stamp) / NANO
