"""The state of robot and objects at one moment, put together from what was measured."""

import math

import numpy as np
import numpy.typing as npt

from emppi_ros.errors import PoseError, StaleInputError, unknown
from emppi_ros.model.ensemble import State
from emppi_ros.state import tracking
from emppi_ros.state.series import Series
from emppi_ros.state.tracking import Pose, Track
from emppi_ros.tasks.task import BoundObject, Task

Array = npt.NDArray[np.float64]


class Estimator:
    """Keeps joint readings and tracks; answers for the state at any recent time."""

    def __init__(self, task: Task) -> None:
        """Wait for the measurements of a task."""
        self._task = task
        self._joints = Series('joint states')
        self._tracks: dict[str, Track] = {}
        self._rest = {name: _rest(task, item) for name, item in task.objects.items()}

    @property
    def stamp(self) -> float:
        """The latest time for which everything was measured, -inf before that."""
        stamps = [track.stamp for track in self._tracks.values()]
        if len(stamps) < len(self._task.objects):
            return -math.inf
        return min([self._joints.last_stamp, *stamps])

    @property
    def joints_stamp(self) -> float:
        """The time of the newest joint reading, -inf before the first."""
        return self._joints.last_stamp

    def add_joints(self, stamp: float, position: Array, velocity: Array) -> bool:
        """Take a joint reading, in the order of the robot's joints; False if it is an old one."""
        return self._joints.append(stamp, np.concatenate([position, velocity]))

    def add_pose(self, name: str, stamp: float, pose: Pose) -> Pose | None:
        """Take a tracked pose; return it as measured, or None if it is an old one."""
        if name not in self._task.objects:
            raise PoseError(unknown('object', name, self._task.objects))
        settings = self._task.objects[name].settings
        pose = tracking.checked(pose, name)
        if settings.motion == 'planar':
            pose = tracking.project(pose, self._rest[name])
        track = self._tracks.get(name)
        if track is not None and stamp <= track.stamp:
            return None
        self._tracks[name] = (
            tracking.update(settings, track, stamp, pose)
            if track is not None
            else tracking.start(settings, stamp, pose)
        )
        return pose

    def clear(self) -> None:
        """Forget everything, as after a reset of the scene."""
        self._joints.clear()
        self._tracks.clear()

    def state(self, stamp: float) -> State:
        """Return the estimated state at a time close to the last measurements."""
        task = self._task
        missing = [name for name in task.objects if name not in self._tracks]
        if missing:
            raise StaleInputError(f'no pose received yet of: {", ".join(missing)}')
        start = task.start()
        joints = self._joints.interpolate(stamp)
        count = len(task.robot.joints)
        start.qpos[task.map.qpos], start.qvel[task.map.qvel] = joints[:count], joints[count:]
        for name, item in task.objects.items():
            track = tracking.predict(item.settings, self._tracks[name], stamp)
            qpos, qvel = tracking.state(track)
            start.qpos[item.qpos : item.qpos + 7] = qpos
            start.qvel[item.qvel : item.qvel + 6] = qvel
        return start


def with_pose(state: State, item: BoundObject, pose: Pose) -> State:
    """Return a state whose object is where it was measured, not where it was estimated."""
    qpos = state.qpos.copy()
    qpos[item.qpos : item.qpos + 7] = [*pose.position, *pose.quaternion]
    return State(qpos, state.qvel)


def _rest(task: Task, item: BoundObject) -> Pose:
    qpos = task.model.qpos0[item.qpos : item.qpos + 7]
    return Pose(qpos[:3].copy(), qpos[3:].copy())
