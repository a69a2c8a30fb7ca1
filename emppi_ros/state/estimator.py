"""Estimate the state of robot and objects from joint states and tracked poses; detect jumps."""

import math
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import PoseError, StaleInputError, unknown
from emppi_ros.core.pose import Pose
from emppi_ros.model.ensemble import State
from emppi_ros.robots import continuous_joints
from emppi_ros.state import articulation, tracking
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import Task

_LEAST = 0.05  # m or rad beyond the motion explained by velocities
_NOISE_SDS = 6.0  # Gaussian noise of 24 joints at 50 Hz exceeds it every few days
_MEMORY = 50  # states, over which the noise is averaged
_AHEAD_S = 0.2  # without a pose, objects move on for so long: later it is noise of velocities
_GAP_S = 0.5  # positions are not integrated over longer gaps
_AGREEING = 3  # poses off the track that agree with each other are a jump; fewer are outliers


class Observation(NamedTuple):
    """Input of a belief update: the measured and the estimated state at one time."""

    measured: State  #: measured positions and velocities
    estimated: State  #: filtered positions and velocities
    tracks: dict[str, Track]  #: of jointed objects by name, at their measured poses


class Estimator:
    """Estimates the state at recent times [s], from joint states and poses of `task.tracked`."""

    MEMORY = ('_joints', '_tracks', '_candidates', 'outliers')

    def __init__(self, task: Task) -> None:
        self._task = task
        self._joints = TimeSeries('joint states')
        self._tracks: dict[str, Track] = {}
        self._candidates: dict[str, tuple[Track, int]] = {}  # new track of an object, and poses
        self.outliers = 0  # poses that were dropped: single ones, such as flips of a tag
        poses = {name: task.start().qpos[o.qpos : o.qpos + 7] for name, o in task.objects.items()}
        self._rest = {name: Pose(row[:3], row[3:]) for name, row in poses.items()}

    @property
    def stamp(self) -> float:
        """Latest time for which all measurements are available; -inf before that."""
        stamps = [track.stamp for track in self._tracks.values()]
        if len(stamps) < len(self._task.tracked):
            return -math.inf
        return min([self._joints.last_stamp, *stamps])

    @property
    def joints_stamp(self) -> float:
        """Time of the newest joint state; -inf before the first."""
        return self._joints.last_stamp

    @property
    def joint_positions(self) -> Array:
        """The newest positions (n,), in the order of the robot's joints."""
        return self._joints.last[: len(self._task.robot.joints)]

    def recent_tracks(self, stamp: float, age_s: float) -> dict[str, Track]:
        """Return the motion at a time of each object whose last pose is at most `age_s` older."""
        recent = [name for name, track in self._tracks.items() if stamp - track.stamp <= age_s]
        return {name: self._track(name, stamp) for name in recent}

    def add_joints(self, stamp: float, position: Array, velocity: Array) -> None:
        """Add a joint state (n,), in the robot's order of joints, if it is newer than the last."""
        gain, last = self._task.file.joint_position_gain, self._joints.last_stamp
        robot, before = self._task.robot, None if last == -math.inf else self.joint_positions
        position = continuous_joints.unwrap(robot, robot.joints, position, before)
        if gain < 1.0 and 0.0 < stamp - last < _GAP_S:
            before, speed = np.split(self._joints.last, 2)
            predicted = before + 0.5 * (speed + velocity) * (stamp - last)
            position = predicted + gain * (position - predicted)
        self._joints.append(stamp, np.concatenate([position, velocity]))

    def add_pose(self, name: str, stamp: float, pose: Pose) -> Pose | None:
        """
        Add a tracked pose; return it, projected if the object's motion is planar.

        Return None if it is not newer than the last one, or far off the track: an object that was
        moved has a new track after three poses that agree with each other. PoseError if the object
        is unknown or the pose is not finite.
        """
        if name not in self._task.tracked:
            raise PoseError(unknown('object', name, self._task.tracked))
        settings = self._task.tracked[name]
        pose = tracking.validated(pose, name)
        if settings.motion == 'planar':
            pose = tracking.project(pose, self._rest[name])
        track = self._tracks.get(name)
        if track is not None and stamp <= track.stamp:
            return None
        updated = tracking.update(settings, track, stamp, pose)
        if updated is None:
            updated = self._jumped(name, stamp, pose)
        else:
            self._candidates.pop(name, None)
        if updated is None:
            self.outliers += 1
            return None
        self._tracks[name] = updated
        return pose

    def _jumped(self, name: str, stamp: float, pose: Pose) -> Track | None:
        """Return the new track of an object that was moved; None if the pose may be an outlier."""
        settings = self._task.tracked[name]
        candidate, count = self._candidates.pop(name, (None, 0))
        updated = None
        if candidate is not None and stamp > candidate.stamp:
            updated = tracking.update(settings, candidate, stamp, pose)
        if updated is None:
            updated, count = tracking.start(settings, stamp, pose), 0
        if count + 1 == _AGREEING:
            return updated
        self._candidates[name] = updated, count + 1
        return None

    def clear(self) -> None:
        """Discard all measurements, as after a reset of the scene."""
        self._joints.clear()
        self._tracks.clear()
        self._candidates.clear()

    def state(self, stamp: float) -> State:
        """Return the estimated state at a time; StaleInputError without recent measurements."""
        task = self._task
        self._check_tracked()
        start = task.start()
        joints = self._joints.interpolate(stamp)
        count = len(task.robot.joints)
        start.qpos[task.map.qpos], start.qvel[task.map.qvel] = joints[:count], joints[count:]
        for name, item in task.objects.items():
            qpos, qvel = tracking.state(self._track(name, stamp))
            start.qpos[item.qpos : item.qpos + 7] = qpos
            start.qvel[item.qvel : item.qvel + 6] = qvel
        for name, hung in task.jointed.items():
            joint = articulation.for_model(task.model, hung)
            (q,), (speed,) = articulation.fit(hung, joint, self._track(name, stamp))
            start.qpos[hung.qpos], start.qvel[hung.qvel] = q, speed
        return start

    def observation(self, stamp: float, name: str = '', pose: Pose | None = None) -> Observation:
        """Return measured and estimated state; object `name` has its measured pose, if given."""
        estimated, tracks = self.state(stamp), self.tracks(stamp)
        measured = estimated
        if name in self._task.objects and pose is not None:
            measured = State(estimated.qpos.copy(), estimated.qvel)
            start = self._task.objects[name].qpos
            measured.qpos[start : start + 7] = [*pose.position, *pose.quaternion]
        if name in self._task.jointed and pose is not None:
            tracks[name] = tracks[name]._replace(position=pose.position, rotation=pose.rotation)
        return Observation(measured, estimated, tracks)

    def tracks(self, stamp: float) -> dict[str, Track]:
        """Return the estimated motion of each jointed object at a time."""
        self._check_tracked()
        return {name: self._track(name, stamp) for name in self._task.jointed}

    def _check_tracked(self) -> None:
        missing = [name for name in self._task.tracked if name not in self._tracks]
        if missing:
            raise StaleInputError(f'no pose received yet of: {", ".join(missing)}')

    def _track(self, name: str, stamp: float) -> Track:
        track = self._tracks[name]
        reached = min(stamp, track.stamp + _AHEAD_S)
        return tracking.predict(self._task.tracked[name], track, reached)._replace(stamp=stamp)


class JumpDetector:
    """Compares successive states: a jump is neither explained by velocities nor by noise."""

    MEMORY = ('_count', '_variance')

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._count, self._variance = 0, np.zeros(model.nv)

    def update(self, elapsed: float, before: State, after: State) -> bool:
        """Return whether anything jumped from one state to the next, `elapsed` [s] later."""
        moved = np.empty(self._model.nv)
        mujoco.mj_differentiatePos(self._model, moved, 1.0, before.qpos, after.qpos)
        explained = elapsed * (np.abs(before.qvel) + np.abs(after.qvel))
        excess = np.maximum(np.abs(moved) - explained, 0.0)
        limit = np.maximum(_LEAST, _NOISE_SDS * np.sqrt(self._variance))
        self._count += 1
        share = max(1.0 / self._count, 1.0 / _MEMORY)
        self._variance += share * (np.minimum(excess, limit) ** 2 - self._variance)
        return bool(np.any(excess > limit))
