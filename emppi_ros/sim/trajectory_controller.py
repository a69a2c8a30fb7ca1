"""
A model of joint_trajectory_controller (ros2_controllers 5.17), compared with recordings of it.

In each update, at a time t, it commands the trajectory's state at t plus a period, and remembers
that state with the label t. Without a point in the past, the next trajectory begins there.
"""

import math

from emppi_ros.bridge import joint_trajectory as trajectories
from emppi_ros.bridge.joint_trajectory import MotionState, Segment, Trajectory
from emppi_ros.core.arrays import Array


class TrajectoryController:
    """Follows the newest trajectory in updates of a period; holds where it is activated."""

    def __init__(self, position: Array, period_s: float, cmd_timeout_s: float = 0.0) -> None:
        """
        Activate at a position (joints,); a `cmd_timeout_s` of 0 is none.

        It interpolates from its desired state, not from the measured one.
        """
        self._period, self._timeout = period_s, cmd_timeout_s
        self.activate(position)

    def activate(self, position: Array) -> None:
        """Hold a position (joints,), and forget all trajectories."""
        self._trajectory: Trajectory | None = None  # None: holds
        self._next: tuple[Trajectory, float] | None = None  # and its start; NaN: as it is sampled
        self.command = self.reference = trajectories.at_rest(position)
        self._updated_at = math.nan  # s, the label of the last command

    def accept(self, trajectory: Trajectory, start: float = math.nan) -> None:
        """Follow a trajectory from the next update on; without `start` [s] it starts then."""
        self._next = trajectory, start

    def update(self, time: float, position: Array, scaling: float = 1.0) -> MotionState:
        """
        Return the command of an update: the state of the trajectory one period later.

        `position` (joints,) is measured. `reference` is the state of the trajectory now. With a
        `scaling` below 1 the time of the trajectory passes more slowly.
        """
        if self._next is not None:
            (self._trajectory, start), self._next = self._next, None
            self._time, self._start = time, time if math.isnan(start) else start
            self._before = self.command
            self._label = time if math.isnan(self._updated_at) else self._updated_at
            self._segment: Segment | None = None  # that was sampled last
        elif self._trajectory is not None:
            self._time += (time - self._updated_at) * scaling
        self._updated_at = time
        if self._trajectory is None:
            return self.command
        age = self._time - self._start
        self.reference = self._sample(age)
        self.command = self._sample(age + self._period)
        if 0.0 < self._timeout < age - self._trajectory.end:
            self._trajectory = None
            self.command = self.reference = trajectories.at_rest(position)
        return self.command

    def _sample(self, age: float) -> MotionState:
        assert self._trajectory is not None
        if self._segment is None or not self._segment.begin <= age < self._segment.end:
            accepted = self._label - self._start
            self._segment = trajectories.segment(self._trajectory, self._before, age, accepted)
        return self._segment.state(age)
