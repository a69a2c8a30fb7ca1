"""`emppi report`: the record of a run from a bag, for the same plots as a demo."""

from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core import config, weights
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.core.pose import Pose
from emppi_ros.journal.journal import Measurements
from emppi_ros.priors.particles import Belief
from emppi_ros.recordings.bag_reader import Bag, BagMessage
from emppi_ros.recordings.message_tables import NANO, read_cloud, stamp_ns, statuses
from emppi_ros.robots.robot import select_joints
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.viz.report.recording import RunObserver

_TASK, _DIAGNOSTICS = 'emppi/task', '/diagnostics'
_MOVING = ('armed', 'moving')  # states of the bridge


class BagRun(NamedTuple):
    """The run that a bag contains."""

    task: Task
    observer: RunObserver
    notes: list[str]  # on parts of the bag that are left out


def observe(bag: Bag) -> BagRun:
    """
    Return the run that a bag contains.

    Times count from when the bridge was first armed, or from the first joint state if that was
    not recorded. The run ends where the task is switched.
    """
    text, started, end = None, None, None
    for message in bag.messages({_TASK, _DIAGNOSTICS}):
        if message.topic == _TASK and text is not None and not _same_task(text, message.data.data):
            end = message.time_ns
            break
        if message.topic == _TASK:
            text = message.data.data
            continue
        for node, _, values in statuses(message.data, bag.namespace):
            if node == 'bridge' and started is None and values.get('state') in _MOVING:
                started = _seconds(message.data)
    if text is None:
        topics = ', '.join(sorted(bag.counts)) or 'no messages'
        raise ReplayError(f'{bag.path}: it has no {_TASK}; it contains: {topics}')
    try:
        task = parse_task(text, 'task')
    except EmppiError as error:
        raise ReplayError(f'{bag.path}: its task is no longer valid: {error}') from None
    observer = _BagObserver(task, bag, started).observe(end)
    if not observer.rows['times']:
        raise ReplayError(
            f'{bag.path}: nothing to report: no joint states'
            + ''.join(f', or no tracking/{name}' for name in task.tracked)
        )
    notes = [bag.cut] if bag.cut else []
    if end is not None:
        seconds = (end - bag.span_ns[0]) * 1e-9
        notes.append(f'the task was switched after {seconds:.2f} s: only {task.name} is shown')
    return BagRun(task, observer, notes)


def _same_task(before: str, after: str) -> bool:
    """Return whether two task messages differ at most in tuned parameters."""
    if before == after:
        return True
    try:
        return tuning.is_tuned(config.parse(before, _TASK), config.parse(after, _TASK))
    except EmppiError:
        return False


class _BagObserver:
    """Passes the messages of a bag to an observer."""

    def __init__(self, task: Task, bag: Bag, started: float | None) -> None:
        self._task, self._bag, self._started = task, bag, started
        self._observer, self._measured = RunObserver(task), Measurements(task)
        self._joints = task.robot.topics.joint_states.removeprefix('/')
        tracked = {f'tracking/{name}': name for name in task.tracked}
        self._takes = {
            self._joints: self._take_joints,
            **dict.fromkeys(tracked, self._take_pose),
            'emppi/belief': self._take_belief,
            'emppi/plan': lambda message: self._observer.record_plan(_seconds(message.data)),
            'emppi/applied': lambda message: self._observer.record_command(_seconds(message.data)),
            _DIAGNOSTICS: self._take_diagnostics,
        }

    def observe(self, end: int | None) -> RunObserver:
        """Observe all messages, or those recorded before `end` [ns]."""
        for message in self._bag.messages(self._takes):
            if end is not None and message.time_ns >= end:
                continue  # reading on detects a truncated end
            try:
                self._takes[message.topic](message)
            except EmppiError:  # the nodes ignored it too, and reported it in their diagnostics
                continue
        return self._observer

    def _take_joints(self, received: BagMessage) -> None:
        message, stamp = received.data, _seconds(received.data)
        if self._observer.started is None and stamp >= (self._started or 0.0):
            self._observer.start(self._started or stamp)
        values = {'position': message.position, 'velocity': message.velocity}
        rows = select_joints(self._task.robot.joints, message.name, values)
        self._measured.add_joints(stamp, rows['position'], rows['velocity'])
        if np.isfinite(self._measured.estimator.stamp):
            self._observer.record_state(self._measured.estimator)

    def _take_pose(self, message: BagMessage) -> None:
        p, q = message.data.pose.position, message.data.pose.orientation
        pose = Pose(np.array([p.x, p.y, p.z]), np.array([q.w, q.x, q.y, q.z]))
        name = message.topic.removeprefix('tracking/')
        self._measured.add_pose(name, _seconds(message.data), *pose)

    def _take_belief(self, message: BagMessage) -> None:
        names, points = read_cloud(message.data, message.topic)
        if names != ['weight', *(p.name for p in self._task.parameters)]:
            return
        with np.errstate(divide='ignore'):
            belief = Belief(points[:, 1:], weights.normalize(np.log(points[:, 0])))
        self._observer.record_belief(_seconds(message.data), belief)

    def _take_diagnostics(self, message: BagMessage) -> None:
        for node, _, values in statuses(message.data, self._bag.namespace):
            self._observer.record_diagnostics(node, _seconds(message.data), values)


def _seconds(message: Any) -> float:
    return stamp_ns(message.header.stamp) / NANO
