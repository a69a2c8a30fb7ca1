"""`emppi report`: the record of a run from a bag, for the same plots as a demo."""

import contextlib
from typing import Any

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.core.pose import from_message
from emppi_ros.journal.journal import Measurements
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.recordings.message_tables import NANO, stamp_ns, statuses
from emppi_ros.robots.robot import select_joints
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.viz.report.recording import TOPICS, RunObserver

_TASK, _DIAGNOSTICS = 'emppi/task', '/diagnostics'
_MOVING = ('armed', 'moving')  # states of the bridge


def observe(bag: Bag) -> tuple[Task, RunObserver, list[str]]:
    """
    Return the run in a bag, from the first arming, if it is recorded, to a task switch.

    The notes name parts of the bag that are left out.
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
    observer = _observe(task, bag, started, end)
    if not observer.rows['times']:
        raise ReplayError(
            f'{bag.path}: nothing to report: no joint states'
            + ''.join(f', or no tracking/{name}' for name in task.tracked)
        )
    notes = [bag.cut] if bag.cut else []
    if end is not None:
        seconds = (end - bag.span_ns[0]) * 1e-9
        notes.append(f'the task was switched after {seconds:.2f} s: only {task.name} is shown')
    return task, observer, notes


def _same_task(before: str, after: str) -> bool:
    """Return whether two task messages differ at most in tuned parameters."""
    if before == after:
        return True
    try:
        return tuning.is_tuned(config.parse(before, _TASK), config.parse(after, _TASK))
    except EmppiError:
        return False


def _observe(task: Task, bag: Bag, started: float | None, end: int | None) -> RunObserver:
    """Observe all messages, or those recorded before `end` [ns]."""
    observer, measured = RunObserver(task), Measurements(task)
    joints = task.robot.topics.joint_states.removeprefix('/')
    tracked = {f'tracking/{name}': name for name in task.tracked}
    for received in bag.messages({joints, *tracked, *TOPICS}):
        if end is not None and received.time_ns >= end:
            continue  # reading on detects a truncated end
        topic, message = received.topic, received.data
        stamp = _seconds(message)
        with contextlib.suppress(EmppiError):  # the nodes ignored it too, and reported it
            if topic in tracked:
                pose = from_message(message.pose.position, message.pose.orientation)
                measured.add_pose(tracked[topic], stamp, *pose)
            elif topic == joints:
                if observer.started is None and stamp >= (started or 0.0):
                    observer.start(started or stamp)
                values = {'position': message.position, 'velocity': message.velocity}
                rows = select_joints(task.robot.measured_names, message.name, values)
                measured.add_joints(stamp, rows['position'], rows['velocity'])
                observer.record_state(measured.estimator)
            else:
                observer.take(topic, message, bag.namespace)
    return observer


def _seconds(message: Any) -> float:
    return stamp_ns(message.header.stamp) / NANO
